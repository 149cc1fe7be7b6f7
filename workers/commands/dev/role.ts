/** The node of a development network: it makes its chain, has keys that everybody knows, and a sequencer. */
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import type { ForkTimes } from '../../../engine/chainspec/fork-times.ts'
import { NETWORKS } from '../../../engine/chainspec/networks.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import type { Marker } from '../../../engine/storage/directory/marker.ts'
import { forkTimesOf } from '../../config/fork-time.ts'
import { behindOf } from '../../config/serving.ts'
import { type ChainChoice, GENESIS_FILE, given } from '../../data/datadir.ts'
import type { Role } from '../../node/role.ts'
import type { DevConfig } from './flags.ts'
import { startSequencer } from './sequencer.ts'

/** Less than this nobody notices; on a busy machine a block is late now and then. */
const HEAD_MS = 10_000
const FEED_MS = 1_000

export function devRole(config: DevConfig): Role {
  const { blockTimeMs, flashblockTimeMs } = config
  return {
    chain: devChain(config),
    keys: DEV_ACCOUNTS.map(({ privateKey }) => hexToBytes(privateKey)),
    readiness: {
      headMs: Math.max(HEAD_MS, 5 * blockTimeMs),
      feedMs: Math.max(FEED_MS, 3 * flashblockTimeMs),
    },
    finality: {
      safeLag: config.safeLag,
      finalizedLag: config.finalizedLag,
      undoBlocks: Math.max(config.finalizedLag, config.snapshotBlocks),
    },
    legacyUrl: undefined,
    behind: behindOf(config.behind, flashblockTimeMs),
    // It is never behind anybody.
    syncing: () => false,
    startSource: (link) => startSequencer(config, link),
  }
}

/** Made from the flags once, then again as the directory says it was made. */
export const devChain = (
  config: Pick<DevConfig, 'chain' | 'chainId' | 'genesisAlloc' | 'gasLimit' | 'blockTimeMs'> &
    Partial<Pick<DevConfig, 'forkTime'>>,
): ChainChoice => ({
  choose: ({ marker, predeploysFile, nowSeconds }) => ({
    name: config.chain,
    forkTimes: laidOver(marker?.forkTimes, forkTimesOf(config.forkTime ?? [])),
    dev: {
      chainId: config.chainId ?? idOf(marker, config.chain),
      predeploysFile,
      allocFile: config.genesisAlloc,
      genesisTimestamp: given(marker?.genesisTimestamp) ?? nowSeconds,
      gasLimit: config.gasLimit ?? given(marker?.genesisGasLimit),
      blockTime: config.blockTimeMs / 1_000,
    },
  }),
  made: { chain: config.chain, chainId: config.chainId },
  advice: (held) => adviceFor(config, held),
  check() {},
})

/** A later start that gives no time of a fork goes on with the earlier one. */
const laidOver = (held: ForkTimes | undefined, given: ForkTimes | undefined) =>
  held === undefined || given === undefined ? (given ?? held) : { ...held, ...given }

/** The id that the directory was made with, where it is a chain of the same name. */
const idOf = (marker: Marker | undefined, name: string): number | undefined =>
  marker?.chain === name ? given(marker.chainId) : undefined

type MadeBy = Pick<DevConfig, 'chain' | 'chainId' | 'genesisAlloc' | 'gasLimit'>

/** Flags that make a chain are for an empty directory: those that differ from what it was made with are named. */
function adviceFor({ chain, chainId, genesisAlloc, gasLimit }: MadeBy, held: Marker): string {
  if (chain !== held.chain)
    return held.chain === GENESIS_FILE
      ? 'give the genesis.json of the directory to --chain'
      : `say --chain ${held.chain}`
  const others = [
    ...(chainId === undefined || chainId === held.chainId ? [] : ['--chain-id']),
    ...(gasLimit === undefined || gasLimit === held.genesisGasLimit ? [] : ['--gas-limit']),
    ...(genesisAlloc === undefined ? [] : ['--genesis-alloc']),
  ]
  if (others.length > 0) return `leave out ${others.join(' and ')}`
  return NETWORKS.has(chain) ? 'give the --genesis-alloc FILE that it was made with' : ''
}

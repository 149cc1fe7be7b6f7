/**
 * Role of a development network's node: it makes its chain, has public keys, and runs a sequencer.
 */
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import type { ForkTimes } from '../../../engine/chainspec/fork-times.ts'
import { NETWORKS } from '../../../engine/chainspec/networks.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import type { Marker } from '../../../engine/storage/directory/marker.ts'
import { forkTimesOf } from '../../config/fork-time.ts'
import { flashblockLagOf } from '../../config/serving-options.ts'
import { type ChainChoice, GENESIS_FILE, given } from '../../data/datadir.ts'
import type { Role } from '../../node/role.ts'
import type { DevConfig } from './flags.ts'
import { startSequencer } from './sequencer.ts'

/** A busy machine is late with a block now and then; /readyz tolerates this long. */
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
    forwardingUrl: undefined,
    flashblockLag: flashblockLagOf(config.flashblockLag, flashblockTimeMs),
    // The node makes the chain itself, so it is never behind another node.
    syncing: () => false,
    startSource: (link) => startSequencer(config, link),
  }
}

/** The chain is made from the flags once; later starts take the values stored in the directory. */
export const devChain = (
  config: Pick<DevConfig, 'chain' | 'chainId' | 'genesisAlloc' | 'gasLimit' | 'blockTimeMs'> &
    Partial<Pick<DevConfig, 'forkTime'>>,
): ChainChoice => ({
  choose: ({ marker, predeploysFile, nowSeconds }) => ({
    name: config.chain,
    forkTimes: overlayForkTimes(marker?.forkTimes, forkTimesOf(config.forkTime ?? [])),
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
  advice: (stored) => adviceFor(config, stored),
  check() {},
})

/** Forks without a time in this start's flags retain the times of an earlier start. */
const overlayForkTimes = (stored: ForkTimes | undefined, given: ForkTimes | undefined) =>
  stored === undefined || given === undefined ? (given ?? stored) : { ...stored, ...given }

/** The chain id that is stored in the directory, if the directory has the same chain name. */
const idOf = (marker: Marker | undefined, name: string): number | undefined =>
  marker?.chain === name ? given(marker.chainId) : undefined

type MadeBy = Pick<DevConfig, 'chain' | 'chainId' | 'genesisAlloc' | 'gasLimit'>

/**
 * Names the flags that differ from those that made the directory: they are valid for an empty
 * directory only.
 */
function adviceFor({ chain, chainId, genesisAlloc, gasLimit }: MadeBy, stored: Marker): string {
  if (chain !== stored.chain)
    return stored.chain === GENESIS_FILE
      ? 'give the genesis.json of the directory to --chain'
      : `give --chain ${stored.chain}`
  const others = [
    ...(chainId === undefined || chainId === stored.chainId ? [] : ['--chain-id']),
    ...(gasLimit === undefined || gasLimit === stored.genesisGasLimit ? [] : ['--gas-limit']),
    ...(genesisAlloc === undefined ? [] : ['--genesis-alloc']),
  ]
  if (others.length > 0) return `leave out ${others.join(' and ')}`
  return NETWORKS.has(chain)
    ? 'give the --genesis-alloc FILE with which the directory was created'
    : ''
}

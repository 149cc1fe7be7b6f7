/** The node of a development network: it makes its chain, has keys that everybody knows, and a sequencer. */
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { behindOf } from '../../config/serving.ts'
import { type ChainChoice, given } from '../../data/datadir.ts'
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
  config: Pick<DevConfig, 'chain' | 'chainId' | 'genesisAlloc' | 'gasLimit' | 'blockTimeMs'>,
): ChainChoice => ({
  choose: ({ marker, predeploysFile, nowSeconds }) => ({
    name: config.chain,
    dev: {
      chainId: config.chainId,
      predeploysFile,
      allocFile: config.genesisAlloc,
      genesisTimestamp: given(marker?.genesisTimestamp) ?? nowSeconds,
      gasLimit: config.gasLimit ?? given(marker?.genesisGasLimit),
      blockTime: config.blockTimeMs / 1_000,
    },
  }),
  made: { chain: config.chain, chainId: config.chainId },
  check() {},
})

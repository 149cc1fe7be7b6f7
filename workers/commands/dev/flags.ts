/** Flags of `flashnode dev`. */
import { WIRE_FORMS } from '../../../engine/flashblocks/codec.ts'
import type { ConfigOf } from '../../config/command.ts'
import { FORK_TIME } from '../../config/fork-time.ts'
import { choice, integer, option, optional, text } from '../../config/option.ts'
import { LIMIT_FLAGS } from '../../config/options.ts'
import {
  FLASHBLOCK_LAG,
  isLoopbackHost,
  type NodeDefaults,
  SERVING,
} from '../../config/serving-options.ts'

const DAY_MS = 86_400_000
const UINT32 = 0xffff_ffff

/**
 * A development network serves one program, which may send all its requests at once on a private
 * port.
 */
const SOCKETS_ON_LOOPBACK = 4_096

/** Default for the sockets that one address may open. */
export const socketsPerClientOn = (host: string): number =>
  isLoopbackHost(host) ? SOCKETS_ON_LOOPBACK : LIMIT_FLAGS.limitSocketsPerClient.fallback

export const FLAGS = {
  ...SERVING,
  host: option('ADDRESS', text, {
    fallback: SERVING.host.fallback,
    text: 'address to listen on; one beyond loopback needs --allow-insecure-unlock',
  }),
  blockTimeMs: option('MS', integerSeconds, {
    fallback: 1_000,
    text: 'time between blocks, a multiple of 1000',
  }),
  flashblockTimeMs: option('MS', integer(20, DAY_MS), {
    fallback: 200,
    text: 'time between flashblocks',
  }),
  limitSocketsPerClient: option(
    LIMIT_FLAGS.limitSocketsPerClient.value!,
    optional(LIMIT_FLAGS.limitSocketsPerClient.decode),
    {
      fallback: undefined,
      text: LIMIT_FLAGS.limitSocketsPerClient.text,
      defaultText: `${SOCKETS_ON_LOOPBACK} on a loopback --host, else ${LIMIT_FLAGS.limitSocketsPerClient.fallback}`,
    },
  ),
  flashblockLag: FLASHBLOCK_LAG,
  feedForm: option(WIRE_FORMS.join('|'), choice(...WIRE_FORMS), {
    fallback: 'xlayer',
    text: 'messages of /feed: 0x1E and Brotli (xlayer), JSON text (plain), or subblocks as JSON text',
  }),
  chainId: option('N', optional(integer(1, Number.MAX_SAFE_INTEGER)), {
    fallback: undefined,
    text: 'chain id',
    defaultText: 'that of --chain',
  }),
  forkTime: FORK_TIME,
  gasLimit: option('GAS', optional(integer(5_000_000, 1_000_000_000)), {
    fallback: undefined,
    text: 'gas limit of a block; valid for a new data directory only',
    defaultText: '50000000',
  }),
  gaslessBlockGasLimit: option('GAS', integer(0, 1_000_000_000), {
    fallback: 60_000_000,
    text: 'maximum gas of gasless transactions in a block; 0 is no limit',
  }),
  genesisAlloc: option('FILE', optional(text), {
    fallback: undefined,
    text: 'further accounts of the genesis block (JSON)',
  }),
  safeLag: option('BLOCKS', integer(0, 10_000), {
    fallback: 16,
    text: 'blocks by which `safe` trails the head',
  }),
  finalizedLag: option('BLOCKS', integer(0, 10_000), {
    fallback: 64,
    text: 'blocks by which `finalized` trails the head; no reorg is deeper',
  }),
  snapshotBlocks: option('BLOCKS', integer(0, 100_000), {
    fallback: 1_000,
    text: 'blocks that an evm_snapshot prevents from becoming final; with more blocks after it, the snapshot is lost',
  }),
  l1BaseFee: option('WEI', integer(0, Number.MAX_SAFE_INTEGER), {
    fallback: 1_000_000_000,
    text: 'base fee of the simulated L1',
  }),
  l1BlobBaseFee: option('WEI', integer(0, Number.MAX_SAFE_INTEGER), {
    fallback: 1,
    text: 'blob base fee of the simulated L1',
  }),
  // Both scalars are those of X Layer's system configuration at its first block.
  l1BaseFeeScalar: option('N', integer(0, UINT32), {
    fallback: 1_368,
    text: 'factor of the L1 base fee in the L1 fee, in millionths',
  }),
  l1BlobBaseFeeScalar: option('N', integer(0, UINT32), {
    fallback: 801_949,
    text: 'factor of the blob base fee in the L1 fee, in millionths',
  }),
  operatorFeeScalar: option('N', integer(0, UINT32), {
    fallback: 0,
    text: 'operator fee, in hundreds of wei per gas',
  }),
  operatorFeeConstant: option('WEI', integer(0, Number.MAX_SAFE_INTEGER), {
    fallback: 0,
    text: 'operator fee per transaction',
  }),
  daFootprintScalar: option('GAS', integer(0, 65_535), {
    fallback: 400,
    text: 'block gas for each byte that a transaction takes on L1, by estimate',
  }),
}

export type DevDefaults = NodeDefaults & {
  readonly chain: string
  readonly limitSocketsPerClient: number
}
export type DevConfig = ConfigOf<typeof FLAGS, DevDefaults>

function integerSeconds(wire: string): number {
  const ms = integer(1_000, DAY_MS)(wire)
  if (ms % 1_000 !== 0)
    throw new Error(
      'expected a multiple of 1000, such as 2000, because timestamps are whole seconds',
    )
  return ms
}

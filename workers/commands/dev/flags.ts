/** What a development network can be told. */
import { WIRE_FORMS } from '../../../engine/flashblocks/codec.ts'
import type { ConfigOf } from '../../config/command.ts'
import { FORK_TIME } from '../../config/fork-time.ts'
import { choice, integer, option, optional, text } from '../../config/option.ts'
import { LIMIT_FLAGS } from '../../config/options.ts'
import { BEHIND, isLoopbackHost, type NodeDefaults, SERVING } from '../../config/serving.ts'

const DAY_MS = 86_400_000
const UINT32 = 0xffff_ffff

/** One program with all its requests at once is what a development network is for, and its port is nobody else's. */
const SOCKETS_ON_LOOPBACK = 4_096

/** What one address may have open where nobody has said it. */
export const socketsPerClientOn = (host: string): number =>
  isLoopbackHost(host) ? SOCKETS_ON_LOOPBACK : LIMIT_FLAGS.limitSocketsPerClient.fallback

export const FLAGS = {
  ...SERVING,
  host: option('ADDRESS', text, {
    fallback: SERVING.host.fallback,
    text: 'address to listen on; beyond loopback only with --allow-insecure-unlock',
  }),
  blockTimeMs: option('MS', wholeSeconds, {
    fallback: 1_000,
    text: 'time between blocks, in whole seconds',
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
      shown: `${SOCKETS_ON_LOOPBACK} on a loopback --host, else ${LIMIT_FLAGS.limitSocketsPerClient.fallback}`,
    },
  ),
  behind: BEHIND,
  feedForm: option(WIRE_FORMS.join('|'), choice(...WIRE_FORMS), {
    fallback: 'xlayer',
    text: 'messages of /feed: 0x1E and brotli, JSON text, or subblocks as JSON text',
  }),
  chainId: option('N', optional(integer(1, Number.MAX_SAFE_INTEGER)), {
    fallback: undefined,
    text: 'instead of the id of --chain',
  }),
  forkTime: FORK_TIME,
  gasLimit: option('GAS', optional(integer(5_000_000, 1_000_000_000)), {
    fallback: undefined,
    text: 'gas of a block, chosen when the chain is made',
    shown: '50000000',
  }),
  gaslessBlockGasLimit: option('GAS', integer(0, 1_000_000_000), {
    fallback: 60_000_000,
    text: 'gas that gasless transactions may use of a block (0: no bound)',
  }),
  genesisAlloc: option('FILE', optional(text), {
    fallback: undefined,
    text: 'further accounts of the genesis (JSON)',
  }),
  safeLag: option('BLOCKS', integer(0, 10_000), {
    fallback: 16,
    text: 'by which `safe` trails the head',
  }),
  finalizedLag: option('BLOCKS', integer(0, 10_000), {
    fallback: 64,
    text: 'by which `finalized` trails the head: so many can be taken back',
  }),
  snapshotBlocks: option('BLOCKS', integer(0, 100_000), {
    fallback: 1_000,
    text: 'that a snapshot keeps from becoming final: older ones are lost',
  }),
  l1BaseFee: option('WEI', integer(0, Number.MAX_SAFE_INTEGER), {
    fallback: 1_000_000_000,
    text: 'base fee of the made-up L1',
  }),
  l1BlobBaseFee: option('WEI', integer(0, Number.MAX_SAFE_INTEGER), {
    fallback: 1,
    text: 'blob base fee of the made-up L1',
  }),
  // Both as X Layer's system configuration had them at its first block.
  l1BaseFeeScalar: option('N', integer(0, UINT32), {
    fallback: 1_368,
    text: 'part of the L1 base fee in the L1 fee, in millionths',
  }),
  l1BlobBaseFeeScalar: option('N', integer(0, UINT32), {
    fallback: 801_949,
    text: 'part of the blob base fee in the L1 fee, in millionths',
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
    text: 'block gas that an estimated byte of a transaction on L1 takes',
  }),
}

export type DevDefaults = NodeDefaults & {
  readonly chain: string
  readonly limitSocketsPerClient: number
}
export type DevConfig = ConfigOf<typeof FLAGS, DevDefaults>

function wholeSeconds(wire: string): number {
  const ms = integer(1_000, DAY_MS)(wire)
  if (ms % 1_000 !== 0)
    throw new Error('expected whole seconds, such as 2000: timestamps have no less')
  return ms
}

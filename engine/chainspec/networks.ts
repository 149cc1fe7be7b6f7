/** The networks known by name; schedules and first blocks match their own nodes. */
import { hexToBytes } from '../primitives/hex.ts'
import type { Schedule } from './forks.ts'
import { ETHEREUM_AT_0, type Network, PROXIED_PASSER_ROOT, SEQUENCER_VAULT } from './network.ts'
import type { ChainParameters } from './rules.ts'
import { SUPERCHAIN_NETWORKS } from './superchain-networks.ts'

/**
 * Allowlist contract of gasless transactions: one address on X Layer's two networks, another
 * elsewhere.
 */
const GASLESS = hexToBytes('0x19787404b0c70021b4752028f7e3a92313885b27')
const GASLESS_ELSEWHERE = hexToBytes('0xa9092bc02e2000a3f8996d1991621e9a03ef2dfe')

/** Every fork up to Isthmus (Prague) from the first block on. */
export const ISTHMUS_AT_0 = {
  ...ETHEREUM_AT_0,
  shanghai: 0n,
  cancun: 0n,
  prague: 0n,
  bedrock: 0n,
  regolith: 0n,
  canyon: 0n,
  ecotone: 0n,
  fjord: 0n,
  granite: 0n,
  holocene: 0n,
  isthmus: 0n,
} satisfies Schedule
/**
 * Every fork that X Layer has, with those that they bring, from the first block on. Development
 * chains use it.
 */
export const NEWEST_AT_0 = { ...ISTHMUS_AT_0, jovian: 0n } satisfies Schedule

/**
 * Returns X Layer's parameters for a schedule and id: its two networks, or development chains with
 * its rules.
 */
export function xlayerParameters(chainId: bigint, schedule: Schedule): ChainParameters {
  return {
    chainId,
    schedule,
    denominator: 100_000_000n,
    elasticity: 1n,
    gaslessContract: chainId === 196n || chainId === 1952n ? GASLESS : GASLESS_ELSEWHERE,
  }
}

/** Version 0x00, denominator 250, elasticity 6. */
const XLAYER_EXTRA_DATA = hexToBytes('0x00000000fa00000006')

const xlayer: Network = {
  name: 'xlayer',
  parameters: xlayerParameters(196n, { ...ISTHMUS_AT_0, jovian: 1_764_691_201n }),
  genesis: {
    number: 42_810_021n,
    timestamp: 1_761_579_057n,
    parentHash: hexToBytes('0x651b8e585c6af2eab2b0aeecb3996e2560f7fafad9892a164706c9c560d795aa'),
    stateRoot: hexToBytes('0x5d335834cb1c1c20a1f44f964b16cd409aa5d10891d5c6cf26f1f2c26726efcf'),
    messagePasserRoot: PROXIED_PASSER_ROOT,
    gasLimit: 50_000_000n,
    baseFeePerGas: 100_401_605n,
    extraData: XLAYER_EXTRA_DATA,
    coinbase: SEQUENCER_VAULT,
  },
  blockTime: 1,
}

const xlayerTestnet: Network = {
  name: 'xlayer-testnet',
  parameters: xlayerParameters(1952n, { ...ISTHMUS_AT_0, jovian: 1_764_327_600n }),
  genesis: {
    number: 12_241_700n,
    timestamp: 1_760_700_537n,
    parentHash: hexToBytes('0xdc9ee94a48a651d8264f9fe973c6a3e4b9c74614d233a9e523d27edbfc645158'),
    stateRoot: hexToBytes('0x3de62c8ade3d3adaa88d48a3ffeebd7c8b6c5b81906d706c22f02f0d2dd3b8fa'),
    messagePasserRoot: PROXIED_PASSER_ROOT,
    gasLimit: 30_000_000n,
    baseFeePerGas: 100_000_000n,
    extraData: XLAYER_EXTRA_DATA,
    coinbase: SEQUENCER_VAULT,
  },
  blockTime: 1,
}

export const NETWORKS: ReadonlyMap<string, Network> = new Map(
  [xlayer, xlayerTestnet, ...SUPERCHAIN_NETWORKS].map((network) => [network.name, network]),
)

/** The chains known by name: schedules and first blocks as their own nodes have them. */
import type { Bytes } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { EMPTY_ROOT } from '../primitives/keccak.ts'
import type { Schedule } from './forks.ts'
import type { GenesisFields, GenesisRoots } from './genesis.ts'
import type { ChainParameters } from './rules.ts'

export type Network = {
  readonly name: string
  readonly parameters: ChainParameters
  readonly genesis: GenesisFields & GenesisRoots
  /** Seconds. */
  readonly blockTime: number
  /** From where fork ids count, if it is an older genesis. */
  readonly forkIdGenesis?: Bytes
}

const SEQUENCER_VAULT = hexToBytes('0x4200000000000000000000000000000000000011')
/** The whitelist contract of gasless transactions, at one address on both of X Layer's networks and at another elsewhere. */
const GASLESS = hexToBytes('0x19787404b0c70021b4752028f7e3a92313885b27')
const GASLESS_ELSEWHERE = hexToBytes('0xa9092bc02e2000a3f8996d1991621e9a03ef2dfe')

const ETHEREUM_AT_0 = {
  homestead: 0n,
  tangerineWhistle: 0n,
  spuriousDragon: 0n,
  byzantium: 0n,
  constantinople: 0n,
  petersburg: 0n,
  istanbul: 0n,
  muirGlacier: 0n,
  berlin: 0n,
  london: 0n,
  arrowGlacier: 0n,
  grayGlacier: 0n,
  paris: 0n,
} satisfies Schedule

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
/** Every fork that X Layer has, and what they bring of Ethereum's, from the first block on: a development chain's own. */
export const NEWEST_AT_0 = { ...ISTHMUS_AT_0, jovian: 0n } satisfies Schedule

/** X Layer's parameters under another schedule or id: its two networks, and development chains with its rules. */
export function xlayerParameters(chainId: bigint, schedule: Schedule): ChainParameters {
  return {
    chainId,
    schedule,
    denominator: 100_000_000n,
    elasticity: 1n,
    gaslessContract: chainId === 196n || chainId === 1952n ? GASLESS : GASLESS_ELSEWHERE,
  }
}

/** Storage root of X Layer's L2ToL1MessagePasser at its first block: the two slots of its proxy. */
const XLAYER_MESSAGE_PASSER_ROOT = hexToBytes(
  '0x8ed4baae3a927be3dea54996b4d5899f8c01e7594bf50b17dc1e741388ce3d12',
)
/** 0x00, denominator 250, elasticity 6. */
const XLAYER_EXTRA_DATA = hexToBytes('0x00000000fa00000006')

const xlayer: Network = {
  name: 'xlayer',
  parameters: xlayerParameters(196n, { ...ISTHMUS_AT_0, jovian: 1_764_691_201n }),
  genesis: {
    number: 42_810_021n,
    timestamp: 1_761_579_057n,
    parentHash: hexToBytes('0x651b8e585c6af2eab2b0aeecb3996e2560f7fafad9892a164706c9c560d795aa'),
    stateRoot: hexToBytes('0x5d335834cb1c1c20a1f44f964b16cd409aa5d10891d5c6cf26f1f2c26726efcf'),
    messagePasserRoot: XLAYER_MESSAGE_PASSER_ROOT,
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
    messagePasserRoot: XLAYER_MESSAGE_PASSER_ROOT,
    gasLimit: 30_000_000n,
    baseFeePerGas: 100_000_000n,
    extraData: XLAYER_EXTRA_DATA,
    coinbase: SEQUENCER_VAULT,
  },
  blockTime: 1,
}

const optimismParameters = (chainId: bigint, schedule: Schedule): ChainParameters => ({
  chainId,
  schedule,
  denominator: 50n,
  laterDenominator: 250n,
  elasticity: 6n,
})
/** What the first Bedrock blocks of both OP networks have in common. */
const BEDROCK_GENESIS = {
  messagePasserRoot: EMPTY_ROOT,
  gasLimit: 30_000_000n,
  baseFeePerGas: 1_000_000_000n,
  extraData: Uint8Array.from(Buffer.from('BEDROCK')),
  coinbase: SEQUENCER_VAULT,
}
const BEDROCK_BLOCK = 105_235_063n

// Starts at the first Bedrock block: what came before has other rules and another database.
const opMainnet: Network = {
  name: 'op-mainnet',
  parameters: optimismParameters(10n, {
    ...ETHEREUM_AT_0,
    berlin: 3_950_000n,
    london: BEDROCK_BLOCK,
    arrowGlacier: BEDROCK_BLOCK,
    grayGlacier: BEDROCK_BLOCK,
    paris: BEDROCK_BLOCK,
    shanghai: 1_704_992_401n,
    cancun: 1_710_374_401n,
    prague: 1_746_806_401n,
    bedrock: BEDROCK_BLOCK,
    regolith: 0n,
    canyon: 1_704_992_401n,
    ecotone: 1_710_374_401n,
    fjord: 1_720_627_201n,
    granite: 1_726_070_401n,
    holocene: 1_736_445_601n,
    isthmus: 1_746_806_401n,
    jovian: 1_764_691_201n,
    karst: 1_783_526_401n,
    lagoon: 1_799_683_201n,
  }),
  genesis: {
    ...BEDROCK_GENESIS,
    number: BEDROCK_BLOCK,
    timestamp: 1_686_068_903n,
    parentHash: hexToBytes('0x21a168dfa5e727926063a28ba16fd5ee84c814e847c81a699c7a0ea551e4ca50'),
    stateRoot: hexToBytes('0x920314c198da844a041d63bf6cbe8b59583165fd2229d1b3f599da812fd424cb'),
  },
  blockTime: 2,
  forkIdGenesis: hexToBytes('0x7ca38a1916c42007829c55e69d3e9a73265554b586a499015373241b8a3fa48b'),
}

const opSepolia: Network = {
  name: 'op-sepolia',
  parameters: optimismParameters(11_155_420n, {
    ...ETHEREUM_AT_0,
    shanghai: 1_699_981_200n,
    cancun: 1_708_534_800n,
    prague: 1_744_905_600n,
    bedrock: 0n,
    regolith: 0n,
    canyon: 1_699_981_200n,
    ecotone: 1_708_534_800n,
    fjord: 1_716_998_400n,
    granite: 1_723_478_400n,
    holocene: 1_732_633_200n,
    isthmus: 1_744_905_600n,
    jovian: 1_763_568_001n,
    karst: 1_781_712_001n,
    lagoon: 1_796_918_401n,
  }),
  genesis: {
    ...BEDROCK_GENESIS,
    number: 0n,
    timestamp: 1_691_802_540n,
    stateRoot: hexToBytes('0x06787a17a3ed87c339a39dbbeeb311578a0c83ed29daa2db95da62b28efce8a9'),
  },
  blockTime: 2,
}

export const NETWORKS: ReadonlyMap<string, Network> = new Map(
  [xlayer, xlayerTestnet, opMainnet, opSepolia].map((network) => [network.name, network]),
)

/**
 * OP Mainnet and other Superchain networks, with their test networks.
 * Fork times and first blocks come from ethereum-optimism/superchain-registry (8336d2ae,
 * 2026-08-04). State roots were computed from its genesis files and give the registry's hashes.
 * Times of Lagoon, and of World Chain's Karst, come from the releases op-reth v2.10.0 and op-node
 * v1.19.6.
 */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { EMPTY_ROOT } from '../primitives/keccak.ts'
import { fillBrought } from './fork-times.ts'
import type { Schedule } from './forks.ts'
import { ETHEREUM_AT_0, type Network, PROXIED_PASSER_ROOT, SEQUENCER_VAULT } from './network.ts'
import type { ChainParameters } from './rules.ts'

const MAINNET_TIMES = {
  canyon: 1_704_992_401n,
  ecotone: 1_710_374_401n,
  fjord: 1_720_627_201n,
  granite: 1_726_070_401n,
  holocene: 1_736_445_601n,
  isthmus: 1_746_806_401n,
  jovian: 1_764_691_201n,
  karst: 1_783_526_401n,
} satisfies Schedule
const SEPOLIA_TIMES = {
  canyon: 1_699_981_200n,
  ecotone: 1_708_534_800n,
  fjord: 1_716_998_400n,
  granite: 1_723_478_400n,
  holocene: 1_732_633_200n,
  isthmus: 1_744_905_600n,
  jovian: 1_763_568_001n,
  karst: 1_781_712_001n,
} satisfies Schedule
const MAINNET_LAGOON = { lagoon: 1_799_683_201n }
const SEPOLIA_LAGOON = { lagoon: 1_796_918_401n }
const TO_ECOTONE_AT_0 = { canyon: 0n, ecotone: 0n }
const TO_GRANITE_AT_0 = { ...TO_ECOTONE_AT_0, fjord: 0n, granite: 0n }

type Stated = {
  readonly name: string
  readonly chainId: bigint
  /** Seconds. */
  readonly blockTime: number
  /** Timestamp of the first block, in seconds. */
  readonly timestamp: bigint
  readonly stateRoot: `0x${string}`
  readonly times: Schedule
  /** Fields that differ from most networks. */
  readonly genesis?: Partial<Network['genesis']>
  readonly fees?: Partial<Pick<ChainParameters, 'denominator' | 'elasticity'>>
  readonly forkIdGenesis?: Bytes
}

function networkOf({ name, chainId, blockTime, times, fees, ...of }: Stated): Network {
  const schedule = { ...ETHEREUM_AT_0, bedrock: 0n, regolith: 0n, ...times }
  fillBrought(schedule)
  return {
    name,
    blockTime,
    ...(of.forkIdGenesis === undefined ? {} : { forkIdGenesis: of.forkIdGenesis }),
    parameters: {
      chainId,
      schedule,
      denominator: 50n,
      laterDenominator: 250n,
      elasticity: 6n,
      ...fees,
    },
    genesis: {
      number: 0n,
      timestamp: of.timestamp,
      stateRoot: hexToBytes(of.stateRoot),
      messagePasserRoot: PROXIED_PASSER_ROOT,
      gasLimit: 30_000_000n,
      baseFeePerGas: 1_000_000_000n,
      coinbase: SEQUENCER_VAULT,
      extraData: Uint8Array.from(Buffer.from('BEDROCK')),
      ...of.genesis,
    },
  }
}

const BEDROCK_BLOCK = 105_235_063n
const NO_EXTRA_DATA = { extraData: NO_BYTES }

const MAINNETS: readonly Stated[] = [
  {
    name: 'op-mainnet',
    chainId: 10n,
    blockTime: 2,
    timestamp: 1_686_068_903n,
    stateRoot: '0x920314c198da844a041d63bf6cbe8b59583165fd2229d1b3f599da812fd424cb',
    times: {
      berlin: 3_950_000n,
      london: BEDROCK_BLOCK,
      arrowGlacier: BEDROCK_BLOCK,
      grayGlacier: BEDROCK_BLOCK,
      paris: BEDROCK_BLOCK,
      bedrock: BEDROCK_BLOCK,
      ...MAINNET_TIMES,
      ...MAINNET_LAGOON,
    },
    /*
     * The network starts at the first Bedrock block, because older blocks have other rules and
     * another database.
     */
    genesis: {
      number: BEDROCK_BLOCK,
      messagePasserRoot: EMPTY_ROOT,
      parentHash: hexToBytes('0x21a168dfa5e727926063a28ba16fd5ee84c814e847c81a699c7a0ea551e4ca50'),
    },
    forkIdGenesis: hexToBytes('0x7ca38a1916c42007829c55e69d3e9a73265554b586a499015373241b8a3fa48b'),
  },
  {
    name: 'unichain',
    chainId: 130n,
    blockTime: 1,
    timestamp: 1_730_748_359n,
    stateRoot: '0xf696bfdf37cad25bb64afb3ab462bff84f61829e2948bb6929cc250a67e54882',
    times: { ...MAINNET_TIMES, ...MAINNET_LAGOON, ...TO_GRANITE_AT_0 },
  },
  {
    name: 'ink',
    chainId: 57_073n,
    blockTime: 1,
    timestamp: 1_733_498_411n,
    stateRoot: '0xade3966d0c8786ea34248899b5f3d9e6b7209083290e67d9372e41d4ebc994da',
    times: { ...MAINNET_TIMES, ...MAINNET_LAGOON, ...TO_GRANITE_AT_0, holocene: 1_742_396_400n },
    genesis: NO_EXTRA_DATA,
    fees: { denominator: 250n },
  },
  {
    name: 'soneium',
    chainId: 1_868n,
    blockTime: 2,
    timestamp: 1_733_134_751n,
    stateRoot: '0xc0c30db8b85abb4c6083e3b28b44fce19fba1754e3dbeb35abf2cda2afe61fc2',
    times: { ...MAINNET_TIMES, ...MAINNET_LAGOON, ...TO_GRANITE_AT_0, holocene: 1_738_573_200n },
    genesis: { ...NO_EXTRA_DATA, gasLimit: 60_000_000n },
  },
  {
    name: 'zora',
    chainId: 7_777_777n,
    blockTime: 2,
    timestamp: 1_686_693_839n,
    stateRoot: '0x4d4dad33fe99c65bb1f368d5d28569f975cc21444ac5f404793b01a9b2d2de9a',
    times: MAINNET_TIMES,
  },
  {
    name: 'mode',
    chainId: 34_443n,
    blockTime: 2,
    timestamp: 1_700_167_583n,
    stateRoot: '0xfd2126a4d437be91f138a61970b1f6554335f6abcaca5fec95bc9994e44bb6c2',
    times: MAINNET_TIMES,
  },
  {
    name: 'worldchain',
    chainId: 480n,
    blockTime: 2,
    timestamp: 1_719_335_639n,
    stateRoot: '0xf52039b756cebe8f83712e49ee012e8e2b2eb6b63fecb9c1b2dff8128ed40725',
    times: {
      ...TO_ECOTONE_AT_0,
      fjord: 1_721_826_000n,
      granite: 1_727_780_400n,
      holocene: 1_738_238_400n,
      isthmus: 1_764_072_000n,
      jovian: 1_777_593_600n,
      karst: 1_789_992_000n,
    },
    genesis: { gasLimit: 100_000_000n },
    fees: { elasticity: 10n },
  },
]

const TESTNETS: readonly Stated[] = [
  {
    name: 'op-sepolia',
    chainId: 11_155_420n,
    blockTime: 2,
    timestamp: 1_691_802_540n,
    stateRoot: '0x06787a17a3ed87c339a39dbbeeb311578a0c83ed29daa2db95da62b28efce8a9',
    times: { ...SEPOLIA_TIMES, ...SEPOLIA_LAGOON },
  },
  {
    name: 'unichain-sepolia',
    chainId: 1_301n,
    blockTime: 1,
    timestamp: 1_726_852_428n,
    stateRoot: '0x07b3f9e279903c96d513fdc779975974d82561929a40646c9cd6099a9fabf481',
    times: { ...SEPOLIA_TIMES, ...SEPOLIA_LAGOON, ...TO_GRANITE_AT_0, holocene: 1_734_559_200n },
  },
  {
    name: 'ink-sepolia',
    chainId: 763_373n,
    blockTime: 1,
    timestamp: 1_729_003_296n,
    stateRoot: '0x170894a388165da93a6549a7334f39582238418ce3dbe355a6522201c6429d20',
    times: { ...SEPOLIA_TIMES, ...SEPOLIA_LAGOON },
  },
  {
    name: 'soneium-minato',
    chainId: 1_946n,
    blockTime: 2,
    timestamp: 1_723_194_336n,
    stateRoot: '0x5bc916ec2c3d558b91ff11b1dd00253d26dd23ad546b7c7990b9945d2b7c2fde',
    times: {
      ...SEPOLIA_TIMES,
      ...SEPOLIA_LAGOON,
      ...TO_ECOTONE_AT_0,
      fjord: 1_730_106_000n,
      granite: 1_730_106_000n,
      holocene: 1_734_685_200n,
    },
  },
  {
    name: 'zora-sepolia',
    chainId: 999_999_999n,
    blockTime: 2,
    timestamp: 1_698_080_004n,
    stateRoot: '0xc3f28b00d7dbd5bff9124df624716c7992d671c7da8b8d8d636d75fb92ce102b',
    times: SEPOLIA_TIMES,
  },
  {
    name: 'mode-sepolia',
    chainId: 919n,
    blockTime: 2,
    timestamp: 1_687_867_932n,
    stateRoot: '0x83db675b3e6648f7c5f3916d147960b285753c9a614212d40aba7bb0c9d8f442',
    times: { ...SEPOLIA_TIMES, canyon: 1_703_203_200n },
  },
  {
    name: 'worldchain-sepolia',
    chainId: 4_801n,
    blockTime: 2,
    timestamp: 1_720_547_424n,
    stateRoot: '0xf62727d340806dbb99a41e6264d0f64a00e2ad5e9ba4177af6abed63715f447e',
    times: {
      ...TO_ECOTONE_AT_0,
      fjord: 1_721_739_600n,
      granite: 1_726_570_800n,
      holocene: 1_737_633_600n,
      isthmus: 1_761_825_600n,
      jovian: 1_777_161_600n,
      karst: 1_788_868_800n,
    },
    genesis: { gasLimit: 100_000_000n },
    fees: { elasticity: 10n },
  },
]

export const SUPERCHAIN_NETWORKS: readonly Network[] = [...MAINNETS, ...TESTNETS].map(networkOf)

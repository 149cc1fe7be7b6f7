/** The table of forks. Every rule that a fork changes is in its row and nowhere else. */
import type { Bytes, Hex } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { equalBytes } from '../primitives/words.ts'
import type { EvmContracts, EvmOpcodes, PrecompileChanges, Rules } from './types.ts'

export type ForkName = (typeof FORKS)[number]['name']
/** Block number or time of activation. A fork that is not listed never activates. */
export type Schedule = { readonly [Name in ForkName]?: bigint }
export type ForkRow = {
  readonly name: string
  /** Whether the activation is a block number or a timestamp. */
  readonly by: 'block' | 'time'
  /** Key in the `config` of a genesis.json. */
  readonly config: string
  /** Whether a schedule with later forks may omit this fork. */
  readonly isOptional?: true
  /** The time of this fork is ignored on an OP chain, where an OP fork brings its rules. */
  readonly isEthereumAlone?: true
  /** An older name of `config`. */
  readonly formerConfig?: string
  /** Ethereum fork that an OP chain has at the same time as this OP fork. */
  readonly brings?: string
  /**
   * Hash of the first deposit with which the fork upgrades contracts. It is the same on every
   * network, because it contains no chain id.
   */
  readonly firstDeposit?: Hex
  /** Changes of the precompiled contracts in the EVM fork of the row's `spec`. */
  readonly contracts?: Partial<EvmContracts>
  /** Changes of the opcodes in the EVM fork of the row's `spec`. */
  readonly opcodes?: Partial<EvmOpcodes>
  readonly changes: Changes
}

type Changes = Partial<
  Omit<Rules, 'header' | 'systemCalls' | 'gas' | 'evm' | 'chainId' | 'fork'>
> & {
  readonly header?: Partial<Rules['header']>
  readonly systemCalls?: Partial<Rules['systemCalls']>
  readonly gas?: Partial<Rules['gas']>
  readonly precompiles?: PrecompileChanges
  readonly hasLaterDenominator?: true
}

const ETHER = 10n ** 18n

/**
 * Forks in order of activation within a layer. OP forks follow the L1 forks, so that their rules
 * win on an OP chain.
 * Each row changes the result of the rows above.
 */
export const FORKS = [
  {
    name: 'homestead',
    by: 'block',
    config: 'homesteadBlock',
    changes: { spec: 'homestead', gas: { creation: 32_000 } },
  },
  {
    name: 'tangerineWhistle',
    by: 'block',
    config: 'eip150Block',
    changes: { spec: 'tangerineWhistle' },
  },
  {
    name: 'spuriousDragon',
    by: 'block',
    config: 'eip158Block',
    changes: { spec: 'spuriousDragon' },
  },
  {
    name: 'byzantium',
    by: 'block',
    config: 'byzantiumBlock',
    contracts: { modexp: 'bytes', bn254: 'dear' },
    changes: { spec: 'byzantium', blockReward: 3n * ETHER, hasReceiptStatus: true },
  },
  {
    name: 'constantinople',
    by: 'block',
    config: 'constantinopleBlock',
    changes: { spec: 'constantinople', blockReward: 2n * ETHER },
  },
  { name: 'petersburg', by: 'block', config: 'petersburgBlock', changes: { spec: 'petersburg' } },
  {
    name: 'istanbul',
    by: 'block',
    config: 'istanbulBlock',
    contracts: { bn254: 'cheap', hasBlake2f: true },
    changes: { spec: 'istanbul', gas: { nonZeroByte: 16 } },
  },
  {
    name: 'muirGlacier',
    by: 'block',
    config: 'muirGlacierBlock',
    isOptional: true,
    changes: { spec: 'muirGlacier' },
  },
  {
    name: 'berlin',
    by: 'block',
    config: 'berlinBlock',
    contracts: { modexp: 'words' },
    changes: { spec: 'berlin', newestTransactionType: 1, hasWarmAddresses: true },
  },
  {
    name: 'london',
    by: 'block',
    config: 'londonBlock',
    changes: {
      spec: 'london',
      header: { baseFee: true },
      newestTransactionType: 2,
      gas: { refundQuotient: 5n },
    },
  },
  {
    name: 'arrowGlacier',
    by: 'block',
    config: 'arrowGlacierBlock',
    isOptional: true,
    changes: { spec: 'arrowGlacier' },
  },
  {
    name: 'grayGlacier',
    by: 'block',
    config: 'grayGlacierBlock',
    isOptional: true,
    changes: { spec: 'grayGlacier' },
  },
  {
    name: 'paris',
    by: 'block',
    config: 'mergeNetsplitBlock',
    changes: { spec: 'paris', isMerged: true, blockReward: 0n },
  },
  {
    name: 'shanghai',
    by: 'time',
    config: 'shanghaiTime',
    changes: {
      spec: 'shanghai',
      header: { withdrawals: 'empty' },
      gas: { initCodeWord: 2 },
      maxInitCodeBytes: 49_152,
      isCoinbaseWarm: true,
    },
  },
  {
    name: 'cancun',
    by: 'time',
    config: 'cancunTime',
    contracts: { hasPointEvaluation: true },
    opcodes: { hasTransientStorage: true },
    changes: {
      spec: 'cancun',
      header: { blobs: true, beaconRoot: true },
      systemCalls: { beaconRoot: true },
      newestTransactionType: 3,
      keepsDestroyed: true,
      blobs: { target: 3n, max: 6n, updateFraction: 3_338_477n },
    },
  },
  {
    name: 'prague',
    by: 'time',
    config: 'pragueTime',
    contracts: { hasBls12: true },
    opcodes: { hasDelegations: true },
    changes: {
      spec: 'prague',
      header: { requests: true },
      systemCalls: { blockHashes: true },
      newestTransactionType: 4,
      hasDelegations: true,
      gas: { floorOfToken: 10 },
      blobs: { target: 6n, max: 9n, updateFraction: 5_007_716n },
    },
  },
  {
    name: 'osaka',
    by: 'time',
    config: 'osakaTime',
    isEthereumAlone: true,
    contracts: { modexp: 'bounded', hasP256Verify: true },
    opcodes: { hasLeadingZeros: true },
    changes: {
      spec: 'osaka',
      gas: { limit: 1n << 24n },
      maxBlobsOfTransaction: 6,
      sidecarVersion: 1,
      hasBlobReserve: true,
    },
  },
  /*
   * The first two blob schedules are Ethereum's main network; further ones come from the
   * genesis.json.
   */
  {
    name: 'bpo1',
    by: 'time',
    config: 'bpo1Time',
    isOptional: true,
    isEthereumAlone: true,
    changes: { spec: 'bpo1', blobs: { target: 10n, max: 15n, updateFraction: 8_346_193n } },
  },
  {
    name: 'bpo2',
    by: 'time',
    config: 'bpo2Time',
    isOptional: true,
    isEthereumAlone: true,
    changes: { spec: 'bpo2', blobs: { target: 14n, max: 21n, updateFraction: 11_684_671n } },
  },
  {
    name: 'bpo3',
    by: 'time',
    config: 'bpo3Time',
    isOptional: true,
    isEthereumAlone: true,
    changes: { spec: 'bpo3' },
  },
  {
    name: 'bpo4',
    by: 'time',
    config: 'bpo4Time',
    isOptional: true,
    isEthereumAlone: true,
    changes: { spec: 'bpo4' },
  },
  {
    name: 'bpo5',
    by: 'time',
    config: 'bpo5Time',
    isOptional: true,
    isEthereumAlone: true,
    changes: { spec: 'bpo5' },
  },

  {
    name: 'bedrock',
    by: 'block',
    config: 'bedrockBlock',
    changes: {
      isOptimism: true,
      l1Fee: 'overhead',
      l1SignatureBytes: 68n,
      hasSystemDeposits: true,
      blockReward: 0n,
      blobs: undefined,
    },
  },
  {
    name: 'regolith',
    by: 'time',
    config: 'regolithTime',
    changes: { l1SignatureBytes: 0n, hasSystemDeposits: false },
  },
  {
    name: 'canyon',
    by: 'time',
    config: 'canyonTime',
    brings: 'shanghai',
    changes: { depositReceiptVersion: 1n, hasLaterDenominator: true },
  },
  {
    name: 'ecotone',
    by: 'time',
    config: 'ecotoneTime',
    brings: 'cancun',
    changes: { l1Fee: 'blobs', l1Attributes: 'blobs' },
  },
  {
    name: 'fjord',
    by: 'time',
    config: 'fjordTime',
    changes: { l1Fee: 'compressed', precompiles: { p256VerifyGas: 3450n, maxInputBytes: {} } },
  },
  {
    name: 'granite',
    by: 'time',
    config: 'graniteTime',
    changes: { precompiles: { p256VerifyGas: 3450n, maxInputBytes: { 8: 112_687 } } },
  },
  {
    name: 'holocene',
    by: 'time',
    config: 'holoceneTime',
    changes: { extraDataVersion: 0 },
  },
  {
    name: 'isthmus',
    by: 'time',
    config: 'isthmusTime',
    brings: 'prague',
    changes: {
      operatorFee: { multiplier: 1n, divisor: 1_000_000n },
      l1Attributes: 'operator',
      precompiles: {
        p256VerifyGas: 3450n,
        maxInputBytes: { 8: 112_687, 12: 513_760, 14: 488_448, 15: 235_008 },
      },
      header: { withdrawals: 'messagePasser' },
    },
  },
  {
    name: 'jovian',
    by: 'time',
    config: 'jovianTime',
    changes: {
      operatorFee: { multiplier: 100n, divisor: 1n },
      l1Attributes: 'footprint',
      precompiles: {
        p256VerifyGas: 3450n,
        maxInputBytes: { 8: 81_984, 12: 288_960, 14: 278_784, 15: 156_672 },
      },
      extraDataVersion: 1,
      hasDaFootprint: true,
      startsWithDeposits: true,
    },
  },
  {
    name: 'karst',
    by: 'time',
    config: 'karstTime',
    firstDeposit: '0x7582a14ccf99987782cdf0a40ecb81fc7230cf18e4603354e225fc14fe4859d9',
    changes: {
      spec: 'osaka',
      gas: { limit: 1n << 24n },
      precompiles: {
        p256VerifyGas: 6900n,
        maxInputBytes: { 8: 57_600, 12: 288_960, 14: 278_784, 15: 156_672 },
      },
    },
  },
  {
    name: 'lagoon',
    by: 'time',
    config: 'lagoonTime',
    formerConfig: 'interopTime',
    changes: { hasPostExec: true },
  },
] as const satisfies readonly ForkRow[]

/** Announced forks without a row, by the keys of their times. */
export const UNKNOWN_FORKS: readonly { readonly title: string; readonly config: string }[] = [
  { title: 'Amsterdam', config: 'amsterdamTime' },
]

const ROWS: readonly ForkRow[] = FORKS
const FIRST_OPTIMISM = ROWS.findIndex(({ changes }) => changes.isOptimism === true)
export const ETHEREUM_FORKS: readonly ForkRow[] = ROWS.slice(0, FIRST_OPTIMISM)
export const OPTIMISM_FORKS: readonly ForkRow[] = ROWS.slice(FIRST_OPTIMISM)
const BEFORE_FORKS: EvmContracts = {
  modexp: 'none',
  bn254: 'none',
  hasBlake2f: false,
  hasPointEvaluation: false,
  hasBls12: false,
  hasP256Verify: false,
}
/**
 * Returns the precompiled contracts of an EVM fork, without the original ones that all forks have.
 */
export const contractsOf = (spec: string): EvmContracts =>
  Object.assign({}, BEFORE_FORKS, ...rowsUpTo(spec).map(({ contracts }) => contracts))

const OLDEST_OPCODES: EvmOpcodes = {
  hasTransientStorage: false,
  hasDelegations: false,
  hasLeadingZeros: false,
}
export const opcodesOf = (spec: string): EvmOpcodes =>
  Object.assign({}, OLDEST_OPCODES, ...rowsUpTo(spec).map(({ opcodes }) => opcodes))

/** Returns the fork whose first block has the deposit with this hash; undefined: no fork. */
export const forkOfDeposit = (hash: Bytes): string | undefined =>
  FIRST_DEPOSITS.find((row) => equalBytes(row.hash, hash))?.name
const FIRST_DEPOSITS = ROWS.flatMap(({ name, firstDeposit }) =>
  firstDeposit === undefined ? [] : [{ name, hash: hexToBytes(firstDeposit) }],
)

/** Returns the rows up to the last one of the EVM fork. */
function rowsUpTo(spec: string): readonly ForkRow[] {
  const last = ETHEREUM_FORKS.findIndex(({ changes }) => changes.spec === spec)
  return ETHEREUM_FORKS.slice(0, last + 1)
}

/**
 * The fork whose block may be known only by a total difficulty, and the key of the fork after it.
 */
export const MERGE = 'paris' satisfies ForkName
export const FIRST_AFTER_MERGE = 'shanghaiTime' satisfies (typeof FORKS)[number]['config']

export const isOptimismChain = (schedule: Schedule): boolean =>
  schedule[OPTIMISM_FORKS[0]!.name as ForkName] !== undefined

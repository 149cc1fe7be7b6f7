/** The table of forks: every rule that a fork changes stands in its row, and nowhere else. */
import type { Bytes } from '../primitives/bytes.ts'
import { ZERO_20 } from '../primitives/words.ts'
import type { BlobSchedule, FeeConstants, Rules } from './types.ts'

export type ForkName = (typeof FORKS)[number]['name']
/** Block number or time of activation; a fork that is not listed never comes. */
export type Schedule = { readonly [Name in ForkName]?: bigint }
export type ForkRow = {
  readonly name: string
  /** Whether its activation is a block number or a timestamp. */
  readonly by: 'block' | 'time'
  /** Key in the `config` of a genesis.json. */
  readonly config: string
  /** May be left out of a schedule that has later forks. */
  readonly isOptional?: true
  readonly changes: Changes
}

/** What a chain adds to the table. */
export type ChainParameters = {
  readonly chainId: bigint
  readonly schedule: Schedule
  readonly elasticity: bigint
  readonly denominator: bigint
  /** From Canyon on; `denominator` when left out. */
  readonly denominatorCanyon?: bigint
  /** By fork name; the forks' own values where it has none. */
  readonly blobSchedule?: Readonly<Record<string, BlobSchedule>>
  readonly gaslessContract?: Bytes
  readonly depositContract?: Bytes
}

type Changes = Partial<Omit<Rules, 'header' | 'systemCalls' | 'evm' | 'chainId'>> & {
  readonly header?: Partial<Rules['header']>
  readonly systemCalls?: Partial<Rules['systemCalls']>
  readonly precompiles?: Rules['evm']['precompiles']
}

const ETHER = 10n ** 18n

/**
 * In order of activation within a layer: L1 forks first, then OP forks, so that where both speak of a rule an OP chain
 * has the OP answer. Each row changes what stands above it.
 */
export const FORKS = [
  { name: 'homestead', by: 'block', config: 'homesteadBlock', changes: { spec: 'homestead' } },
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
    changes: { spec: 'byzantium', blockReward: 3n * ETHER },
  },
  {
    name: 'constantinople',
    by: 'block',
    config: 'constantinopleBlock',
    changes: { spec: 'constantinople', blockReward: 2n * ETHER },
  },
  { name: 'petersburg', by: 'block', config: 'petersburgBlock', changes: { spec: 'petersburg' } },
  { name: 'istanbul', by: 'block', config: 'istanbulBlock', changes: { spec: 'istanbul' } },
  {
    name: 'muirGlacier',
    by: 'block',
    config: 'muirGlacierBlock',
    isOptional: true,
    changes: { spec: 'muirGlacier' },
  },
  { name: 'berlin', by: 'block', config: 'berlinBlock', changes: { spec: 'berlin' } },
  {
    name: 'london',
    by: 'block',
    config: 'londonBlock',
    changes: { spec: 'london', header: { baseFee: true } },
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
    changes: { spec: 'paris', blockReward: 0n },
  },
  {
    name: 'shanghai',
    by: 'time',
    config: 'shanghaiTime',
    changes: { spec: 'shanghai', header: { withdrawals: 'empty' } },
  },
  {
    name: 'cancun',
    by: 'time',
    config: 'cancunTime',
    changes: {
      spec: 'cancun',
      header: { blobs: true, beaconRoot: true },
      systemCalls: { beaconRoot: true },
      blobs: { target: 3n, max: 6n, updateFraction: 3_338_477n },
    },
  },
  {
    name: 'prague',
    by: 'time',
    config: 'pragueTime',
    changes: {
      spec: 'prague',
      header: { requests: true },
      systemCalls: { blockHashes: true },
      blobs: { target: 6n, max: 9n, updateFraction: 5_007_716n },
    },
  },
  { name: 'osaka', by: 'time', config: 'osakaTime', changes: { spec: 'osaka' } },
  // The blob schedules of the first two are those of Ethereum's main network; further ones are in the genesis.json.
  {
    name: 'bpo1',
    by: 'time',
    config: 'bpo1Time',
    isOptional: true,
    changes: { spec: 'bpo1', blobs: { target: 10n, max: 15n, updateFraction: 8_346_193n } },
  },
  {
    name: 'bpo2',
    by: 'time',
    config: 'bpo2Time',
    isOptional: true,
    changes: { spec: 'bpo2', blobs: { target: 14n, max: 21n, updateFraction: 11_684_671n } },
  },
  { name: 'bpo3', by: 'time', config: 'bpo3Time', isOptional: true, changes: { spec: 'bpo3' } },
  { name: 'bpo4', by: 'time', config: 'bpo4Time', isOptional: true, changes: { spec: 'bpo4' } },
  { name: 'bpo5', by: 'time', config: 'bpo5Time', isOptional: true, changes: { spec: 'bpo5' } },

  {
    name: 'bedrock',
    by: 'block',
    config: 'bedrockBlock',
    changes: { optimism: 'bedrock', l1Fee: 'bedrock', blockReward: 0n, blobs: undefined },
  },
  {
    name: 'regolith',
    by: 'time',
    config: 'regolithTime',
    changes: { optimism: 'regolith', l1Fee: 'regolith' },
  },
  {
    name: 'canyon',
    by: 'time',
    config: 'canyonTime',
    changes: { optimism: 'canyon', depositReceiptVersion: 1n },
  },
  {
    name: 'ecotone',
    by: 'time',
    config: 'ecotoneTime',
    changes: { optimism: 'ecotone', l1Fee: 'ecotone' },
  },
  {
    name: 'fjord',
    by: 'time',
    config: 'fjordTime',
    changes: { optimism: 'fjord', l1Fee: 'fjord', precompiles: 'fjord' },
  },
  {
    name: 'granite',
    by: 'time',
    config: 'graniteTime',
    changes: { optimism: 'granite', precompiles: 'granite' },
  },
  {
    name: 'holocene',
    by: 'time',
    config: 'holoceneTime',
    changes: { optimism: 'holocene', extraData: 'holocene' },
  },
  {
    name: 'isthmus',
    by: 'time',
    config: 'isthmusTime',
    changes: {
      optimism: 'isthmus',
      operatorFee: 'isthmus',
      precompiles: 'isthmus',
      header: { withdrawals: 'messagePasser' },
    },
  },
  {
    name: 'jovian',
    by: 'time',
    config: 'jovianTime',
    changes: {
      optimism: 'jovian',
      operatorFee: 'jovian',
      precompiles: 'jovian',
      extraData: 'jovian',
      hasDaFootprint: true,
    },
  },
] as const satisfies readonly ForkRow[]

/** Rules by block number and time. Blocks under the same forks share one object. */
export function rulesOf(chain: ChainParameters): (number: bigint, timestamp: bigint) => Rules {
  const known = new Map<string, Rules>()
  // Most questions are about the block of the question before.
  let last:
    | { readonly number: bigint; readonly timestamp: bigint; readonly rules: Rules }
    | undefined
  return (number, timestamp) => {
    if (last?.number === number && last.timestamp === timestamp) return last.rules
    const rules = find(number, timestamp)
    last = { number, timestamp, rules }
    return rules
  }

  function find(number: bigint, timestamp: bigint): Rules {
    const active = FORKS.filter((fork) => {
      const from = chain.schedule[fork.name]
      return from !== undefined && from <= (fork.by === 'block' ? number : timestamp)
    })
    // At most one more entry for each fork that activates by block, times those by time.
    const key = active.map((fork) => fork.name).join()
    const found = known.get(key)
    if (found !== undefined) return found
    const rules = rulesUnder(chain, active)
    known.set(key, rules)
    return rules
  }
}

function rulesUnder(chain: ChainParameters, active: readonly ForkRow[]): Rules {
  let rules: Rules = beforeForks(chain)
  let { precompiles } = rules.evm
  // A first block with a difficulty has the header of its time's fork, and runs as before the merge (go-ethereum: Rules, isMerge).
  const isMerged = chain.schedule.paris === undefined || active.some(({ name }) => name === 'paris')
  for (const row of active) {
    const { name, changes }: ForkRow = row
    if (!isMerged && row.by === 'time' && !isOptimism(name)) {
      rules = { ...rules, header: { ...rules.header, ...changes.header } }
      continue
    }
    const { precompiles: changed, header, systemCalls, ...others } = changes
    const blobs = chain.blobSchedule?.[name]
    precompiles = changed ?? precompiles
    rules = {
      ...rules,
      ...others,
      ...(blobs === undefined ? {} : { blobs }),
      header: { ...rules.header, ...header },
      systemCalls: { ...rules.systemCalls, ...systemCalls },
    }
  }
  const hasRequests = rules.header.requests && rules.optimism === undefined
  const isCanyon = active.some((fork) => fork.name === 'canyon')
  return {
    ...rules,
    evm: { spec: rules.spec, chainId: chain.chainId, precompiles },
    depositContract: hasRequests ? (chain.depositContract ?? ZERO_20) : undefined,
    eip1559: feeConstants(chain, isCanyon),
  }
}

const FIRST_OPTIMISM = FORKS.findIndex(({ name }) => name === 'bedrock')
const isOptimism = (name: string): boolean =>
  FORKS.findIndex((row) => row.name === name) >= FIRST_OPTIMISM

function feeConstants(chain: ChainParameters, isCanyon: boolean): FeeConstants {
  const { denominator, denominatorCanyon = denominator, elasticity } = chain
  return { denominator: isCanyon ? denominatorCanyon : denominator, elasticity }
}

function beforeForks(chain: ChainParameters): Rules {
  return {
    chainId: chain.chainId,
    optimism: undefined,
    spec: 'chainstart',
    evm: { spec: 'chainstart', chainId: chain.chainId, precompiles: 'ethereum' },
    l1Fee: 'none',
    operatorFee: 'none',
    hasDaFootprint: false,
    extraData: 'free',
    depositReceiptVersion: undefined,
    header: {
      baseFee: false,
      withdrawals: 'none',
      blobs: false,
      beaconRoot: false,
      requests: false,
    },
    systemCalls: { blockHashes: false, beaconRoot: false },
    gaslessContract: chain.gaslessContract,
    depositContract: undefined,
    eip1559: feeConstants(chain, false),
    blobs: undefined,
    blockReward: 5n * ETHER,
  }
}

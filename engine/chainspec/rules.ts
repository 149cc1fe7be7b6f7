/** The rules of a block: a chain's parameters, overlaid with the rows of the active forks. */
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { ZERO_20 } from '../primitives/words.ts'
import { FORKS, type ForkRow, MERGE, OPTIMISM_FORKS, type Schedule } from './forks.ts'
import type { BlobSchedule, ChainSpec, FeeConstants, Rules } from './types.ts'

/** Parameters that a chain adds to the table of forks. */
export type ChainParameters = {
  readonly chainId: bigint
  readonly schedule: Schedule
  readonly elasticity: bigint
  readonly denominator: bigint
  /** Denominator from the fork with `hasLaterDenominator` on; `denominator` by default. */
  readonly laterDenominator?: bigint
  /** Blob schedules by fork name; the forks' own values by default. */
  readonly blobSchedule?: Readonly<Record<string, BlobSchedule>>
  readonly gaslessContract?: Bytes
  readonly depositContract?: Bytes
  /** A development chain, whose editor sets accounts with deposits. */
  readonly hasEdits?: boolean
}

/**
 * Returns a function from block number and time to rules. Blocks under the same forks share one
 * object.
 */
export function rulesOf(chain: ChainParameters): (number: bigint, timestamp: bigint) => Rules {
  const known = new Map<string, Rules>()
  // Most calls are about the same block as the call before.
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
    // The cache gets at most one entry per fork by block, times one per fork by time.
    const key = active.map((fork) => fork.name).join()
    const found = known.get(key)
    if (found !== undefined) return found
    const rules = rulesUnder(chain, active)
    known.set(key, rules)
    return rules
  }
}

/** Returns whether a block has deposits only, because a fork of OP chains starts with it. */
export function isDepositsOnly(
  { rulesAt }: Pick<ChainSpec, 'rulesAt'>,
  parent: Pick<Header, 'number' | 'timestamp'>,
  block: Pick<Header, 'number' | 'timestamp'>,
): boolean {
  const { startsWithDeposits, fork } = rulesAt(block.number, block.timestamp)
  return startsWithDeposits && rulesAt(parent.number, parent.timestamp).fork !== fork
}

function rulesUnder(chain: ChainParameters, active: readonly ForkRow[]): Rules {
  let rules: Rules = beforeForks(chain)
  let { precompiles } = rules.evm
  let hasLaterDenominator = false
  /*
   * A first block with a difficulty is executed as before the merge (go-ethereum: Rules, isMerge).
   * The fork of its time determines only its header.
   */
  const isMerged = chain.schedule[MERGE] === undefined || active.some(({ name }) => name === MERGE)
  for (const row of active) {
    const { name, changes }: ForkRow = row
    if (!isMerged && row.by === 'time' && !OPTIMISM_FORKS.includes(row)) {
      rules = { ...rules, header: { ...rules.header, ...changes.header } }
      continue
    }
    const { precompiles: changed, hasLaterDenominator: isLater, ...others } = changes
    const { header, systemCalls, gas, ...rest } = others
    const blobs = chain.blobSchedule?.[name]
    precompiles = changed ?? precompiles
    hasLaterDenominator ||= isLater === true
    rules = {
      ...rules,
      ...rest,
      ...(blobs === undefined ? {} : { blobs }),
      header: { ...rules.header, ...header },
      systemCalls: { ...rules.systemCalls, ...systemCalls },
      gas: { ...rules.gas, ...gas },
    }
  }
  const hasRequests = rules.header.requests && !rules.isOptimism
  return {
    ...rules,
    fork: active.at(-1)?.name ?? rules.fork,
    evm: { spec: rules.spec, chainId: chain.chainId, precompiles },
    depositContract: hasRequests ? (chain.depositContract ?? ZERO_20) : undefined,
    eip1559: feeConstants(chain, hasLaterDenominator),
  }
}

function feeConstants(chain: ChainParameters, hasLaterDenominator: boolean): FeeConstants {
  const { denominator, laterDenominator = denominator, elasticity } = chain
  return { denominator: hasLaterDenominator ? laterDenominator : denominator, elasticity }
}

function beforeForks(chain: ChainParameters): Rules {
  return {
    chainId: chain.chainId,
    fork: 'chainstart',
    isOptimism: false,
    hasEdits: chain.hasEdits ?? false,
    spec: 'chainstart',
    evm: { spec: 'chainstart', chainId: chain.chainId, precompiles: undefined },
    l1Fee: 'none',
    l1SignatureBytes: 0n,
    l1Attributes: 'overhead',
    operatorFee: undefined,
    hasDaFootprint: false,
    hasPostExec: false,
    startsWithDeposits: false,
    extraDataVersion: undefined,
    depositReceiptVersion: undefined,
    hasSystemDeposits: false,
    newestTransactionType: 0,
    gas: {
      creation: 0,
      nonZeroByte: 68,
      initCodeWord: 0,
      floorOfToken: 0,
      refundQuotient: 2n,
      limit: undefined,
    },
    maxInitCodeBytes: undefined,
    hasWarmAddresses: false,
    isCoinbaseWarm: false,
    hasReceiptStatus: false,
    keepsDestroyed: false,
    hasDelegations: false,
    isMerged: false,
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
    maxBlobsOfTransaction: undefined,
    sidecarVersion: 0,
    hasBlobReserve: false,
    blockReward: 5n * 10n ** 18n,
  }
}

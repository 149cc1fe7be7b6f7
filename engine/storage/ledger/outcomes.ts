/**
 * Outcomes of promises: decided by the canonical block of their height, reopened when that block is
 * gone.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { latin1 } from '../../state/words.ts'
import type { Entry, WriteBatch } from '../database/types.ts'
import type { Cause, DecidingBlock, PromiseOutcome } from '../ledger-types.ts'
import {
  decodeCauses,
  decodeHead,
  heights,
  NO_HEIGHT,
  type PromisedEntry,
  setDecided,
  suspicionKey,
  withOutcomes,
} from './codec.ts'
import { addCount } from './counts.ts'
import type { LedgerRows } from './rows.ts'

/**
 * Bound of the flashblocks read of one height. A payload has five or ten, and nobody relies on the
 * last of a thousand payloads.
 */
const MAX_AT_HEIGHT = 4_096

/**
 * Puts the outcomes of a height into the batch.
 * @param of `block` is undefined if the height has no block here, and gets none
 * @returns false if there was nothing to put
 */
export function decideHeight(
  ledger: LedgerRows,
  batch: WriteBatch,
  of: {
    readonly number: number
    readonly block: DecidingBlock | undefined
    readonly atMs: number
  },
): boolean {
  const { number, block, atMs } = of
  const at = (kind: 'flashblock' | 'suspicion') =>
    ledger.database.range('ledger', { ...heights(kind, number, number + 1), limit: MAX_AT_HEIGHT })
  const [rows, suspicions] = [at('flashblock'), at('suspicion')]
  for (const suspicion of suspicions) ledger.remove(batch, suspicion)
  if (rows.length === 0) return suspicions.length > 0
  const hasTwo =
    rows.some(({ key }) => !isSamePayload(key, rows[0]!.key)) ||
    suspicions.some(({ value }) => decodeCauses(value[0]!).includes('secondPayload'))
  if (hasTwo && rows.every(({ value }) => isOpen(value)))
    addCount(ledger.periods.at(atMs), 'secondPayloads', 1)
  const outcomeOf = outcomesIn(block)
  for (const entry of rows) {
    const causes: readonly Cause[] = [
      ...(hasTwo ? (['secondPayload'] as const) : []),
      ...suspicions.flatMap(({ key, value }) =>
        isSamePayload(key, entry.key) ? decodeCauses(value[0]!) : [],
      ),
      ...(rows.some((other) => other !== entry && isSameFlashblock(other.key, entry.key))
        ? (['equivocation'] as const)
        : []),
    ]
    putOutcomes(ledger, batch, { entry, outcomeOf, causes, atMs })
  }
  return true
}

export type PayloadOfHeight = { readonly number: number; readonly payloadId: Bytes }

/**
 * Whether another payload has promised something of this height. Promises with the cause `reorg` do
 * not count, because the reorg explains the other payload.
 */
export function hasOtherPayload(
  { database }: LedgerRows,
  { number, payloadId }: PayloadOfHeight,
): boolean {
  const key = suspicionKey(number, payloadId)
  const range = { ...heights('flashblock', number, number + 1), limit: MAX_AT_HEIGHT }
  return database
    .range('ledger', range)
    .some((row) => !isSamePayload(row.key, key) && !decodeHead(row.value).causes.includes('reorg'))
}

/** Reopens the promises that were decided, from a height on; false if there were none. */
export function reopen(
  ledger: LedgerRows,
  batch: WriteBatch,
  { from, atMs }: { readonly from: number; readonly atMs: number },
): boolean {
  let isChanged = false
  const range = heights('flashblock', from, NO_HEIGHT)
  for (const entry of ledger.database.scan('ledger', range)) {
    if (isOpen(entry.value)) continue
    putOutcomes(ledger, batch, { entry, outcomeOf: () => 'open', causes: [], atMs })
    isChanged = true
  }
  return isChanged
}

type OutcomeOf = (promised: PromisedEntry) => PromiseOutcome

function outcomesIn(block: DecidingBlock | undefined): OutcomeOf {
  if (block === undefined) return () => 'unseen'
  const indexes = new Map(block.transactions.map(({ hash }, at) => [latin1(hash), at]))
  return ({ hash, position }) => {
    const index = indexes.get(hash)
    if (index === undefined) return 'dropped'
    return index === position ? 'kept' : 'reordered'
  }
}

function putOutcomes(
  ledger: LedgerRows,
  batch: WriteBatch,
  decision: {
    readonly entry: Entry
    readonly outcomeOf: OutcomeOf
    readonly causes: readonly Cause[]
    readonly atMs: number
  },
): void {
  const { entry, outcomeOf } = decision
  const before = decodeHead(entry.value)
  const causes = new Set([...before.causes, ...decision.causes])
  const [old, now] = [new Map<PromiseOutcome, number>(), new Map<PromiseOutcome, number>()]
  const value = withOutcomes(entry.value, (promised) => {
    const outcome = outcomeOf(promised)
    if (promised.outcome !== 'open' && outcome !== promised.outcome) causes.add('reorg')
    old.set(promised.outcome, (old.get(promised.outcome) ?? 0) - 1)
    now.set(outcome, (now.get(outcome) ?? 0) + 1)
    return outcome
  })
  const { atMs } = before
  ledger.count(old, { atMs, decidedAtMs: before.decidedAtMs })
  ledger.count(now, { atMs, decidedAtMs: decision.atMs })
  setDecided(value, { decidedAtMs: now.has('open') ? 0 : decision.atMs, causes: [...causes] })
  batch.put('ledger', entry.key, value)
}

const isOpen = (value: Bytes): boolean => decodeHead(value).decidedAtMs === 0

/** Compares height and payload, in keys of suspicions and flashblocks. */
const isSamePayload = (one: Bytes, other: Bytes): boolean =>
  equalBytes(one.subarray(1, 17), other.subarray(1, 17))
/** Compares height, payload and index. */
const isSameFlashblock = (one: Bytes, other: Bytes): boolean =>
  equalBytes(one.subarray(1, 21), other.subarray(1, 21))

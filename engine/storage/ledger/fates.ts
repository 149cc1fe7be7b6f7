/** What becomes of promises: decided by the canonical block of their height, opened again where it has none any more. */
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { latin1 } from '../../state/words.ts'
import type { Entry, WriteBatch } from '../database/types.ts'
import type { Cause, DecidingBlock, Fate } from '../ledger-types.ts'
import {
  decodeCauses,
  decodeHead,
  doubtKey,
  heights,
  NO_HEIGHT,
  type PromisedPlace,
  setDecided,
  withFates,
} from './codec.ts'
import { addCount } from './counts.ts'
import type { LedgerRows } from './rows.ts'

/**
 * Flashblocks of one height that are looked at: a payload has five or ten, and of a thousand payloads of one height the last promises
 * nothing to anybody.
 */
const MOST_AT_HEIGHT = 4_096

/**
 * Puts the fates of a height into the batch. False: it has nothing to decide on. `block`: undefined where the height has no block here,
 * and gets none.
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
  const at = (kind: 'flashblock' | 'doubt') =>
    ledger.database.range('ledger', { ...heights(kind, number, number + 1), limit: MOST_AT_HEIGHT })
  const [rows, doubts] = [at('flashblock'), at('doubt')]
  for (const doubt of doubts) ledger.remove(batch, doubt)
  if (rows.length === 0) return doubts.length > 0
  const hasTwo =
    rows.some(({ key }) => !isSamePayload(key, rows[0]!.key)) ||
    doubts.some(({ value }) => decodeCauses(value[0]!).includes('secondPayload'))
  if (hasTwo && rows.every(({ value }) => isOpen(value)))
    addCount(ledger.periods.at(atMs), 'secondPayloads', 1)
  const fateOf = fatesIn(block)
  for (const entry of rows) {
    const causes: readonly Cause[] = [
      ...(hasTwo ? (['secondPayload'] as const) : []),
      ...doubts.flatMap(({ key, value }) =>
        isSamePayload(key, entry.key) ? decodeCauses(value[0]!) : [],
      ),
      ...(rows.some((other) => other !== entry && isSameFlashblock(other.key, entry.key))
        ? (['equivocation'] as const)
        : []),
    ]
    putFates(ledger, batch, { entry, fateOf, causes, atMs })
  }
  return true
}

export type PayloadOfHeight = { readonly number: number; readonly payloadId: Bytes }

/** Another payload than this one has promised something of its height that was not decided before: where it was, the reorg is why. */
export function hasOtherPayload(
  { database }: LedgerRows,
  { number, payloadId }: PayloadOfHeight,
): boolean {
  const key = doubtKey(number, payloadId)
  const range = { ...heights('flashblock', number, number + 1), limit: MOST_AT_HEIGHT }
  return database
    .range('ledger', range)
    .some((row) => !isSamePayload(row.key, key) && !decodeHead(row.value).causes.includes('reorg'))
}

/** What was decided from a height on. False: nothing was. */
export function reopen(
  ledger: LedgerRows,
  batch: WriteBatch,
  { from, atMs }: { readonly from: number; readonly atMs: number },
): boolean {
  let isChanged = false
  const range = heights('flashblock', from, NO_HEIGHT)
  for (const entry of ledger.database.scan('ledger', range)) {
    if (isOpen(entry.value)) continue
    putFates(ledger, batch, { entry, fateOf: () => 'open', causes: [], atMs })
    isChanged = true
  }
  return isChanged
}

type FateOf = (promised: PromisedPlace) => Fate

/** The first that applies. */
function fatesIn(block: DecidingBlock | undefined): FateOf {
  if (block === undefined) return () => 'unseen'
  const places = new Map(block.transactions.map(({ hash }, at) => [latin1(hash), at]))
  return ({ hash, position }) => {
    const place = places.get(hash)
    if (place === undefined) return 'dropped'
    return place === position ? 'kept' : 'reordered'
  }
}

function putFates(
  ledger: LedgerRows,
  batch: WriteBatch,
  decision: {
    readonly entry: Entry
    readonly fateOf: FateOf
    readonly causes: readonly Cause[]
    readonly atMs: number
  },
): void {
  const { entry, fateOf } = decision
  const before = decodeHead(entry.value)
  const causes = new Set([...before.causes, ...decision.causes])
  const [old, now] = [new Map<Fate, number>(), new Map<Fate, number>()]
  const value = withFates(entry.value, (promised) => {
    const fate = fateOf(promised)
    if (promised.fate !== 'open' && fate !== promised.fate) causes.add('reorg')
    old.set(promised.fate, (old.get(promised.fate) ?? 0) - 1)
    now.set(fate, (now.get(fate) ?? 0) + 1)
    return fate
  })
  const { atMs } = before
  ledger.count(old, { atMs, decidedAtMs: before.decidedAtMs })
  ledger.count(now, { atMs, decidedAtMs: decision.atMs })
  setDecided(value, { decidedAtMs: now.has('open') ? 0 : decision.atMs, causes: [...causes] })
  batch.put('ledger', entry.key, value)
}

const isOpen = (value: Bytes): boolean => decodeHead(value).decidedAtMs === 0

/** Height and payload: of doubts and flashblocks alike. */
const isSamePayload = (one: Bytes, other: Bytes): boolean =>
  equalBytes(one.subarray(1, 17), other.subarray(1, 17))
/** The index too. */
const isSameFlashblock = (one: Bytes, other: Bytes): boolean =>
  equalBytes(one.subarray(1, 21), other.subarray(1, 21))

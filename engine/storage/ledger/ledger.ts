/**
 * The keeper's side of the ledger. What a flashblock promised is committed on its own, before the block that decides on it can come;
 * fates are committed with that block, in one batch: whatever a kill leaves, a promise at or below the durable head has its fate, and
 * one above it has none.
 */
import { NO_BYTES } from '../../primitives/bytes.ts'
import { decodeNumber } from '../blocks/block-codec.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import {
  type Cause,
  type DecidingBlock,
  type LedgerCounts,
  type LedgerLimits,
  PROMISED_BYTES,
  type PromisedFlashblock,
} from '../ledger-types.ts'
import {
  decodeCauses,
  decodeFlashblockRow,
  decodeHead,
  doubtKey,
  encodeCauses,
  flashblockKey,
  heights,
  NO_HEIGHT,
  newFlashblockRow,
  transactionKey,
} from './codec.ts'
import { addCount, addTime, countsOf } from './counts.ts'
import { decideHeight, hasOtherPayload, type PayloadOfHeight, reopen } from './fates.ts'
import { LedgerRows } from './rows.ts'

export type LedgerOptions = {
  readonly database: Database
  readonly limits: LedgerLimits
  /** Milliseconds since 1970. */
  readonly wallMs: () => number
}

export type LedgerStats = {
  /** Since the directory was made. */
  readonly counts: LedgerCounts
  readonly bytes: number
}

/** Rows in one commit of a start. */
const MOST_IN_COMMIT = 256
/** Flashblocks in one step of a pruning. */
const PRUNED_AT_ONCE = 4

export class Ledger {
  readonly #rows: LedgerRows
  readonly #limits: LedgerLimits
  readonly #wallMs: () => number
  /** When the oldest promise was made; undefined: to be looked up. */
  #oldestMs: number | undefined

  constructor({ database, limits, wallMs }: LedgerOptions) {
    this.#rows = new LedgerRows(database)
    this.#limits = limits
    this.#wallMs = wallMs
  }

  /**
   * One commit. Nothing for one that is there: after a restart flashblocks are shown again. `late`: the block of its height came before, and
   * whoever knows it has to have `recover` decide.
   */
  promise(promised: PromisedFlashblock): 'late' | undefined {
    const rows = this.#rows
    const key = flashblockKey(promised)
    if (rows.database.get('ledger', key) !== undefined) return undefined
    const batch = rows.database.batch()
    const value = newFlashblockRow(promised)
    rows.put(batch, { key, value })
    const { transactions } = promised
    for (let at = 0; at < transactions.length; at += PROMISED_BYTES) {
      const hash = transactions.subarray(at, at + 32)
      rows.put(batch, { key: transactionKey(hash, key), value: NO_BYTES })
    }
    const counts = rows.periods.at(promised.atMs)
    addCount(counts, 'flashblocks', 1)
    addCount(counts, 'promises', transactions.length / PROMISED_BYTES)
    const isLate = promised.number <= rows.decided
    rows.decided = Math.min(rows.decided, promised.number - 1)
    rows.close(batch)
    batch.commit()
    this.#oldestMs = Math.min(this.#oldest(), promised.atMs)
    return isLate ? 'late' : undefined
  }

  /** A payload was shown. One commit where another one has promised something of its height: it may promise nothing itself, and no row would tell. */
  payload(shown: PayloadOfHeight): void {
    if (hasOtherPayload(this.#rows, shown)) this.#note(shown, 'secondPayload')
  }

  /** A flashblock of the payload was told in two ways, of which the first was shown. One commit. */
  doubt(payload: PayloadOfHeight): void {
    this.#note(payload, 'equivocation')
  }

  /** Until its height is decided. */
  #note({ number, payloadId }: PayloadOfHeight, cause: Cause): void {
    const rows = this.#rows
    const key = doubtKey(number, payloadId)
    const before = rows.database.get('ledger', key)
    const causes = before === undefined ? [] : decodeCauses(before[0]!)
    if (number <= rows.decided || causes.includes(cause)) return
    const batch = rows.database.batch()
    if (before !== undefined) rows.remove(batch, { key, value: before })
    rows.put(batch, { key, value: Uint8Array.of(encodeCauses([...causes, cause])) })
    // A second payload is counted when its height is decided, whether it promised something or not.
    if (cause === 'equivocation') addCount(rows.periods.at(this.#wallMs()), 'equivocations', 1)
    rows.close(batch)
    batch.commit()
  }

  /** Puts the fates of what was promised of a canonical block's height into its batch. `isReorg`: blocks from its height on were canonical. */
  decide(batch: WriteBatch, block: DecidingBlock, isReorg: boolean): void {
    const rows = this.#rows
    const atMs = this.#wallMs()
    const { number } = block
    const isReopened = isReorg && reopen(rows, batch, { from: number + 1, atMs })
    const isDecided = decideHeight(rows, batch, { number, block, atMs })
    rows.decided = number
    if (isReopened || isDecided) rows.close(batch)
  }

  /** In the batch in which the chain goes back to a block, and no other takes the place of those above it. */
  rewind(batch: WriteBatch, number: number): void {
    const rows = this.#rows
    const isReopened = reopen(rows, batch, { from: number + 1, atMs: this.#wallMs() })
    rows.decided = Math.min(rows.decided, number)
    if (isReopened) rows.close(batch)
  }

  /**
   * After a start, before anything else, and after a late promise: promises whose canonical block came without them are decided, those above the durable head are open.
   * @param blockAt the canonical block of a height; undefined: its transactions are not here, and will not be
   */
  recover(durable: number, blockAt: (number: number) => DecidingBlock | undefined): void {
    const rows = this.#rows
    const atMs = this.#wallMs()
    const batch = rows.database.batch()
    let isChanged = reopen(rows, batch, { from: durable + 1, atMs })
    const save = () => {
      if (!isChanged) return
      rows.close(batch)
      batch.commit()
      isChanged = false
    }
    for (;;) {
      const range = { ...heights('flashblock', rows.decided + 1, durable + 1), limit: 1 }
      const [next] = rows.database.range('ledger', range)
      if (next === undefined) break
      const number = decodeNumber(next.key, 1)
      decideHeight(rows, batch, { number, block: blockAt(number), atMs })
      rows.decided = number
      isChanged = true
      if (batch.length >= MOST_IN_COMMIT) save()
    }
    rows.decided = durable
    save()
  }

  /** Milliseconds from when this node took transactions until they were shown; committed with what comes next. */
  taken(all: readonly number[]): void {
    for (const ms of all) addTime(this.#rows.periods.at(this.#wallMs()), 'taken', ms)
  }

  /** Some promises are older than they may be, or take too many bytes. */
  isDue(): boolean {
    return this.#isOver(this.#oldest())
  }

  #isOver(atMs: number): boolean {
    const { keepMs, bytes } = this.#limits
    return this.#rows.bytes > bytes || atMs < this.#wallMs() - keepMs
  }

  /** The oldest go. Each `next` is one small commit. */
  *prune(): Generator<undefined, void> {
    const rows = this.#rows
    while (this.isDue()) {
      const range = { ...heights('flashblock', 0, NO_HEIGHT), limit: PRUNED_AT_ONCE }
      const oldest = rows.database.range('ledger', range)
      if (oldest.length === 0) return
      const batch = rows.database.batch()
      for (const entry of oldest) {
        const { atMs, transactions } = decodeFlashblockRow(entry.key, entry.value)
        if (!this.#isOver(atMs)) break
        rows.remove(batch, entry)
        for (const { hash, fate } of transactions) {
          rows.remove(batch, { key: transactionKey(hash, entry.key), value: NO_BYTES })
          if (fate === 'open') addCount(rows.periods.at(this.#wallMs()), 'unseen', 1)
        }
      }
      this.#oldestMs = undefined
      rows.close(batch)
      batch.commit()
      yield
    }
  }

  stats(): LedgerStats {
    return { counts: countsOf(this.#rows.periods.total()), bytes: this.#rows.bytes }
  }

  #oldest(): number {
    if (this.#oldestMs !== undefined) return this.#oldestMs
    const range = { ...heights('flashblock', 0, NO_HEIGHT), limit: 1 }
    const [first] = this.#rows.database.range('ledger', range)
    this.#oldestMs = first === undefined ? Number.POSITIVE_INFINITY : decodeHead(first.value).atMs
    return this.#oldestMs
  }
}

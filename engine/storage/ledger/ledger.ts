/**
 * Writing side of the ledger, in the persistence thread. Promises are committed on their own,
 * before the block that decides on them can come. Outcomes are committed in the batch of that
 * block. So after a kill exactly the promises at or below the durable head have an outcome.
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
  encodeCauses,
  flashblockKey,
  heights,
  NO_HEIGHT,
  newFlashblockRow,
  suspicionKey,
  transactionKey,
} from './codec.ts'
import { addCount, addTime, countsOf } from './counts.ts'
import { decideHeight, hasOtherPayload, type PayloadOfHeight, reopen } from './outcomes.ts'
import { LedgerRows } from './rows.ts'

export type LedgerOptions = {
  readonly database: Database
  readonly limits: LedgerLimits
  /** Milliseconds since 1970. */
  readonly wallMs: () => number
}

export type LedgerStats = {
  /** Counts since the directory was made. */
  readonly counts: LedgerCounts
  readonly bytes: number
}

/** Rows in one commit of a start. */
const MAX_IN_COMMIT = 256
/** Flashblocks in one step of a pruning. */
const PRUNED_AT_ONCE = 4

export class Ledger {
  readonly #rows: LedgerRows
  readonly #limits: LedgerLimits
  readonly #wallMs: () => number
  /** Time of the oldest promise; undefined: it has to be looked up. */
  #oldestMs: number | undefined

  constructor({ database, limits, wallMs }: LedgerOptions) {
    this.#rows = new LedgerRows(database)
    this.#limits = limits
    this.#wallMs = wallMs
  }

  /**
   * Records a flashblock's promises in one commit. A known flashblock is skipped, because
   * flashblocks become visible again after a restart.
   * @returns `late` if the block of its height came before; the caller then has `recover` decide
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

  /**
   * Records that a payload is visible, if another one has promised something of its height. The
   * payload itself may promise nothing, so no other row would show it.
   */
  payload(visible: PayloadOfHeight): void {
    if (hasOtherPayload(this.#rows, visible)) this.#addCause(visible, 'secondPayload')
  }

  /**
   * Records in one commit that a flashblock of the payload arrived in two versions. The first
   * version is visible.
   */
  suspicion(payload: PayloadOfHeight): void {
    this.#addCause(payload, 'equivocation')
  }

  /** Stores a cause until its height is decided. */
  #addCause({ number, payloadId }: PayloadOfHeight, cause: Cause): void {
    const rows = this.#rows
    const key = suspicionKey(number, payloadId)
    const before = rows.database.get('ledger', key)
    const causes = before === undefined ? [] : decodeCauses(before[0]!)
    if (number <= rows.decided || causes.includes(cause)) return
    const batch = rows.database.batch()
    if (before !== undefined) rows.remove(batch, { key, value: before })
    rows.put(batch, { key, value: Uint8Array.of(encodeCauses([...causes, cause])) })
    // A second payload is counted when its height is decided, whether or not it has promises.
    if (cause === 'equivocation') addCount(rows.periods.at(this.#wallMs()), 'equivocations', 1)
    rows.close(batch)
    batch.commit()
  }

  /**
   * Puts the outcomes of a canonical block's height into its batch.
   * @param isReorg whether other blocks from its height on were canonical
   */
  decide(batch: WriteBatch, block: DecidingBlock, isReorg: boolean): void {
    const rows = this.#rows
    const atMs = this.#wallMs()
    const { number } = block
    const isReopened = isReorg && reopen(rows, batch, { from: number + 1, atMs })
    const isDecided = decideHeight(rows, batch, { number, block, atMs })
    rows.decided = number
    if (isReopened || isDecided) rows.close(batch)
  }

  /** Reopens outcomes above a block, in the batch that makes the block the newest again. */
  rewind(batch: WriteBatch, number: number): void {
    const rows = this.#rows
    const isReopened = reopen(rows, batch, { from: number + 1, atMs: this.#wallMs() })
    rows.decided = Math.min(rows.decided, number)
    if (isReopened) rows.close(batch)
  }

  /**
   * Decides promises up to the durable head and reopens those above. It runs after a start, before
   * anything else, and after a late promise.
   * @param blockAt canonical block of a height; undefined if its transactions are not stored, and
   * will not be
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
      if (batch.length >= MAX_IN_COMMIT) save()
    }
    rows.decided = durable
    save()
  }

  /**
   * Records the milliseconds from taking transactions until they were visible. The next commit
   * includes them.
   */
  taken(all: readonly number[]): void {
    for (const ms of all) addTime(this.#rows.periods.at(this.#wallMs()), 'taken', ms)
  }

  /** Whether some promises are too old, or take too many bytes. */
  isDue(): boolean {
    return this.#isOver(this.#oldest())
  }

  #isOver(atMs: number): boolean {
    const { retentionMs, bytes } = this.#limits
    return this.#rows.bytes > bytes || atMs < this.#wallMs() - retentionMs
  }

  /** Deletes the oldest promises; each `next` is one small commit. */
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
        for (const { hash, outcome } of transactions) {
          rows.remove(batch, { key: transactionKey(hash, entry.key), value: NO_BYTES })
          if (outcome === 'open') addCount(rows.periods.at(this.#wallMs()), 'unseen', 1)
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

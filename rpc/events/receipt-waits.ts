/**
 * Waits for transactions to become visible. Each publish compares the view's new transactions with
 * the wanted ones, so no wait causes a read of its own.
 */
import type { ChainReader, ChainView, Endpoint } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { TransactionService } from '../core/ports.ts'
import { type Now, ringAfter } from '../core/timeout.ts'
import { NewTransactions } from './new-transactions.ts'

/** Reason of a wait's end. `departed`: the transaction has left the txpool without a block. */
export type WaitEnd = 'seen' | 'expired' | 'gone' | 'departed'
export interface ReceiptWaits {
  /**
   * Waits for a transaction; call it in the turn that did not find the transaction in the newest
   * view. The wait ends with the first publish that has the transaction, or when the transaction
   * leaves the txpool. It also ends after `ms`, or when the client disconnects. `flashblocks`
   * limits the further flashblocks with pool transactions (index above 0).
   */
  wait(options: {
    readonly hash: Bytes
    readonly endpoint: Endpoint
    readonly ms: number
    readonly flashblocks?: number
    readonly signal: AbortSignal
  }): Promise<WaitEnd>
  readonly size: number
}

const ENDPOINTS = ['flashblocks', 'standard'] as const

type Options = {
  readonly reader: ChainReader
  readonly onPublish: (listener: () => void) => () => void
  readonly onDeparted: TransactionService['onDeparted']
  readonly now: Now
}
type Waiter = { readonly end: (how: WaitEnd) => void; readonly lastTick: number }
type Ending = Readonly<Record<Endpoint, ReadonlyMap<Hex, ReadonlySet<Waiter>>>>

export function createReceiptWaits({ reader, onPublish, onDeparted, now }: Options): ReceiptWaits {
  const waiting: Record<Endpoint, Map<Hex, Set<Waiter>>> = {
    standard: new Map(),
    flashblocks: new Map(),
  }
  const flashblocksSeen = createFlashblockCount(reader)
  let size = 0

  const update = createUpdate(reader, waiting)
  onPublish(() => {
    const ticks = flashblocksSeen.update()
    for (const endpoint of ENDPOINTS) {
      const waiters = waiting[endpoint]
      for (const hash of update(endpoint))
        for (const { end } of waiters.get(hash) ?? []) end('seen')
      for (const set of waiters.values())
        for (const { end, lastTick } of set) if (ticks >= lastTick) end('expired')
    }
  })

  onDeparted((hashes) => endDeparted(waiting, hashes))

  return {
    wait({ hash, endpoint, ms, flashblocks, signal }) {
      if (signal.aborted) return Promise.resolve('gone')
      return new Promise((resolve) => {
        const key = bytesToHex(hash)
        const waiters = waiting[endpoint]
        const set = waiters.get(key) ?? new Set()
        waiters.set(key, set)
        const waiter: Waiter = {
          lastTick:
            flashblocks === undefined
              ? Number.POSITIVE_INFINITY
              : flashblocksSeen.count + flashblocks,
          end(how) {
            if (!set.delete(waiter)) return
            size--
            if (set.size === 0) waiters.delete(key)
            stop()
            signal.removeEventListener('abort', gone)
            resolve(how)
          },
        }
        const gone = (): void => waiter.end('gone')
        const stop = ringAfter(ms, () => waiter.end('expired'), now)
        signal.addEventListener('abort', gone, { once: true })
        set.add(waiter)
        size++
      })
    },
    get size() {
      return size
    },
  }
}

function endDeparted(waiting: Ending, hashes: readonly Bytes[]): void {
  for (const waiters of Object.values(waiting)) {
    if (waiters.size === 0) continue
    for (const hash of hashes)
      for (const { end } of waiters.get(bytesToHex(hash)) ?? []) end('departed')
  }
}

/** Counts the flashblocks with pool transactions that were seen. */
function createFlashblockCount(reader: ChainReader) {
  let count = 0
  let last = ''
  return {
    get count() {
      return count
    },
    /** Updates the count after a publish. */
    update(): number {
      const { number, index, hash } = readNewest(reader, 'flashblocks', ({ pending }) => pending)
      const flashblock = `${number}:${index}:${bytesToHex(hash)}`
      if (flashblock !== last && index > 0) count++
      last = flashblock
      return count
    },
  }
}

type Waiting = Readonly<Record<Endpoint, ReadonlyMap<Hex, unknown>>>

/**
 * Creates the comparison of a publish.
 * @returns a function that gives the wanted hashes that became visible
 */
function createUpdate(
  reader: ChainReader,
  waiting: Waiting,
): (endpoint: Endpoint) => readonly Hex[] {
  const news = { standard: new NewTransactions(), flashblocks: new NewTransactions() }
  return (endpoint) => {
    try {
      return readNewest(reader, endpoint, (view) => found(view, news[endpoint], waiting[endpoint]))
    } catch (error) {
      // Views are replaced too fast to be read, so the next publish repeats the comparison.
      if (error instanceof ViewError) return []
      throw error
    }
  }
}

function found(
  view: ChainView,
  news: NewTransactions,
  waiters: ReadonlyMap<Hex, unknown>,
): readonly Hex[] {
  const seen = new Set<Hex>()
  const wanted = {
    onTransaction(hash: Bytes) {
      const key = bytesToHex(hash)
      if (waiters.has(key)) seen.add(key)
    },
    findAll() {
      for (const key of waiters.keys())
        if (view.findTransaction(hexToBytes(key)) !== undefined) seen.add(key)
    },
  }
  news.update(view, waiters.size === 0 ? undefined : wanted)
  return [...seen]
}

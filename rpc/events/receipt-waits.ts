/** Waiting for a transaction to become visible: one look at the newest view after each publish, for everybody who waits. */
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader, Endpoint } from '../../engine/chain/types.ts'
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { ViewError } from '../../engine/state/reader.ts'
import { type Now, ringAfter } from '../seam/patience.ts'

export type WaitEnd = 'seen' | 'expired' | 'gone'
export interface ReceiptWaits {
  /**
   * Ends with the first publish that shows the transaction, after `ms`, with the client, or after `flashblocks` further flashblocks that
   * carry pool transactions (their index is not 0).
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

type Options = {
  readonly reader: ChainReader
  readonly onPublish: (listener: () => void) => () => void
  readonly now: Now
}
type Waiter = { readonly end: (how: WaitEnd) => void; readonly lastTick: number }

export function createReceiptWaits({ reader, onPublish, now }: Options): ReceiptWaits {
  const waiting: Record<Endpoint, Map<Hex, Set<Waiter>>> = {
    standard: new Map(),
    flashblocks: new Map(),
  }
  const flashblocksSeen = createFlashblockCount(reader)
  let size = 0

  onPublish(() => {
    const ticks = flashblocksSeen.look()
    for (const endpoint of ['flashblocks', 'standard'] as const) {
      const waiters = waiting[endpoint]
      if (waiters.size === 0) continue
      const seen = look(endpoint, [...waiters.keys()])
      for (const hash of seen) for (const { end } of waiters.get(hash) ?? []) end('seen')
      for (const set of waiters.values())
        for (const { end, lastTick } of set) if (ticks >= lastTick) end('expired')
    }
  })

  function look(endpoint: Endpoint, hashes: readonly Hex[]): Hex[] {
    try {
      return readNewest(reader, endpoint, (view) =>
        hashes.filter((hash) => view.findTransaction(hexToBytes(hash)) !== undefined),
      )
    } catch (error) {
      // Views come and go faster than they can be read: the next publish looks again.
      if (error instanceof ViewError) return []
      throw error
    }
  }

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

/** Flashblocks that carry transactions of the txpool, as far as they were seen. */
function createFlashblockCount(reader: ChainReader) {
  let count = 0
  let last = ''
  return {
    get count() {
      return count
    },
    /** After a publish. */
    look(): number {
      const { number, index, hash } = readNewest(reader, 'flashblocks', ({ pending }) => pending)
      const flashblock = `${number}:${index}:${bytesToHex(hash)}`
      if (flashblock !== last && index > 0) count++
      last = flashblock
      return count
    },
  }
}

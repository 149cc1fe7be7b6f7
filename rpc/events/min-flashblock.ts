/**
 * A request may name the minimum flashblock of its view, from an earlier response of any node. The
 * request waits for that flashblock within limits of time and number. After that it is refused,
 * because an older view would be wrong.
 */

import { isNotYetVisible } from '../../engine/chain/not-yet-visible.ts'
import type { ChainReader, ChainView, Endpoint, FlashblockId } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import { FlashblockUnavailableError, ViewError } from '../../engine/state/reader.ts'
import type { Client } from '../core/client.ts'
import { concurrencyLimitReached, flashblockNotReached, type RpcError } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import { type Now, ringAfter } from '../core/timeout.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'

/** Flashblocks that must all be reached. */
export type Needed = readonly [FlashblockId, ...FlashblockId[]]

export interface FlashblockWaits {
  /**
   * Waits until the newest view has reached the flashblocks. undefined: reached; otherwise the
   * refusal after the timeout.
   */
  before(needed: Needed, client: Client): NotReached | undefined | Promise<NotReached | undefined>
  readonly stats: FlashblockWaitStats
}
export type FlashblockWaitStats = {
  readonly waiting: number
  readonly held: number
  readonly expired: number
  /** Requests that did not wait because of a concurrency limit. */
  readonly refused: number
}

/** The refusal of a request whose flashblock is not reached. */
export type NotReached = {
  readonly error: RpcError
  /** The view that the error describes. undefined: the error describes no view. */
  readonly read: Pick<ChainView, 'snapshot' | 'pending'> | undefined
}

/** The first flashblock that a view has not reached. `isDecided`: no later view can reach it. */
type Missing = {
  readonly flashblockId: FlashblockId
  readonly why: 'behind' | 'replaced'
  readonly isDecided: boolean
}

/**
 * Checks a view against the flashblocks.
 * @returns undefined if the view has reached all
 * @throws {ViewError}
 */
export function notReached(view: ChainView, needed: Needed): NotReached | undefined {
  const missing = missingOf(view, needed)
  return missing && refusalOf(missing, view)
}

const refusalOf = (
  { flashblockId, why }: Missing,
  { snapshot, pending }: ChainView,
): NotReached => ({
  error: flashblockNotReached(flashblockId, pending, why),
  read: { snapshot, pending },
})

function missingOf(view: ChainView, needed: Needed): Missing | undefined {
  for (const flashblockId of needed) {
    const missing = missingAt(view, flashblockId)
    if (missing !== undefined) return missing
  }
  return undefined
}

function missingAt(view: ChainView, flashblockId: FlashblockId): Missing | undefined {
  const { pending: top } = view
  const { number, index, payloadId } = flashblockId
  const lagging = { flashblockId, why: 'behind', isDecided: false } as const
  if (number > top.number) return lagging
  if (payloadId === undefined)
    return number < top.number || index <= top.index || isComplete(view, number)
      ? undefined
      : lagging
  try {
    const isKnown = view.block({ flashblock: flashblockId }) !== undefined
    return isKnown || isComplete(view, number) ? undefined : lagging
  } catch (error) {
    if (!(error instanceof FlashblockUnavailableError)) throw error
    // A block that is persisted or came without flashblocks has no known payload, so its number
    // suffices.
    if (error.why === 'gone') return undefined
    return { flashblockId, why: 'replaced', isDecided: number <= view.canonical.number }
  }
}

/** Tells whether a block is complete: its flashblocks have all arrived. */
const isComplete = (view: ChainView, number: bigint): boolean =>
  view.block({ number })?.flashblockIndex === undefined

type Waiter = { readonly needed: Needed; readonly end: (refusal: NotReached | undefined) => void }
type Waiters = Readonly<Record<Endpoint, Set<Waiter>>>
const ENDPOINTS = ['flashblocks', 'standard'] as const

export function createFlashblockWaits(options: {
  readonly reader: ChainReader
  /** Listens to published snapshots, whether visible to clients or not. */
  readonly onArrival: (listener: () => void) => () => void
  readonly limits: Pick<Limits, 'placeWaitMs' | 'placeWaitsPerClient' | 'placeWaitsTotal'>
  readonly concurrencyLimits: OpenConcurrencyLimit
  readonly now: Now
}): FlashblockWaits {
  const { reader, limits, now } = options
  const concurrencyLimits = options.concurrencyLimits('flashblockWaits', {
    perClient: limits.placeWaitsPerClient,
    total: limits.placeWaitsTotal,
  })
  const waiters: Waiters = { flashblocks: new Set(), standard: new Set() }
  const stats = { held: 0, expired: 0, refused: 0 }

  options.onArrival(() => {
    for (const endpoint of ENDPOINTS)
      if (waiters[endpoint].size > 0) endReached(reader, endpoint, waiters[endpoint])
  })

  function wait(needed: Needed, { endpoint, signal }: Client): Promise<NotReached | undefined> {
    return new Promise((resolve) => {
      const waiter: Waiter = {
        needed,
        end(refusal) {
          if (!waiters[endpoint].delete(waiter)) return
          stop()
          signal.removeEventListener('abort', gone)
          resolve(refusal)
        },
      }
      const gone = (): void => waiter.end(undefined)
      const onExpired = (): void => {
        stats.expired++
        waiter.end(readView(reader, endpoint, (view) => notReached(view, needed)))
      }
      const stop = ringAfter(limits.placeWaitMs, onExpired, now)
      signal.addEventListener('abort', gone, { once: true })
      waiters[endpoint].add(waiter)
      if (signal.aborted) gone()
    })
  }

  return {
    before(needed, client) {
      const mayWait = limits.placeWaitMs > 0
      const found = readView(reader, client.endpoint, (view) => {
        const missing = missingOf(view, needed)
        if (missing === undefined || isHereNotYetVisible(reader, client.endpoint, needed))
          return 'reached'
        return missing.isDecided || !mayWait ? refusalOf(missing, view) : undefined
      })
      if (found !== undefined) return found === 'reached' ? undefined : found
      const giveBack = concurrencyLimits.take(client.address)
      if (giveBack === undefined) {
        stats.refused++
        const reason = 'too many requests wait for a flashblock'
        const error = concurrencyLimitReached(reason, limits.placeWaitsPerClient)
        return { error, read: undefined }
      }
      stats.held++
      return wait(needed, client).finally(giveBack)
    },
    get stats() {
      return { waiting: waiters.flashblocks.size + waiters.standard.size, ...stats }
    },
  }
}

/** Tells whether a snapshot that is not yet visible to others has reached the flashblocks. */
const isHereNotYetVisible = (reader: ChainReader, endpoint: Endpoint, needed: Needed): boolean =>
  isNotYetVisible(reader, endpoint, (view) => missingOf(view, needed) === undefined)

function endReached(reader: ChainReader, endpoint: Endpoint, waiters: Set<Waiter>): void {
  readView(reader, endpoint, (view) => {
    for (const { needed, end } of [...waiters]) {
      const missing = missingOf(view, needed)
      if (missing === undefined || isHereNotYetVisible(reader, endpoint, needed)) end(undefined)
      else if (missing.isDecided) end(refusalOf(missing, view))
    }
  })
}

/**
 * Reads the newest view. undefined also means that views are replaced too fast; the lease of a view
 * checks again.
 */
function readView<T>(
  reader: ChainReader,
  endpoint: Endpoint,
  read: (view: ChainView) => T,
): T | undefined {
  try {
    return readNewest(reader, endpoint, read)
  } catch (error) {
    if (error instanceof ViewError) return undefined
    throw error
  }
}

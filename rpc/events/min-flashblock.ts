/**
 * A request may say how new its view has to be, by the place that an answer of any node gave it. It waits for that, bounded in time and
 * number, and is refused rather than answered from an older one.
 */
import { isAhead } from '../../engine/chain/ahead.ts'
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader, ChainView, Endpoint, FlashblockPlace } from '../../engine/chain/types.ts'
import { PlaceError, ViewError } from '../../engine/state/reader.ts'
import type { Client } from '../seam/client.ts'
import { capReached, flashblockBehind, type RpcError } from '../seam/errors.ts'
import type { Limits } from '../seam/limits.ts'
import { type Now, ringAfter } from '../seam/patience.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'

/** All of them have to be reached. */
export type Needed = readonly [FlashblockPlace, ...FlashblockPlace[]]

export interface PlaceWaits {
  /** Undefined: the newest view is that new; else why it is not, when the time for it is over. */
  before(needed: Needed, client: Client): RpcError | undefined | Promise<RpcError | undefined>
  readonly stats: PlaceWaitStats
}
export type PlaceWaitStats = {
  readonly waiting: number
  readonly held: number
  readonly expired: number
  /** Not held because of a cap. */
  readonly refused: number
}

/** The first of them that a view has not reached; `isDecided`: nothing that comes will change it. */
type Lack = {
  readonly place: FlashblockPlace
  readonly why: 'behind' | 'replaced'
  readonly isDecided: boolean
}

/** @returns undefined: the view is new enough. @throws {ViewError} */
export function tooOld(view: ChainView, needed: Needed): RpcError | undefined {
  const lack = lackOf(view, needed)
  return lack && errorOf(lack, view)
}

const errorOf = ({ place, why }: Lack, view: ChainView): RpcError =>
  flashblockBehind(place, view.pending, why)

function lackOf(view: ChainView, needed: Needed): Lack | undefined {
  for (const place of needed) {
    const lack = lackOfOne(view, place)
    if (lack !== undefined) return lack
  }
  return undefined
}

function lackOfOne(view: ChainView, place: FlashblockPlace): Lack | undefined {
  const { pending: top } = view
  const { number, index, payloadId } = place
  const behind = { place, why: 'behind', isDecided: false } as const
  if (number > top.number) return behind
  if (payloadId === undefined)
    return number < top.number || index <= top.index || isWhole(view, number) ? undefined : behind
  try {
    const isHere = view.block({ flashblock: place }) !== undefined
    return isHere || isWhole(view, number) ? undefined : behind
  } catch (error) {
    if (!(error instanceof PlaceError)) throw error
    // Of a block that is folded, or that came without flashblocks, nobody knows the payload: its number counts.
    if (error.why === 'gone') return undefined
    return { place, why: 'replaced', isDecided: number <= view.canonical.number }
  }
}

/** Nothing more comes of it. */
const isWhole = (view: ChainView, number: bigint): boolean =>
  view.block({ number })?.flashblockIndex === undefined

type Waiter = { readonly needed: Needed; readonly end: (error: RpcError | undefined) => void }
type Waiters = Readonly<Record<Endpoint, Set<Waiter>>>
const ENDPOINTS = ['flashblocks', 'standard'] as const

export function createPlaceWaits(options: {
  readonly reader: ChainReader
  /** A record is published, whether or not clients are shown it. */
  readonly onArrival: (listener: () => void) => () => void
  readonly limits: Pick<Limits, 'placeWaitMs' | 'placeWaitsPerClient' | 'placeWaitsTotal'>
  readonly caps: OpenCaps
  readonly now: Now
}): PlaceWaits {
  const { reader, limits, now } = options
  const caps = options.caps('places', {
    perClient: limits.placeWaitsPerClient,
    total: limits.placeWaitsTotal,
  })
  const waiters: Waiters = { flashblocks: new Set(), standard: new Set() }
  const stats = { held: 0, expired: 0, refused: 0 }

  options.onArrival(() => {
    for (const endpoint of ENDPOINTS)
      if (waiters[endpoint].size > 0) endReached(reader, endpoint, waiters[endpoint])
  })

  function wait(needed: Needed, { endpoint, signal }: Client): Promise<RpcError | undefined> {
    return new Promise((resolve) => {
      const waiter: Waiter = {
        needed,
        end(error) {
          if (!waiters[endpoint].delete(waiter)) return
          stop()
          signal.removeEventListener('abort', gone)
          resolve(error)
        },
      }
      const gone = (): void => waiter.end(undefined)
      const onExpired = (): void => {
        stats.expired++
        waiter.end(look(reader, endpoint, (view) => tooOld(view, needed)))
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
      const found = look(reader, client.endpoint, (view) => {
        const lack = lackOf(view, needed)
        if (lack === undefined || isHereAhead(reader, client.endpoint, needed)) return 'reached'
        return lack.isDecided || !mayWait ? errorOf(lack, view) : undefined
      })
      if (found !== undefined) return found === 'reached' ? undefined : found
      const giveBack = caps.take(client.address)
      if (giveBack === undefined) {
        stats.refused++
        return capReached('too many requests wait for a flashblock', limits.placeWaitsPerClient)
      }
      stats.held++
      return wait(needed, client).finally(giveBack)
    },
    get stats() {
      return { waiting: waiters.flashblocks.size + waiters.standard.size, ...stats }
    },
  }
}

/** In a record that others are shown later. */
const isHereAhead = (reader: ChainReader, endpoint: Endpoint, needed: Needed): boolean =>
  isAhead(reader, endpoint, (view) => lackOf(view, needed) === undefined)

function endReached(reader: ChainReader, endpoint: Endpoint, waiters: Set<Waiter>): void {
  look(reader, endpoint, (view) => {
    for (const { needed, end } of [...waiters]) {
      const lack = lackOf(view, needed)
      if (lack === undefined || isHereAhead(reader, endpoint, needed)) end(undefined)
      else if (lack.isDecided) end(errorOf(lack, view))
    }
  })
}

/** undefined too where views come and go faster than they can be read: whoever leases one looks again. */
function look<T>(
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

/** What WebSockets send is charged, counted and timed while it comes in, long before it is a message. */

import type { Limiter } from '../limiter/limiter.ts'
import { POINT_BYTES, POINT_CONTROL_FRAMES, POINT_PIECES } from '../limiter/points.ts'
import { limiterKey } from '../seam/address.ts'
import { type Paid, paidMore, UNPAID } from '../seam/paid.ts'
import type { Intake } from './intake.ts'
import type { Reading } from './reading.ts'

export type MeterOptions = {
  readonly limiter: Pick<Limiter, 'charge'>
  readonly intake: Intake
  /** For a message to come in whole, the time for which it was not read left out. */
  readonly messageMs: number
  readonly now: () => number
}
export interface Meter {
  /** A piece from the network. */
  received(bytes: number): void
  /** A ping or a pong with so many bytes of payload is over: nothing of it is kept, and it is not of the message that it came within. */
  control(length: number): void
  /** A message is whole. Gives what was paid for it: once a charge that is on its way for it is answered. */
  complete(length: number): Paid | Promise<Paid>
  end(): void
}
type Metered = {
  readonly address: string
  readonly reading: Reading
  /** Ends the connection, whose message does not come to its end, or whose room others need more. */
  readonly cut: (why: 'late' | 'room') => void
}
/** A message of which more than the first bytes are here. */
type Unfinished = Metered & {
  readonly startedAt: number
  readonly stoppedBeforeMs: number
}
/** Takes what it waits for; false: there is no room yet. */
type Waiter = { readonly take: () => boolean; readonly go: () => void }

/** What may be read behind a message that is whole, but not handed on yet: the high-water mark of the receiver. */
const SLACK_BYTES = 16_384
/** Of an unfinished message, that nobody counts: most are not longer. */
const FREE_BYTES = 16_384
/** A piece keeps so many bytes besides its own. */
const PIECE_BYTES = 256
/** Around the payload of a control frame of a client: it has at most 125 bytes, and a mask. */
const CONTROL_HEADER_BYTES = 6
const RETRY_MS = 50
const LOOK_MS = 1_000

export function createMeters(options: MeterOptions): { open(metered: Metered): Meter } {
  const room = createRoom()
  const deadlines = createDeadlines(options)
  return { open: (metered) => openMeter(metered, { ...options, room, deadlines }) }
}

function openMeter(
  metered: Metered,
  options: MeterOptions & {
    readonly room: ReturnType<typeof createRoom>
    readonly deadlines: ReturnType<typeof createDeadlines>
  },
): Meter {
  const { address, reading } = metered
  const { intake, room, deadlines } = options
  const bill = openBill(metered, options.limiter)
  const share = createShare(intake, limiterKey(address), () => {
    release()
    metered.cut('room')
  })
  let unfinished: Unfinished | undefined

  const take = () => share.take(bill.keptBytes - FREE_BYTES)
  const waiter: Waiter = { take, go: () => reading.go('room') }

  function release(): void {
    if (unfinished === undefined) return
    deadlines.delete(unfinished)
    unfinished = undefined
    room.leave(waiter)
    share.give()
    reading.go('room')
  }

  return {
    received(length) {
      bill.received(length)
      if (bill.keptBytes <= FREE_BYTES) return
      unfinished ??= deadlines.add(metered)
      if (room.isGranted(waiter) || take()) return
      reading.stop('room')
      room.wait(waiter)
    },
    control(length) {
      bill.control(CONTROL_HEADER_BYTES + length)
      if (bill.keptBytes <= FREE_BYTES) release()
    },
    complete(length) {
      const closed = bill.close(Math.ceil(length / POINT_BYTES))
      release()
      return closed
    },
    end() {
      void bill.close(0)
      release()
    },
  }
}

/** What is paid for a message, also when it is whole before its last charge is answered. */
type Bill = { paid: Paid; onSettled: (() => void) | undefined }
const newBill = (): Bill => ({ paid: UNPAID, onSettled: undefined })

/** What came in since the last message that was whole, and what was charged for it. Not read while a charge is refused. */
function openBill(
  { address, reading }: Pick<Metered, 'address' | 'reading'>,
  limiter: MeterOptions['limiter'],
) {
  const counts = createCounts()
  let bill = newBill()
  /** From the first charge of a message on, until nothing is due. */
  let isCharging = false
  /** The one that the limiter was asked for, and has not answered yet. */
  let asked: Bill | undefined

  function charge(): void {
    if (!isCharging && counts.due() > bill.paid.points) void pay()
  }
  async function pay(): Promise<void> {
    isCharging = true
    while (counts.due() > bill.paid.points) {
      reading.stop('charge')
      const charging = bill
      const points = counts.due() - charging.paid.points
      asked = charging
      const charged = await limiter.charge(address, points)
      asked = undefined
      if (charged.isAllowed) charging.paid = paidMore(charging.paid, points)
      charging.onSettled?.()
      if (!charged.isAllowed) await later(charged.retryAfterMs)
    }
    isCharging = false
    reading.go('charge')
  }

  return {
    get keptBytes() {
      return counts.keptBytes
    },
    received(length: number): void {
      counts.received(length)
      charge()
    },
    control(length: number): void {
      counts.control(length)
      charge()
    },
    /**
     * Gives what was paid, and begins anew; pings are counted on. A charge on its way is the closed bill's, because the next message would
     * be credited with it.
     * @param least points of the message by its length
     */
    close(least: number): Paid | Promise<Paid> {
      const closed = bill
      const atLeast = Math.max(least, counts.due() + 1)
      bill = newBill()
      counts.close()
      if (asked !== closed) return paidOf(closed, atLeast)
      return new Promise((resolve) => {
        closed.onSettled = () => resolve(paidOf(closed, atLeast))
      })
    },
  }
}

/** Bytes, pieces, and the pings and pongs among them. */
function createCounts() {
  let bytes = 0
  let pieces = 0
  /** Those of them that are not of pings and pongs: who only listens sends nothing else, and begins no message with it. */
  let kept = { bytes: 0, pieces: 0 }
  let controls = 0
  return {
    /** What they take of the node's memory. */
    get keptBytes() {
      return kept.bytes + kept.pieces * PIECE_BYTES
    },
    due: () => duePoints(bytes, pieces) + Math.floor(controls / POINT_CONTROL_FRAMES),
    received(length: number): void {
      bytes += length
      pieces++
      kept = { bytes: kept.bytes + length, pieces: kept.pieces + 1 }
    },
    control(length: number): void {
      const left = Math.max(0, kept.bytes - length)
      // No piece is empty.
      kept = { bytes: left, pieces: Math.min(kept.pieces, left) }
      controls++
    },
    close(): void {
      bytes = 0
      pieces = 0
      kept = { bytes: 0, pieces: 0 }
      controls %= POINT_CONTROL_FRAMES
    },
  }
}

const later = (ms: number): Promise<void> =>
  new Promise((resolve) => void setTimeout(resolve, ms).unref())

/** Nothing that came in is cheaper for what it turned out to be. */
function paidOf({ paid }: Bill, atLeast: number): Paid {
  const least = Math.max(atLeast, paid.points + 1)
  return least === 1 ? paid : { ...paid, least }
}

/** The first point is paid with the message. */
const duePoints = (bytes: number, pieces: number): number =>
  Math.max(
    Math.floor(Math.max(0, bytes - 1 - SLACK_BYTES) / POINT_BYTES),
    Math.floor(pieces / POINT_PIECES),
  )

/** What a message has of the intake. */
function createShare(intake: Intake, key: string, cut: () => void) {
  const held = intake.open(key, cut)
  let heldBytes = 0
  return {
    /** Until it has so much; false: there is no room. */
    take(wanted: number): boolean {
      const more = wanted - heldBytes
      if (more > 0 && !held.take(more)) return false
      if (more > 0) heldBytes += more
      return true
    },
    give(): void {
      held.release()
      heldBytes = 0
    },
  }
}

/**
 * Who waits for room. The first of them goes on without it, so that unfinished messages that wait for each other come to their end one
 * after the other.
 */
function createRoom() {
  /** In the order in which they came. */
  const waiting = new Set<Waiter>()
  let granted: Waiter | undefined
  let isScheduled = false

  function retry(): void {
    isScheduled = false
    for (const waiter of waiting) {
      if (!waiter.take()) {
        if (granted !== undefined) continue
        granted = waiter
      }
      waiting.delete(waiter)
      waiter.go()
    }
    schedule()
  }
  function schedule(): void {
    if (waiting.size === 0 || isScheduled) return
    isScheduled = true
    setTimeout(retry, RETRY_MS).unref()
  }

  return {
    isGranted: (waiter: Waiter): boolean => granted === waiter,
    wait(waiter: Waiter): void {
      waiting.add(waiter)
      schedule()
    },
    leave(waiter: Waiter): void {
      waiting.delete(waiter)
      if (granted === waiter) granted = undefined
    },
  }
}

function createDeadlines({ messageMs, now }: Pick<MeterOptions, 'messageMs' | 'now'>) {
  const all = new Set<Unfinished>()
  let timer: NodeJS.Timeout | undefined

  function look(): void {
    for (const one of all) {
      const stoppedMs = one.reading.stoppedMs() - one.stoppedBeforeMs
      if (now() - one.startedAt - stoppedMs <= messageMs) continue
      all.delete(one)
      one.cut('late')
    }
    if (all.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  return {
    add(metered: Metered): Unfinished {
      const stoppedBeforeMs = metered.reading.stoppedMs()
      const one = { ...metered, startedAt: now(), stoppedBeforeMs }
      all.add(one)
      timer ??= setInterval(look, LOOK_MS).unref()
      return one
    },
    delete: (one: Unfinished): void => void all.delete(one),
  }
}

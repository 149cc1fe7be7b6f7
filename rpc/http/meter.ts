/**
 * Charges, counts and times the input of WebSockets on arrival, before it is a complete message.
 */

import { addPrepaid, NOTHING_PREPAID, type Prepaid } from '../core/prepaid.ts'
import { limiterKey } from '../limiter/address.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { POINT_BYTES, POINT_CONTROL_FRAMES, POINT_PIECES } from '../limiter/points.ts'
import type { Intake } from './intake.ts'
import type { Reading } from './reading.ts'

export type MeterOptions = {
  readonly limiter: Pick<Limiter, 'charge'>
  readonly intake: Intake
  /** Maximum milliseconds of a message's arrival, without the time in which it was not read. */
  readonly messageMs: number
  readonly now: () => number
}
export interface Meter {
  /** Counts a piece from the network. */
  received(bytes: number): void
  /**
   * Removes a ping or pong from the counts of the surrounding message, because its bytes are not
   * buffered.
   * @param length bytes of its payload
   */
  control(length: number): void
  /**
   * Ends a complete message.
   * @returns points paid for the message, after its pending charge
   */
  complete(length: number): Prepaid | Promise<Prepaid>
  end(): void
}
type Metered = {
  readonly address: string
  readonly reading: Reading
  /** Closes the connection: its message is late, or other clients need its memory. */
  readonly cut: (why: 'late' | 'room') => void
}
/** An incomplete message with more than the free bytes. */
type Unfinished = Metered & {
  readonly startedAt: number
  readonly stoppedBeforeMs: number
}
/** A connection that waits for memory. `take` reserves it and returns false without capacity. */
type Waiter = { readonly take: () => boolean; readonly go: () => void }

/**
 * Bytes that may be read behind a complete message that is not delivered yet: the receiver's
 * high-water mark.
 */
const SLACK_BYTES = 16_384
/** Bytes of an incomplete message that are not counted; most messages are shorter. */
const FREE_BYTES = 16_384
/** Memory overhead of a piece in bytes. */
const PIECE_BYTES = 256
/**
 * Bytes around the payload of a client's control frame: the header and a mask. A payload has at
 * most 125 bytes.
 */
const CONTROL_HEADER_BYTES = 6
const RETRY_MS = 50
const CHECK_MS = 1_000

export function createMeters(options: MeterOptions): { open(metered: Metered): Meter } {
  const capacity = createCapacity()
  const deadlines = createDeadlines(options)
  return { open: (metered) => openMeter(metered, { ...options, capacity, deadlines }) }
}

function openMeter(
  metered: Metered,
  options: MeterOptions & {
    readonly capacity: ReturnType<typeof createCapacity>
    readonly deadlines: ReturnType<typeof createDeadlines>
  },
): Meter {
  const { address, reading } = metered
  const { intake, capacity, deadlines } = options
  const bill = openBill(metered, options.limiter)
  const share = createShare(intake, limiterKey(address), () => {
    release()
    metered.cut('room')
  })
  let unfinished: Unfinished | undefined

  const take = () => share.take(bill.bufferedBytes - FREE_BYTES)
  const waiter: Waiter = { take, go: () => reading.go('room') }

  function release(): void {
    if (unfinished === undefined) return
    deadlines.delete(unfinished)
    unfinished = undefined
    capacity.leave(waiter)
    share.give()
    reading.go('room')
  }

  return {
    received(length) {
      bill.received(length)
      if (bill.bufferedBytes <= FREE_BYTES) return
      unfinished ??= deadlines.add(metered)
      if (capacity.isGranted(waiter) || take()) return
      reading.stop('room')
      capacity.wait(waiter)
    },
    control(length) {
      bill.control(CONTROL_HEADER_BYTES + length)
      if (bill.bufferedBytes <= FREE_BYTES) release()
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

/** Points paid for a message, also if it is complete before its last charge is decided. */
type Bill = { prepaid: Prepaid; onSettled: (() => void) | undefined }
const newBill = (): Bill => ({ prepaid: NOTHING_PREPAID, onSettled: undefined })

/**
 * Charges for the input since the last complete message. The connection is not read while a charge
 * is refused.
 */
function openBill(
  { address, reading }: Pick<Metered, 'address' | 'reading'>,
  limiter: MeterOptions['limiter'],
) {
  const counts = createCounts()
  let bill = newBill()
  /** True from a message's first charge until no points are due. */
  let isCharging = false
  /** Bill of the pending charge. */
  let requested: Bill | undefined

  function charge(): void {
    if (!isCharging && counts.due() > bill.prepaid.points) void pay()
  }
  async function pay(): Promise<void> {
    isCharging = true
    while (counts.due() > bill.prepaid.points) {
      reading.stop('charge')
      const charging = bill
      const points = counts.due() - charging.prepaid.points
      requested = charging
      const charged = await limiter.charge(address, points)
      requested = undefined
      if (charged.isAllowed) charging.prepaid = addPrepaid(charging.prepaid, points)
      charging.onSettled?.()
      if (!charged.isAllowed) await later(charged.retryAfterMs)
    }
    isCharging = false
    reading.go('charge')
  }

  return {
    get bufferedBytes() {
      return counts.bufferedBytes
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
     * Returns the points paid and starts a new bill; the counts of pings continue. A pending charge
     * stays with the closed bill, so the next message is not credited with it.
     * @param min minimum points of the message by its length
     */
    close(min: number): Prepaid | Promise<Prepaid> {
      const closed = bill
      const minPoints = Math.max(min, counts.due() + 1)
      bill = newBill()
      counts.close()
      if (requested !== closed) return prepaidOf(closed, minPoints)
      return new Promise((resolve) => {
        closed.onSettled = () => resolve(prepaidOf(closed, minPoints))
      })
    },
  }
}

/** Counts bytes, pieces, and control frames among them. */
function createCounts() {
  let bytes = 0
  let pieces = 0
  /**
   * Bytes and pieces without control frames. A client that only listens sends only control frames,
   * which start no message.
   */
  let buffered = { bytes: 0, pieces: 0 }
  let controls = 0
  return {
    /** Memory of the buffered input in bytes. */
    get bufferedBytes() {
      return buffered.bytes + buffered.pieces * PIECE_BYTES
    },
    due: () => duePoints(bytes, pieces) + Math.floor(controls / POINT_CONTROL_FRAMES),
    received(length: number): void {
      bytes += length
      pieces++
      buffered = { bytes: buffered.bytes + length, pieces: buffered.pieces + 1 }
    },
    control(length: number): void {
      const left = Math.max(0, buffered.bytes - length)
      // A piece has at least one byte.
      buffered = { bytes: left, pieces: Math.min(buffered.pieces, left) }
      controls++
    },
    close(): void {
      bytes = 0
      pieces = 0
      buffered = { bytes: 0, pieces: 0 }
      controls %= POINT_CONTROL_FRAMES
    },
  }
}

const later = (ms: number): Promise<void> =>
  new Promise((resolve) => void setTimeout(resolve, ms).unref())

/** Returns the points paid, with at least the points of the received input as minimum cost. */
function prepaidOf({ prepaid }: Bill, minPoints: number): Prepaid {
  const min = Math.max(minPoints, prepaid.points + 1)
  return min === 1 ? prepaid : { ...prepaid, min }
}

/** Returns the points due for input. The first point is paid with the message. */
const duePoints = (bytes: number, pieces: number): number =>
  Math.max(
    Math.floor(Math.max(0, bytes - 1 - SLACK_BYTES) / POINT_BYTES),
    Math.floor(pieces / POINT_PIECES),
  )

/** Memory of a message in the intake. */
function createShare(intake: Intake, key: string, cut: () => void) {
  const reservation = intake.open(key, cut)
  let reservedBytes = 0
  return {
    /** Reserves memory up to `wanted`. False: no capacity. */
    take(wanted: number): boolean {
      const more = wanted - reservedBytes
      if (more > 0 && !reservation.take(more)) return false
      if (more > 0) reservedBytes += more
      return true
    },
    give(): void {
      reservation.release()
      reservedBytes = 0
    },
  }
}

/**
 * Connections that wait for memory. The first one continues without it, so that waiting messages
 * complete one after the other instead of blocking each other.
 */
function createCapacity() {
  /** Waiting connections in order of arrival. */
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

  function check(): void {
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
      timer ??= setInterval(check, CHECK_MS).unref()
      return one
    },
    delete: (one: Unfinished): void => void all.delete(one),
  }
}

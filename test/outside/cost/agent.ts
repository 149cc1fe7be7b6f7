/**
 * This module is preloaded into a node (`--import`) and runs in its main thread alone. It measures
 * each turn of the event loop between two words on its own loopback socket. An empty turn takes 4
 * µs, three times that on a busy machine, and is not counted.
 */
import { openSync, readSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { connect } from 'node:net'
import { GCProfiler, getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread } from 'node:worker_threads'
import { slownessOf } from './slowness.ts'

/** The work of the front between `start` and `end`. */
export type Turns = {
  /**
   * The longest turn in milliseconds. The time in which the thread waited for a processor is
   * subtracted, here and below.
   */
  readonly stretchMs: number
  /** The sum of all turns that are not empty. */
  readonly cpuMs: number
  /** The maximum number of bytes that one turn has allocated, in and outside of the heap. */
  readonly allocated: number
  readonly turns: number
  /** The limiter's points since the start. */
  readonly charged: number
}
/**
 * These environment variables name the port of the measuring process, and the port of the node's
 * admin page.
 */
export const AGENT_PORT = 'TEST_COST_PORT'
export const ADMIN_PORT = 'TEST_COST_ADMIN_PORT'

/**
 * After `end` this many milliseconds must pass without a turn that works; TIMEOUT_MS limits the
 * wait.
 */
const QUIET_MS = 1.5
const TIMEOUT_MS = 400
/** A turn that takes longer is checked for garbage collections. */
const LONG_MS = 0.3
const WARM_TURNS = 40
/** A turn that takes longer is not empty. */
const EMPTY_MS = 0.02
/**
 * The heap is read after this many empty turns. Their own garbage of some kilobytes is counted for
 * the next turn.
 */
const CHECK_TURNS = 64

function listen(port: number): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void
  const socket = connect({ port, host: '127.0.0.1' })
  socket.setNoDelay()
  socket.unref()
  socket.on('error', () => {})
  let meter: Meter | undefined
  socket.setEncoding('latin1').on('data', (words) => {
    for (const word of String(words)) {
      if (word === 'b') {
        collect({ type: 'minor' })
        meter = createMeter(() => socket.write('{}\n'))
      }
      if (word === 'e')
        meter?.end((turns) =>
          whenCharged((charged) => socket.write(`${JSON.stringify({ ...turns, charged })}\n`)),
        )
      if (word === 's') socket.write(`${slownessOf()}\n`)
    }
  })
}

/**
 * Reads the charged points from the admin page of the same process. A word from another process
 * would wait for a processor.
 */
function whenCharged(then: (points: number) => void): void {
  get({ host: '127.0.0.1', port: process.env[ADMIN_PORT], agent }, (response) => {
    let page = ''
    response.setEncoding('utf8').on('data', (part: string) => {
      page += part
    })
    response.on('end', () => {
      const { front } = JSON.parse(page) as { front: { pointsCharged: number } }
      then(front.pointsCharged)
    })
  })
}
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

type Measured = Omit<Turns, 'charged'>
type Meter = { end(onQuiet: (turns: Measured) => void): void }

/**
 * Makes the meter. Empty turns only read the clock, because further checks would allocate garbage
 * themselves.
 */
function createMeter(onWarm: () => void): Meter {
  const collections = createCollections()
  let at = performance.now()
  let waitedAt = waitedMs()
  let heapAt = heapBytes()
  let sinceCheck = 0
  let count = 0
  let stretchMs = 0
  let cpuMs = 0
  let allocated = 0
  let busyAt = at
  let endAt = 0
  let done: ((turns: Measured) => void) | undefined

  /** Reads the heap at the end of a longer turn, and from time to time. */
  function check(ms: number): void {
    let heap = heapBytes()
    let bytes = heap - heapAt
    if (ms > LONG_MS || bytes < 0) {
      bytes += collections.bytes()
      heap = heapBytes()
    }
    // A thread that waited for a processor took longer than an empty turn, so no wait is missed.
    const waited = ms > EMPTY_MS ? waitedMs() : waitedAt
    const workedMs = performance.now() - at - (waited - waitedAt)
    if (workedMs > 2 * EMPTY_MS && count > WARM_TURNS) {
      cpuMs += workedMs
      busyAt = at + ms
      stretchMs = Math.max(stretchMs, workedMs)
      allocated = Math.max(allocated, bytes)
    }
    heapAt = heap
    sinceCheck = 0
  }
  function turn(): void {
    const now = performance.now()
    const ms = now - at
    count++
    if (ms > EMPTY_MS || ++sinceCheck >= CHECK_TURNS) check(ms)
    if (count === WARM_TURNS) onWarm()
    const isOver = now - Math.max(busyAt, endAt) > QUIET_MS || now - endAt > TIMEOUT_MS
    if (done !== undefined && isOver) {
      collections.stop()
      done({ stretchMs, cpuMs, allocated, turns: count })
      return
    }
    setImmediate(turn)
    at = performance.now()
    if (sinceCheck === 0 || at - now > EMPTY_MS) start()
  }
  /**
   * Reads both clocks at one moment, and repeats the reads when the thread was stopped in between.
   */
  function start(): void {
    for (let tries = 0; tries < 5; tries++) {
      const before = performance.now()
      waitedAt = waitedMs()
      at = performance.now()
      if (at - before < 5 * EMPTY_MS) break
    }
  }
  setImmediate(turn)
  return {
    end(onQuiet) {
      endAt = performance.now()
      done = onQuiet
    },
  }
}

/** Counts the bytes that garbage collections freed, so that earlier allocations are known. */
function createCollections(): { bytes(): number; stop(): void } {
  let profiler = new GCProfiler()
  profiler.start()
  return {
    bytes() {
      const { statistics } = profiler.stop()
      profiler = new GCProfiler()
      profiler.start()
      let bytes = 0
      for (const { beforeGC, afterGC } of statistics) {
        const before = beforeGC.heapStatistics
        const after = afterGC.heapStatistics
        bytes += before.usedHeapSize + before.externalMemory
        bytes -= after.usedHeapSize + after.externalMemory
      }
      return bytes
    },
    stop: () => void profiler.stop(),
  }
}

/**
 * Gives the time for which the thread was ready to run but other threads ran. The value is exact,
 * while the thread's processor time is counted in ticks of 4 ms. The clock minus this value repeats
 * within a tenth where eight processes share two cores (2026-11).
 */
function waitedMs(): number {
  if (scheduled === undefined) return 0
  const length = readSync(scheduled, text, 0, text.length, 0)
  return Number(text.toString('latin1', 0, length).split(' ')[1]) / 1e6
}
const text = Buffer.alloc(128)
const scheduled = openSchedule()

function openSchedule(): number | undefined {
  try {
    return openSync('/proc/thread-self/schedstat', 'r')
  } catch {
    return undefined
  }
}
function heapBytes(): number {
  const { used_heap_size, external_memory } = getHeapStatistics()
  return used_heap_size + external_memory
}

const port = process.env[AGENT_PORT]
if (isMainThread && port !== undefined) listen(Number(port))

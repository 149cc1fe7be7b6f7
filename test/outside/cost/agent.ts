/**
 * Preloaded into a node (`--import`), in its main thread alone: measures each turn of that thread's event loop between two words on a
 * loopback socket of its own. A turn that does nothing takes 4 µs, on a busy machine three times that, and is not counted.
 */
import { openSync, readSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { connect } from 'node:net'
import { GCProfiler, getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread } from 'node:worker_threads'

/** What the front did between `begin` and `end`. */
export type Turns = {
  /** The longest turn, milliseconds. What the thread waited for a processor that others had is taken off, here and below. */
  readonly stretchMs: number
  /** All turns, without empty ones. */
  readonly cpuMs: number
  /** Bytes that the turn that allocated most has allocated, in and outside the heap. */
  readonly allocated: number
  readonly turns: number
  /** Points of the limiter since the start. */
  readonly charged: number
}
/** Environment: where it finds who asks, and the node's admin page. */
export const AGENT_PORT = 'TEST_COST_PORT'
export const ADMIN_PORT = 'TEST_COST_ADMIN_PORT'

/** After `end` so many milliseconds must pass without a turn that does something, or the longest wait. */
const QUIET_MS = 1.5
const PATIENCE_MS = 400
/** From which a turn is looked at for garbage collections. */
const LONG_MS = 0.3
const WARM_TURNS = 40
/** A turn that takes longer did something. */
const EMPTY_MS = 0.02
/** Empty turns between two looks at the heap: their own garbage, some kilobytes, is in what the next one seems to allocate. */
const LOOK_TURNS = 64

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
    }
  })
}

/** From here, for each word to another process waits until that one has a processor. */
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

/** Empty turns only look at the clock: what they would allocate to look at more would have to be collected. */
function createMeter(onWarm: () => void): Meter {
  const collections = createCollections()
  let at = performance.now()
  let waitedAt = waitedMs()
  let heapAt = heapBytes()
  let sinceLook = 0
  let count = 0
  let stretchMs = 0
  let cpuMs = 0
  let allocated = 0
  let busyAt = at
  let endAt = 0
  let done: ((turns: Measured) => void) | undefined

  /** At the end of a turn that took longer, and from time to time. */
  function look(ms: number): void {
    let heap = heapBytes()
    let bytes = heap - heapAt
    if (ms > LONG_MS || bytes < 0) {
      bytes += collections.bytes()
      heap = heapBytes()
    }
    // Whoever waits for a processor takes more than an empty turn: no wait is missed.
    const waited = ms > EMPTY_MS ? waitedMs() : waitedAt
    const workedMs = performance.now() - at - (waited - waitedAt)
    if (workedMs > 2 * EMPTY_MS && count > WARM_TURNS) {
      cpuMs += workedMs
      busyAt = at + ms
      stretchMs = Math.max(stretchMs, workedMs)
      allocated = Math.max(allocated, bytes)
    }
    heapAt = heap
    sinceLook = 0
  }
  function turn(): void {
    const now = performance.now()
    const ms = now - at
    count++
    if (ms > EMPTY_MS || ++sinceLook >= LOOK_TURNS) look(ms)
    if (count === WARM_TURNS) onWarm()
    const isOver = now - Math.max(busyAt, endAt) > QUIET_MS || now - endAt > PATIENCE_MS
    if (done !== undefined && isOver) {
      collections.stop()
      done({ stretchMs, cpuMs, allocated, turns: count })
      return
    }
    setImmediate(turn)
    at = performance.now()
    if (sinceLook === 0 || at - now > EMPTY_MS) begin()
  }
  /** Both clocks at one moment: a thread that was stopped between them looks again. */
  function begin(): void {
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

/** What garbage collections took away, so that what was allocated before them is known. */
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
 * For how long the thread could have run but others did, since it began. Exact, where the thread's processor time is counted in ticks of
 * 4 ms: the clock less this repeats within a tenth on a machine where eight processes share two cores (2026-11).
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

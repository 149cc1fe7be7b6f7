/**
 * The time limit of a call counts the time in which the process ran. Any thread may read the clock
 * first after a stop.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createClockMemory, openClock } from '../../../workers/thread/running-clock.ts'

test('the clock leaves out each long gap between reads once, in all threads', () => {
  const checks = fc.array(
    fc.record({ thread: fc.nat(2), afterMs: fc.oneof(fc.nat(249), fc.integer({ min: 251 })) }),
    { maxLength: 60 },
  )
  fc.assert(
    fc.property(fc.nat(), checks, (start, all) => {
      let [now, ran] = [start, start]
      const source = () => now
      const memory = createClockMemory(source)
      const clocks = [0, 1, 2].map(() => openClock(memory, source))
      let stoodMs = 0
      for (const { thread, afterMs } of all) {
        now += afterMs
        // A stop beyond 24 days counts as running time.
        const isStop = afterMs > 250 && stoodMs + afterMs < 2 ** 31
        if (isStop) stoodMs += afterMs
        else ran += afterMs
        expect(clocks[thread]!()).toBe(ran)
      }
    }),
  )
})

/** Three threads read the clock as often as they can, and post their results on request. */
const LOOKER = `
const { parentPort, workerData } = require('node:worker_threads')
import(workerData.module).then(({ openClock, processNow }) => {
  const clock = openClock(workerData.memory)
  const [from, wallFrom] = [clock(), processNow()]
  let [last, maxMs, minMs] = [from, 0, 0]
  parentPort.postMessage('looks')
  while (Atomics.load(workerData.isOver, 0) === 0) {
    const now = clock()
    maxMs = Math.max(maxMs, now - last)
    minMs = Math.min(minMs, now - last)
    last = now
  }
  parentPort.postMessage({ maxMs, minMs, ranMs: last - from, wallMs: processNow() - wallFrom })
})`
const MAIN = `
const { Worker } = require('node:worker_threads')
const { once } = require('node:events')
import(process.argv[1]).then(async ({ createClockMemory }) => {
  const isOver = new Int32Array(new SharedArrayBuffer(4))
  const workerData = { module: process.argv[1], memory: createClockMemory(), isOver }
  const lookers = [1, 2, 3].map(() => new Worker(${JSON.stringify(LOOKER)}, { eval: true, workerData }))
  await Promise.all(lookers.map((looker) => once(looker, 'message')))
  console.log('ready')
  process.stdin.once('data', async () => {
    const said = Promise.all(lookers.map((looker) => once(looker, 'message')))
    Atomics.store(isOver, 0, 1)
    console.log(JSON.stringify((await said).map(([one]) => one)))
    process.exit()
  })
})`
const MODULE = new URL('../../../workers/thread/running-clock.ts', import.meta.url).href
const STOP_MS = 1_500
type Seen = Readonly<Record<'maxMs' | 'minMs' | 'ranMs' | 'wallMs', number>>

test('no thread of a stopped process sees the time of the stop', async () => {
  const child = spawn(process.execPath, ['-e', MAIN, MODULE], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  expect((await lines.next()).value).toBe('ready')
  await stopFor(child, STOP_MS)
  child.stdin.write('\n')
  const all = JSON.parse((await lines.next()).value!) as readonly Seen[]
  await once(child, 'exit')
  expect(all).toHaveLength(3)
  for (const { maxMs, minMs, ranMs, wallMs } of all) {
    expect(maxMs).toBeLessThan(STOP_MS / 2)
    expect(minMs).toBeGreaterThan(-STOP_MS / 2)
    expect(wallMs - ranMs).toBeGreaterThan(STOP_MS - 250)
    expect(wallMs - ranMs).toBeLessThan(2 * STOP_MS)
  }
})

async function stopFor(child: ChildProcess, ms: number): Promise<void> {
  child.kill('SIGSTOP')
  await new Promise((resolve) => setTimeout(resolve, ms))
  child.kill('SIGCONT')
}

import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'

const THREADS = 6
const OPENINGS = 20
const HEAPS = new URL('../../../workers/thread/heaps.ts', import.meta.url).href

/** Opens collectors when all threads are running, and posts their number or the error. */
const OPENER = `
const { parentPort, workerData } = require('node:worker_threads')
import(workerData.heaps).then(({ openCollector }) => {
  Atomics.add(workerData.there, 0, 1)
  while (Atomics.load(workerData.there, 0) < workerData.threads);
  let opened = 0
  for (let n = 0; n < workerData.openings; n++) if (typeof openCollector() === 'function') opened++
  parentPort.postMessage(opened)
})`

test('threads that open heap collectors at the same time all get them', async () => {
  const there = new Int32Array(new SharedArrayBuffer(4))
  const workerData = { heaps: HEAPS, there, threads: THREADS, openings: OPENINGS }
  const openers = Array.from(
    { length: THREADS },
    () => new Worker(OPENER, { eval: true, workerData }),
  )
  // A thread that fails ends with its error, which `once` throws.
  const opened = await Promise.all(
    openers.map(async (opener) => (await once(opener, 'message'))[0]),
  )
  expect(opened).toEqual(openers.map(() => OPENINGS))
})

/**
 * A thread that asks the node the smallest question again and again, and how long the front was
 * held before the slowest answer. Time for which either waited for a processor is left out.
 */
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { parentPort, Worker, workerData } from 'node:worker_threads'

export type Pinger = {
  /** Milliseconds, since it was asked last; at least one question began after that. */
  slowest(): Promise<number>
  stop(): Promise<unknown>
}

/** Between an answer and the next question. */
const PAUSE_MS = 1
const WARM = 500

/** Milliseconds that a thread ran, and that it waited for a processor. */
function schedulerMs(thread: string): readonly [ran: number, waited: number] {
  try {
    const [ran, waited] = readFileSync(`${thread}/schedstat`, 'latin1').split(' ')
    return [Number(ran) / 1e6, Number(waited) / 1e6]
  } catch {
    // It has ended.
    return [0, 0]
  }
}

export async function startPinger(node: {
  readonly url: string
  readonly pid: number
}): Promise<Pinger> {
  const { url, pid } = node
  const worker = new Worker(new URL(import.meta.url), { workerData: { pinged: { url, pid } } })
  await once(worker, 'message')
  return {
    async slowest() {
      worker.postMessage('slowest')
      const [milliseconds] = (await once(worker, 'message')) as [number]
      return milliseconds
    },
    stop: () => worker.terminate(),
  }
}

const { pinged } = (workerData ?? {}) as {
  readonly pinged?: { readonly url: string; readonly pid: number }
}
if (pinged !== undefined && parentPort !== null) {
  const port = parentPort
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const body = '{"jsonrpc":"2.0","id":1,"method":"net_version","params":[]}'
  const headers = { 'content-type': 'application/json', 'content-length': body.length }
  let slowest = 0
  let isAsked = false
  let front = String(pinged.pid)
  const ranMs = (thread: string) => schedulerMs(`/proc/${pinged.pid}/task/${thread}`)[0]
  const waitedMs = () =>
    schedulerMs(`/proc/${pinged.pid}/task/${front}`)[1] + schedulerMs('/proc/thread-self')[1]
  const ping = () =>
    new Promise<void>((resolve, reject) => {
      const waited = waitedMs()
      const startedAt = performance.now()
      const sent = request(pinged.url, { agent, method: 'POST', headers }, (response) => {
        response.resume()
        response.on('end', () => {
          const ms = performance.now() - startedAt
          slowest = Math.max(slowest, ms - (waitedMs() - waited))
          resolve()
        })
      })
      sent.on('error', reject)
      sent.end(body)
    })
  port.on('message', () => {
    isAsked = true
  })
  // The connection, and code that has to be compiled.
  for (let warm = 0; warm < WARM; warm++) await ping()
  // The front of this connection is the thread that runs most while nobody else asks.
  const threads = readdirSync(`/proc/${pinged.pid}/task`)
  const before = threads.map(ranMs)
  for (let warm = 0; warm < WARM; warm++) await ping()
  const ran = threads.map((thread, at) => ranMs(thread) - before[at]!)
  front = threads[ran.indexOf(Math.max(...ran))]!
  port.postMessage('ready')
  for (;;) {
    await ping()
    if (isAsked) {
      port.postMessage(slowest)
      slowest = 0
      isAsked = false
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}

/** A thread that asks the node the smallest question again and again and remembers how long the slowest answer took. */
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { parentPort, Worker, workerData } from 'node:worker_threads'

export type Pinger = {
  /** Milliseconds of the slowest answer since it was asked last; at least one question began after that. */
  slowest(): Promise<number>
  stop(): Promise<unknown>
}

/** Between an answer and the next question. */
const PAUSE_MS = 1

export async function startPinger(url: string): Promise<Pinger> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { pinged: url } })
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

const { pinged } = (workerData ?? {}) as { readonly pinged?: string }
if (pinged !== undefined && parentPort !== null) {
  const port = parentPort
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const body = '{"jsonrpc":"2.0","id":1,"method":"net_version","params":[]}'
  const headers = { 'content-type': 'application/json', 'content-length': body.length }
  let slowest = 0
  let isAsked = false
  const ping = () =>
    new Promise<void>((resolve, reject) => {
      const startedAt = performance.now()
      const sent = request(pinged, { agent, method: 'POST', headers }, (response) => {
        response.resume()
        response.on('end', () => {
          slowest = Math.max(slowest, performance.now() - startedAt)
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
  for (let warm = 0; warm < 500; warm++) await ping()
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

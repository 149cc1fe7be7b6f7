/**
 * This thread sends the requests of honest clients, 40 a second without waiting for responses. It
 * uses persistent connections, new ones and a WebSocket, and checks each response.
 */
import { once } from 'node:events'
import { Agent } from 'node:http'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { mulberry32 } from '../../kit/run-options.ts'
import { percentile } from '../soak/samples.ts'
import { type Carrier, openWebSocket, requester } from './carriers.ts'
import { createTransfers, type Put, questionMix, receiptOf } from './questions.ts'
import { requestReference, startReference } from './reference.ts'

/** The outcomes of the requests that were due since the last report. */
export type Latencies = {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly max: number
  readonly failures: readonly string[]
  /** The maximum delay of this thread's timers in milliseconds. */
  readonly ownLagMs: number
  /** The slowest response of the reference server, whose delay comes from the machine alone. */
  readonly referenceMs: number
}
export type Honest = {
  /** Waits for open responses, for at most 10 s. */
  latencies(): Promise<Latencies>
  stop(): Promise<unknown>
}

const PER_SECOND = 40
const ADDRESSES = ['127.0.0.1', '127.0.0.9'] as const
const TICK_MS = 5
/** After a pause of this thread, it sends at most the requests that were due in this time. */
const MAX_LAG_MS = 300
/** This share of the requests sends transactions. */
const SENDS = 1 / 40

export async function startHonest(url: string, seed: number): Promise<Honest> {
  const reference = await startReference()
  const workerData = { requested: url, seed, referenceUrl: reference.url }
  const worker = new Worker(new URL(import.meta.url), { workerData })
  await once(worker, 'message')
  return {
    async latencies() {
      worker.postMessage('heard')
      const [latencies] = (await once(worker, 'message')) as [Latencies]
      return latencies
    },
    async stop() {
      reference.stop()
      return worker.terminate()
    },
  }
}

type Window = { readonly times: number[]; readonly failures: string[] } & {
  ownLagMs: number
  referenceMs: number
}
const emptyWindow = (): Window => ({ times: [], failures: [], ownLagMs: 0, referenceMs: 0 })

async function run(url: string, seed: number, referenceUrl: string): Promise<void> {
  const random = mulberry32(seed)
  const request = requester(url)
  const carrierOf = await carriers(url)
  let window = emptyWindow()
  const put: Put = async ({ method, params, isRight }) => {
    const { times, failures } = window
    const path = random() < 0.5 ? '/' : '/flashblocks'
    const startedAt = performance.now()
    try {
      const result = await request({ path, method, params, carrier: carrierOf(random) })
      if (isRight(result)) return result
      failures.push(`${method}: ${JSON.stringify(result)?.slice(0, 80)}`)
    } catch (error) {
      failures.push(`${method}: ${(error as Error).message}`)
    } finally {
      times.push(performance.now() - startedAt)
    }
    return undefined
  }
  const transfers = createTransfers(put, random)
  await transfers.deploy()
  const receipt = receiptOf(await transfers.send())
  // The loop waits until both endpoints know the receipt.
  for (let known = 0; known < 10; ) known = (await put(receipt)) === undefined ? 0 : known + 1

  const next = questionMix(receipt, random)
  const open = new Set<Promise<unknown>>()
  const follow = (work: Promise<unknown>) => {
    open.add(work)
    void work.finally(() => open.delete(work))
  }
  const agent = new Agent({ keepAlive: true })
  const measureReference = async () => {
    const ofWindow = window
    const ms = await requestReference(referenceUrl, agent)
    ofWindow.referenceMs = Math.max(ofWindow.referenceMs, ms)
  }
  everySoOften(random, {
    onLag(ms) {
      window.ownLagMs = Math.max(window.ownLagMs, ms)
    },
    onDue() {
      const isSend = random() < SENDS && !transfers.isSending
      follow(isSend ? transfers.send() : put(next()))
      follow(measureReference())
    },
  })
  parentPort!.on('message', () => {
    const last = window
    window = emptyWindow()
    void Promise.all(open).then(() => parentPort!.postMessage(latenciesIn(last)))
  })
  parentPort!.postMessage('ready')
}

function latenciesIn({ times, failures, ownLagMs, referenceMs }: Window): Latencies {
  const at = (share: number) => percentile(times, share)
  const slow = { p50: at(0.5), p99: at(0.99), max: at(1) }
  return { count: times.length, ...slow, failures, ownLagMs, referenceMs }
}

/**
 * Half of the requests use persistent connections, a quarter new ones, and a quarter a WebSocket;
 * all come from two addresses.
 */
async function carriers(url: string): Promise<(random: () => number) => Carrier> {
  const retained = new Agent({ keepAlive: true })
  const fresh = new Agent()
  const webSocket = await openWebSocket(`${url.replace('http', 'ws')}/flashblocks`, ADDRESSES[1])
  return (random) => {
    const localAddress = ADDRESSES[random() < 0.5 ? 0 : 1]
    const at = random()
    if (at < 0.75) return { agent: at < 0.5 ? retained : fresh, localAddress }
    return { webSocket }
  }
}

/** Fires at random times, like clients that do not know of each other. */
function everySoOften(
  random: () => number,
  on: { readonly onLag: (ms: number) => void; readonly onDue: () => void },
): void {
  let due = performance.now()
  let last = due
  setInterval(() => {
    const now = performance.now()
    on.onLag(now - last - TICK_MS)
    last = now
    due = Math.max(due, now - MAX_LAG_MS)
    while (due < now) {
      on.onDue()
      due += (-Math.log(1 - random()) * 1_000) / PER_SECOND
    }
  }, TICK_MS)
}

const { requested, seed, referenceUrl } = (workerData ?? {}) as {
  readonly requested?: string
  readonly seed: number
  readonly referenceUrl: string
}
if (requested !== undefined) void run(requested, seed, referenceUrl)

/**
 * A thread that asks what clients ask, 40 times a second whatever becomes of the answers, over connections that stay, new ones and a
 * WebSocket, and checks each answer.
 */
import { once } from 'node:events'
import { Agent } from 'node:http'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { mulberry32 } from '../../kit/run-options.ts'
import { percentile } from '../soak/samples.ts'
import { asking, type Carrier, openWebSocket } from './carriers.ts'
import { createTransfers, type Put, questionMix, receiptOf } from './questions.ts'
import { askReference, startReference } from './reference.ts'

/** What became of the requests that were due since it was asked last. */
export type Heard = {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly max: number
  readonly failures: readonly string[]
  /** Milliseconds that timers of this thread were late at most. */
  readonly ownLagMs: number
  /** The slowest answer of the reference: what the machine alone made of a request meanwhile. */
  readonly referenceMs: number
}
export type Honest = {
  /** Waits for answers that are on their way, 10 s at most. */
  heard(): Promise<Heard>
  stop(): Promise<unknown>
}

const PER_SECOND = 40
const ADDRESSES = ['127.0.0.1', '127.0.0.9'] as const
const TICK_MS = 5
/** After a pause of this thread it does not send in one moment what was due in it. */
const MAX_BEHIND_MS = 300
/** Of the requests. */
const SENDS = 1 / 40

export async function startHonest(url: string, seed: number): Promise<Honest> {
  const reference = await startReference()
  const workerData = { asked: url, seed, referenceUrl: reference.url }
  const worker = new Worker(new URL(import.meta.url), { workerData })
  await once(worker, 'message')
  return {
    async heard() {
      worker.postMessage('heard')
      const [heard] = (await once(worker, 'message')) as [Heard]
      return heard
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
  const ask = asking(url)
  const carrierOf = await carriers(url)
  let window = emptyWindow()
  const put: Put = async ({ method, params, isRight }) => {
    const { times, failures } = window
    const path = random() < 0.5 ? '/' : '/flashblocks'
    const startedAt = performance.now()
    try {
      const result = await ask({ path, method, params, carrier: carrierOf(random) })
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
  // Both endpoints know it.
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
    const ms = await askReference(referenceUrl, agent)
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
    void Promise.all(open).then(() => parentPort!.postMessage(heardIn(last)))
  })
  parentPort!.postMessage('ready')
}

function heardIn({ times, failures, ownLagMs, referenceMs }: Window): Heard {
  const at = (share: number) => percentile(times, share)
  const slow = { p50: at(0.5), p99: at(0.99), max: at(1) }
  return { count: times.length, ...slow, failures, ownLagMs, referenceMs }
}

/** Half over connections that stay, a quarter each over new ones and over a WebSocket; from two addresses. */
async function carriers(url: string): Promise<(random: () => number) => Carrier> {
  const kept = new Agent({ keepAlive: true })
  const fresh = new Agent()
  const webSocket = await openWebSocket(`${url.replace('http', 'ws')}/flashblocks`, ADDRESSES[1])
  return (random) => {
    const localAddress = ADDRESSES[random() < 0.5 ? 0 : 1]
    const at = random()
    if (at < 0.75) return { agent: at < 0.5 ? kept : fresh, localAddress }
    return { webSocket }
  }
}

/** At times of chance, as clients that do not know of each other. */
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
    due = Math.max(due, now - MAX_BEHIND_MS)
    while (due < now) {
      on.onDue()
      due += (-Math.log(1 - random()) * 1_000) / PER_SECOND
    }
  }, TICK_MS)
}

const { asked, seed, referenceUrl } = (workerData ?? {}) as {
  readonly asked?: string
  readonly seed: number
  readonly referenceUrl: string
}
if (asked !== undefined) void run(asked, seed, referenceUrl)

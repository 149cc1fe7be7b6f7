/**
 * One of two feeds sends garbage over real WebSockets to the feed threads of a node; a receiver
 * replaces the node's writer. The other feed may not lose anything, and memory must stay bounded.
 * The maximum delay of the other feed is printed.
 * Usage: npm run garbage [-- --seconds N] [--megabytes N, of garbage] [--seed S]
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel, Worker } from 'node:worker_threads'
import type { FromFeed } from '../../workers/feed-client/messages.ts'
import { type Feeds, startFeeds } from '../../workers/feed-client/start.ts'
import { type Check, checks, HANGS_MS } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import type { FromReceiver, Received } from './garbage/receiver.ts'
import type { FromServer, Sent, ServerOptions, ToServer } from './garbage/server.ts'

const CADENCE_MS = 50
/** A node waits this long for the next flashblock. */
const FLASHBLOCK_MS = 200
/**
 * The memory of the process has several parts. Incoming data is a packet of 32 MiB, with its JSON
 * as bytes, text and values. Another packet waits in ws. Data on its way to the receiver takes 64
 * MiB for each feed. Uncollected garbage of all these parts comes on top.
 */
const MAX_MEGABYTES = 600
/** The memory is read at this interval. */
const WATCH_MS = 20

/**
 * Kinds of refusals that must occur. Whether a frame takes too long to inflate depends on the
 * machine, so that kind is not among them.
 */
const REFUSED = ['too-large', 'brotli', 'json', 'json-depth', 'json-values']

const { seconds, seed, own } = runOptions(
  'garbage',
  { full: 40, short: 40 },
  { megabytes: { type: 'string' } },
)
const megabytes =
  own['megabytes'] === undefined ? Number.POSITIVE_INFINITY : Number(own['megabytes'])
const { check, close } = checks('garbage')

await run(check)
close()

async function startServer(options: ServerOptions) {
  const child = fork(new URL('./garbage/server.ts', import.meta.url), [JSON.stringify(options)])
  const exited = once(child, 'exit')
  const sent = Promise.withResolvers<Sent>()
  const empty = Promise.withResolvers<void>()
  const listening = Promise.withResolvers<number>()
  child.on('message', (message: FromServer) => {
    if (message.type === 'listening') listening.resolve(message.port)
    else if (message.type === 'sent') sent.resolve(message.sent)
    else empty.resolve()
  })
  const post = (type: ToServer['type']) => void child.send({ type })
  return {
    url: `ws://127.0.0.1:${await listening.promise}`,
    start: () => post('begin'),
    empty: empty.promise,
    sent() {
      post('end')
      return sent.promise
    },
    stop() {
      child.kill()
      return exited
    },
  }
}

/** Starts the receiver's thread, which can report what it has received. */
function startReceiver(ports: readonly import('node:worker_threads').MessagePort[]) {
  const worker = new Worker(new URL('./garbage/receiver.ts', import.meta.url), {
    workerData: { ports },
    transferList: [...ports],
  })
  const request = async (what: 'report' | 'end') => {
    worker.postMessage(what)
    const [message] = (await once(worker, 'message')) as [FromReceiver]
    return message.feeds
  }
  return { request, ended: once(worker, 'exit') }
}

/** Collects the messages of the feed threads. */
function listen(feeds: Feeds) {
  const traffic = feeds.names.map(() => ({
    counts: new Map<string, number>(),
    refused: new Map<string, number>(),
    warnings: [] as string[],
    failed: [] as string[],
  }))
  const connected = feeds.names.map(() => Promise.withResolvers<void>())
  const allRefused = Promise.withResolvers<void>()
  const addTo = (to: Map<string, number>, what: string, by: number) =>
    to.set(what, (to.get(what) ?? 0) + by)
  feeds.listen((feed, message: FromFeed) => {
    const one = traffic[feed]!
    if (message.type === 'connected') connected[feed]!.resolve()
    else if (message.type === 'count') addTo(one.counts, message.what, message.by)
    else if (message.type === 'refused') {
      addTo(one.refused, message.field, message.by)
      if (REFUSED.every((field) => one.refused.has(field))) allRefused.resolve()
    } else if (message.type === 'warning') one.warnings.push(message.message)
    else if (message.type === 'failed') one.failed.push(message.message)
  })
  return {
    traffic,
    connected: Promise.all(connected.map(({ promise }) => promise)),
    allRefused: allRefused.promise,
  }
}

/**
 * Measures the maximum growth of this process's memory, and the time in which the process stood
 * still. The feeds are not to blame for that time.
 */
function watchProcess() {
  const before = process.memoryUsage.rss()
  let max = before
  let checkedAt = performance.now()
  let stillMs = 0
  const timer = setInterval(() => {
    max = Math.max(max, process.memoryUsage.rss())
    stillMs = Math.max(stillMs, performance.now() - checkedAt - WATCH_MS)
    checkedAt = performance.now()
  }, WATCH_MS)
  return () => {
    clearInterval(timer)
    return { grown: (max - before) / 2 ** 20, stillMs }
  }
}

async function run(check: Check): Promise<void> {
  const common = { seed, cadenceMs: CADENCE_MS }
  const honest = await startServer({ ...common, isHonest: true, maxBytes: 0 })
  const hostile = await startServer({
    ...common,
    isHonest: false,
    // JSON has no Infinity.
    maxBytes: Math.min(megabytes * 2 ** 20, Number.MAX_SAFE_INTEGER),
  })
  const channels = [new MessageChannel(), new MessageChannel()]
  const receiver = startReceiver(channels.map(({ port2 }) => port2))
  const feeds = startFeeds({
    urls: [honest.url, hostile.url],
    writerPorts: channels.map(({ port1 }) => port1),
    newPort() {
      throw new Error('the thread of a feed has failed')
    },
    blockTimeMs: 1_000,
    onEnded() {},
  })
  const { traffic, connected, allRefused } = listen(feeds)
  await connected
  const watched = watchProcess()
  const started = performance.now()
  honest.start()
  hostile.start()
  // On a slow machine few frames arrive, so the load goes on until each kind is refused.
  await Promise.race([
    Promise.all([sleep(seconds * 1_000), allRefused]),
    hostile.empty,
    sleep(HANGS_MS, undefined, { ref: false }),
  ])
  const sent = { hostile: await hostile.sent(), honest: await honest.sent() }
  const received = await waitFor(receiver.request, [sent.honest.good, sent.hostile.good])
  const { grown, stillMs } = watched()
  await feeds.stop()
  await receiver.request('end')
  await Promise.all([receiver.ended, honest.stop(), hostile.stop()])
  report(sent.hostile, traffic[1]!)
  const took = (performance.now() - started) / 1_000
  judge(check, { sent, received, traffic, grown, took })
  console.log(`     this process itself stood still for ${stillMs.toFixed(1)} ms at worst`)
}

/** Waits until everything that was sent has arrived, or until the time is over. */
async function waitFor(
  request: (what: 'report') => Promise<readonly Received[]>,
  wanted: readonly number[],
): Promise<readonly Received[]> {
  const until = performance.now() + HANGS_MS
  for (;;) {
    const received = await request('report')
    const isThere = received.every(({ good }, feed) => good.length >= wanted[feed]!)
    if (isThere || performance.now() > until) return received
    await sleep(100)
  }
}

type FeedTraffic = ReturnType<typeof listen>['traffic'][number]

function report(sent: Sent, { counts, refused, warnings }: FeedTraffic): void {
  const list = (all: Iterable<readonly [string, number]>) =>
    [...all].map(([name, count]) => `${name} ${Math.round(count)}`).join(', ')
  console.log(`     sent: ${sent.frames} frames, ${Math.round(sent.bytes / 2 ** 20)} MB`)
  console.log(`     ${list(Object.entries(sent.kinds))}`)
  console.log(`     refused: ${list(refused)}`)
  console.log(`     counted: ${list(counts)}`)
  for (const line of warnings.slice(0, 8)) console.log(`     warned: ${line.slice(0, 150)}`)
}

function judge(
  check: Check,
  {
    sent,
    received,
    traffic,
    grown,
    took,
  }: {
    readonly sent: { readonly honest: Sent; readonly hostile: Sent }
    readonly received: readonly Received[]
    readonly traffic: readonly FeedTraffic[]
    readonly grown: number
    /** Seconds since the first frame. */
    readonly took: number
  },
): void {
  const isAll = ({ good }: Received, count: number) =>
    good.length === count && good.every((number, at) => number === at)
  const of = ({ good }: Received, count: number) => `${good.length} of ${count}`
  const [honest, hostile] = received as [Received, Received]
  check(
    'every flashblock of the honest feed arrives in order',
    isAll(honest, sent.honest.good),
    of(honest, sent.honest.good),
  )
  check('the honest feed is never closed', honest.connects === 1, `${honest.connects} connections`)
  check(
    'good flashblocks between garbage arrive in order',
    isAll(hostile, sent.hostile.good),
    of(hostile, sent.hostile.good),
  )
  check(
    'memory growth stays within its limit',
    grown <= MAX_MEGABYTES,
    `${Math.round(grown)} MB more at most, of ${MAX_MEGABYTES}`,
  )
  const refused = traffic[1]!.refused
  check(
    'garbage of each kind is refused',
    REFUSED.every((field) => refused.has(field)),
    REFUSED.filter((field) => !refused.has(field)).join(', '),
  )
  const lines = traffic[1]!.warnings.length
  const maxLines = 4 * (2 + took / 10)
  check('the log has few lines about the garbage', lines > 0 && lines <= maxLines, `${lines}`)
  const failed = traffic.flatMap((one) => one.failed)
  check('no feed thread has failed', failed.length === 0, failed.join('; '))
  const late = honest.lateMs.toSorted((a, b) => a - b)
  const at = (share: number) =>
    `${(late[Math.floor(share * (late.length - 1))] ?? 0).toFixed(1)} ms`
  const beyond = late.filter((ms) => ms > FLASHBLOCK_MS).length
  console.log(
    `     the other feed, from sent to taken: ${at(0.5)} in the middle, p99 ${at(0.99)}, ${at(1)} at worst; ${beyond} of ${late.length} later than a cadence of ${FLASHBLOCK_MS} ms`,
  )
}

/**
 * Two feeds, of which one sends garbage: real WebSockets, the threads that a node has for its feeds, and a receiver in the place of its
 * writer. Nothing of the other feed may be lost, and memory stays bounded; how late it is at worst is printed.
 * Usage: npm run garbage [-- --seconds N] [--megabytes N, of garbage] [--seed S]
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel, Worker } from 'node:worker_threads'
import type { FromFeed } from '../../workers/feeds/messages.ts'
import { type Feeds, startFeeds } from '../../workers/feeds/start.ts'
import { type Check, checks, HANGS_MS } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import type { FromReceiver, Received } from './garbage/receiver.ts'
import type { FromServer, Sent, ServerOptions, ToServer } from './garbage/server.ts'

const CADENCE_MS = 50
/** What a node waits for the next flashblock. */
const FLASHBLOCK_MS = 200
/**
 * Of the process: what comes in (a packet of 32 MiB, another one that waits in ws), its JSON as bytes, as text and as values, what is on
 * its way to the receiver (64 MiB for each feed), and garbage of all of these that is not collected yet.
 */
const MOST_MEGABYTES = 600
/** Between two looks at its memory. */
const WATCH_MS = 20

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
  const say = (type: ToServer['type']) => void child.send({ type })
  return {
    url: `ws://127.0.0.1:${await listening.promise}`,
    begin: () => say('begin'),
    empty: empty.promise,
    sent() {
      say('end')
      return sent.promise
    },
    stop() {
      child.kill()
      return exited
    },
  }
}

/** The receiver's thread, and what it has so far. */
function startReceiver(ports: readonly import('node:worker_threads').MessagePort[]) {
  const worker = new Worker(new URL('./garbage/receiver.ts', import.meta.url), {
    workerData: { ports },
    transferList: [...ports],
  })
  const ask = async (what: 'tell' | 'end') => {
    worker.postMessage(what)
    const [message] = (await once(worker, 'message')) as [FromReceiver]
    return message.feeds
  }
  return { ask, ended: once(worker, 'exit') }
}

/** What the feeds' threads say. */
function hear(feeds: Feeds) {
  const heard = feeds.names.map(() => ({
    counts: new Map<string, number>(),
    refused: new Map<string, number>(),
    warnings: [] as string[],
    failed: [] as string[],
  }))
  const connected = feeds.names.map(() => Promise.withResolvers<void>())
  const addTo = (to: Map<string, number>, what: string, by: number) =>
    to.set(what, (to.get(what) ?? 0) + by)
  feeds.listen((feed, message: FromFeed) => {
    const one = heard[feed]!
    if (message.type === 'connected') connected[feed]!.resolve()
    else if (message.type === 'count') addTo(one.counts, message.what, message.by)
    else if (message.type === 'refused') addTo(one.refused, message.field, message.by)
    else if (message.type === 'warning') one.warnings.push(message.message)
    else if (message.type === 'failed') one.failed.push(message.message)
  })
  return { heard, connected: Promise.all(connected.map(({ promise }) => promise)) }
}

/** The most that this process has at once beside what it has now, and for how long it stood still, which is not the feeds' doing. */
function watchProcess() {
  const before = process.memoryUsage.rss()
  let most = before
  let lookedAt = performance.now()
  let stillMs = 0
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss())
    stillMs = Math.max(stillMs, performance.now() - lookedAt - WATCH_MS)
    lookedAt = performance.now()
  }, WATCH_MS)
  return () => {
    clearInterval(timer)
    return { grown: (most - before) / 2 ** 20, stillMs }
  }
}

async function run(check: Check): Promise<void> {
  const common = { seed, cadenceMs: CADENCE_MS }
  const honest = await startServer({ ...common, isHonest: true, mostBytes: 0 })
  const hostile = await startServer({
    ...common,
    isHonest: false,
    // Infinity is no JSON.
    mostBytes: Math.min(megabytes * 2 ** 20, Number.MAX_SAFE_INTEGER),
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
  const { heard, connected } = hear(feeds)
  await connected
  const watched = watchProcess()
  const begun = performance.now()
  honest.begin()
  hostile.begin()
  await Promise.race([sleep(seconds * 1_000), hostile.empty])
  const sent = { hostile: await hostile.sent(), honest: await honest.sent() }
  const received = await waitFor(receiver.ask, [sent.honest.good, sent.hostile.good])
  const { grown, stillMs } = watched()
  await feeds.stop()
  await receiver.ask('end')
  await Promise.all([receiver.ended, honest.stop(), hostile.stop()])
  tell(sent.hostile, heard[1]!)
  const took = (performance.now() - begun) / 1_000
  judge(check, { sent, received, heard, grown, took })
  console.log(`     this process itself stood still for ${stillMs.toFixed(1)} ms at worst`)
}

/** Until all that was sent is there, or too much time has passed. */
async function waitFor(
  ask: (what: 'tell') => Promise<readonly Received[]>,
  wanted: readonly number[],
): Promise<readonly Received[]> {
  const until = performance.now() + HANGS_MS
  for (;;) {
    const received = await ask('tell')
    const isThere = received.every(({ good }, feed) => good.length >= wanted[feed]!)
    if (isThere || performance.now() > until) return received
    await sleep(100)
  }
}

type Heard = ReturnType<typeof hear>['heard'][number]

function tell(sent: Sent, { counts, refused, warnings }: Heard): void {
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
    heard,
    grown,
    took,
  }: {
    readonly sent: { readonly honest: Sent; readonly hostile: Sent }
    readonly received: readonly Received[]
    readonly heard: readonly Heard[]
    readonly grown: number
    /** Seconds from the first frame on. */
    readonly took: number
  },
): void {
  const isAll = ({ good }: Received, count: number) =>
    good.length === count && good.every((number, at) => number === at)
  const of = ({ good }: Received, count: number) => `${good.length} of ${count}`
  const [honest, hostile] = received as [Received, Received]
  check(
    'nothing of the other feed is lost, and all in order',
    isAll(honest, sent.honest.good),
    of(honest, sent.honest.good),
  )
  check('the other feed is never closed', honest.connects === 1, `${honest.connects} connections`)
  check(
    'good flashblocks between garbage arrive, and in order',
    isAll(hostile, sent.hostile.good),
    of(hostile, sent.hostile.good),
  )
  check(
    'memory is bounded',
    grown <= MOST_MEGABYTES,
    `${Math.round(grown)} MB more at most, of ${MOST_MEGABYTES}`,
  )
  const refused = heard[1]!.refused
  // Whether one takes too long to inflate depends on the machine.
  const fields = ['too-large', 'brotli', 'json', 'json-depth', 'json-values']
  check(
    'garbage is refused for each of its kinds',
    fields.every((field) => refused.has(field)),
    fields.filter((field) => !refused.has(field)).join(', '),
  )
  const lines = heard[1]!.warnings.length
  const mostLines = 4 * (2 + took / 10)
  check('the log has few lines about it', lines > 0 && lines <= mostLines, `${lines}`)
  const failed = heard.flatMap((one) => one.failed)
  check('no thread has failed', failed.length === 0, failed.join('; '))
  const late = honest.lateMs.toSorted((a, b) => a - b)
  const at = (share: number) =>
    `${(late[Math.floor(share * (late.length - 1))] ?? 0).toFixed(1)} ms`
  const beyond = late.filter((ms) => ms > FLASHBLOCK_MS).length
  console.log(
    `     the other feed, from sent to taken: ${at(0.5)} in the middle, p99 ${at(0.99)}, ${at(1)} at worst; ${beyond} of ${late.length} later than a cadence of ${FLASHBLOCK_MS} ms`,
  )
}

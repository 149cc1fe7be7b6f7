/** The thread of the leaders, before a real enriched feed: it comes in with its token, hands over what is told, and leaves whoever is wrong. */
import { once } from 'node:events'
import { MessageChannel, type MessagePort, type Worker } from 'node:worker_threads'
import { afterEach, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { packChanges } from '../../../engine/sources/writer/changes.ts'
import { createFeedGate } from '../../../rpc/feed/gate.ts'
import { createFeedHub } from '../../../rpc/feed/hub.ts'
import { leaderProblems } from '../../../workers/commands/follow/leader-flags.ts'
import type { FromLeaders, LeadersToWriter } from '../../../workers/leaders/messages.ts'
import { type LeadersThread, startLeaders } from '../../../workers/leaders/start.ts'
import { createProducer, send } from '../../fixtures/producer.ts'
import { startServer } from '../../fixtures/sockets.ts'
import { show } from '../../fixtures/writer-branches.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const TOKEN = 'abcdefghijklmnopqrstuv'
const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

async function startLeader() {
  const limits = {
    ...{ feedSubscribers: 4, feedQueueBytes: 8_000_000, feedHeldFrames: 100 },
    ...{ feedHeldBytes: 1_000_000, feedEnrichedBytes: 1_000_000 },
  }
  const hub = createFeedHub(limits, { run: '0x00000000000000aa', gate: createFeedGate(TOKEN) })
  const { server, port } = await startServer({ feed: hub.door, limits })
  ends.push(server.close)
  const world = new WriterWorld({ tellsChanges: true })
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  const producer = createProducer()
  const tell = async (): Promise<void> => {
    await show(world, await producer.build(producer.genesis, 1, [[send(0, 0)], [send(1, 0)]]))
    for (const effect of world.told.splice(0))
      if (effect.type === 'changes') hub.changed(packChanges(effect.changes))
  }
  return { url: `ws://127.0.0.1:${port}/feed`, tell }
}

function apply(urls: readonly string[], token: string | undefined) {
  const said: FromLeaders[] = []
  const ports: MessagePort[] = []
  const thread: LeadersThread = startLeaders({
    ...{ urls, token, blockTimeMs: 1_000, messageBytes: 1_000_000, heldDiffs: 100 },
    limits: { leastReplaceMs: 20, mostReplaceMs: 40 },
    newPort() {
      const { port1, port2 } = new MessageChannel()
      ports.push(port1)
      return port2
    },
    onEnded() {},
  })
  thread.listen((message) => said.push(message))
  ends.push(thread.stop, async () => {
    for (const port of ports) port.close()
  })
  return { port: ports[0]!, ports, thread, said }
}

async function until<T extends LeadersToWriter['type']>(
  port: MessagePort,
  type: T,
  fits: (message: LeadersToWriter & { readonly type: T }) => boolean = () => true,
): Promise<LeadersToWriter & { readonly type: T }> {
  for (;;) {
    const [message] = (await once(port, 'message')) as [LeadersToWriter]
    if (message.type === type && fits(message as LeadersToWriter & { readonly type: T }))
      return message as LeadersToWriter & { readonly type: T }
  }
}

test('flashblocks are handed over in their order, from a snapshot on', async () => {
  const leader = await startLeader()
  await leader.tell()
  const { port } = apply([leader.url], TOKEN)
  expect(await until(port, 'leader')).toMatchObject({ leader: 0, isConnected: true })
  const { diff } = await until(port, 'diff', (message) => message.diff.told.index === 2)
  expect(diff.told).toMatchObject({ number: 1, index: 2, isFinal: true })
  expect(diff.told.hashes.length).toBe(32)
})

test('without its token nobody is let in, and it is tried again', async () => {
  const leader = await startLeader()
  const { thread, said } = apply([leader.url], undefined)
  const refused = Promise.withResolvers<void>()
  thread.listen((message) => {
    said.push(message)
    if (message.type === 'warning') refused.resolve()
  })
  await refused.promise
  expect(said.find(({ type }) => type === 'warning')).toMatchObject({
    message: expect.stringContaining('401'),
  })
})

test('who says what cannot be is told of, and left', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  ends.push(async () => server.close())
  server.on('connection', (socket) => socket.send('{"enriched":2}'))
  const { port: number } = server.address() as { readonly port: number }
  const { port } = apply([`ws://127.0.0.1:${number}/feed`], TOKEN)
  const { fault } = await until(port, 'leader', (message) => message.fault !== undefined)
  expect(fault?.kind).toBe('malformed')
})

test('a thread that ends by itself is replaced, and its leaders are read again, but those that nobody believes', async () => {
  const [leader, other] = [await startLeader(), await startLeader()]
  await leader.tell()
  const started = once(process, 'worker') as Promise<[Worker]>
  const { port, ports, thread, said } = apply([leader.url, other.url], TOKEN)
  const [worker] = await started
  await until(port, 'diff')
  thread.drop(1)
  const failed = Promise.withResolvers<void>()
  thread.listen((message) => {
    said.push(message)
    if (message.type === 'failed') failed.resolve()
  })
  const next = once(process, 'worker') as Promise<[Worker]>
  await worker.terminate()
  await Promise.all([failed.promise, next])
  expect(ports.length).toBe(2)
  const heard: LeadersToWriter[] = []
  ports[1]!.on('message', (message: LeadersToWriter) => heard.push(message))
  await until(ports[1]!, 'diff')
  const connected = heard.flatMap((message) =>
    message.type === 'leader' && message.isConnected ? [message.leader] : [],
  )
  expect(connected).toEqual([0])
})

test('flags that would have a leader judge itself', () => {
  const of = (given: Partial<Parameters<typeof leaderProblems>[0]>) =>
    leaderProblems({
      ...{ apply: ['ws://10.0.0.1:8545/feed'], applyTokenFile: undefined },
      ...{ upstream: ['http://10.0.0.9:8545'], feed: ['ws://10.0.0.8:8545/feed'], ...given },
    })
  expect(of({})).toEqual([])
  expect(of({ upstream: ['http://10.0.0.1:8545/'] })[0]).toContain('is a leader of --apply')
  expect(of({ feed: ['ws://10.0.0.1:8545/feed'] })[0]).toContain('--feed names leaders')
  expect(of({ feed: [] })).toEqual([])
  expect(of({ apply: ['ws://8.8.8.8/feed'] })[0]).toContain('give wss://')
  expect(of({ apply: ['wss://8.8.8.8/feed'] })).toEqual([])
  expect(of({ apply: ['ws://a/feed', 'ws://a/feed'] })[0]).toContain('twice')
  expect(of({ applyTokenFile: '/nowhere' })[0]).toContain('token /nowhere')
})

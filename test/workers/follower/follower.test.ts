/** The follower's thread runs between real upstreams over HTTP and a real writer. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import type { TrackerStatus } from '../../../engine/sources/upstream/tracker-types.ts'
import type { FollowerData } from '../../../workers/follower/follower.ts'
import type {
  FollowerToWriter,
  FromFollower,
  ToFollower,
  WriterToFollower,
} from '../../../workers/thread/follower-messages.ts'
import { ChainUpstream } from '../../fixtures/chain-upstream.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import { CHAIN_OPTION, createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const BLOCKS = 40
/** One chain has BLOCKS; the branch leaves it 3 blocks below its end and is 2 longer. */
let chain: readonly ProducedBlock[]
let branch: readonly ProducedBlock[]
beforeAll(async () => {
  const producer = createProducer()
  const grow = async (from: readonly ProducedBlock[], to: number, salt: number) => {
    const blocks = [...from]
    for (let nonce = blocks.length; nonce < to; nonce++) {
      const parent = blocks.at(-1) ?? producer.genesis
      blocks.push(await producer.build(parent, salt + nonce, [[send(0, nonce)]]))
    }
    return blocks
  }
  chain = await grow([], BLOCKS, 1)
  branch = await grow(chain.slice(0, BLOCKS - 3), BLOCKS + 2, 1_000)
})

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

async function openUpstreams(count: number, blocks: number) {
  const upstreams = await Promise.all(Array.from({ length: count }, () => ChainUpstream.open()))
  for (const upstream of upstreams) {
    upstream.blocks = chain.slice(0, blocks)
    closers.push(() => upstream.close())
  }
  return upstreams
}

class Node {
  readonly world: WriterWorld
  readonly received: FromFollower[] = []
  readonly toWriter: FollowerToWriter[] = []
  worker!: Worker
  #port!: MessagePort
  #applying = Promise.resolve()
  #listeners = new Set<() => void>()

  static async open(): Promise<Node> {
    const database = await openSmall(join(temporaryDirectory(), 'state'))
    closers.push(() => database.close())
    return new Node(new WriterWorld({ database }))
  }
  private constructor(world: WriterWorld) {
    this.world = world
  }

  start(
    upstreams: readonly { readonly url: string }[],
    more: Partial<Pick<FollowerData, 'sequencer' | 'limits'>> = {},
  ): void {
    const { port1: writer, port2: toFollower } = new MessageChannel()
    const { port1: persistence, port2: persistenceEnd } = new MessageChannel()
    this.#port = writer as unknown as MessagePort
    const data: FollowerData = {
      database: this.world.database.share(),
      views: this.world.views,
      thread: 3,
      chain: CHAIN_OPTION,
      engine: 'reference',
      undoBlocks: 64,
      sequencer: undefined,
      persistence: persistenceEnd as unknown as MessagePort,
      writer: toFollower as unknown as MessagePort,
      upstreams: upstreams.map(({ url }) => url),
      limits: DEFAULT_UPSTREAM_LIMITS,
      lazy: undefined,
      ...more,
    }
    const worker = new Worker(new URL('../../../workers/follower/follower.ts', import.meta.url), {
      workerData: data,
      transferList: [toFollower, persistenceEnd],
    })
    this.worker = worker
    worker.on('message', (message: FromFollower) => {
      this.received.push(message)
      this.#changed()
    })
    writer.on('message', (message: FollowerToWriter) => {
      this.toWriter.push(message)
      if (message.type === 'sealed') this.#seal(message)
      this.#changed()
    })
    closers.push(() => {
      writer.close()
      persistence.close()
    })
    this.post({ type: 'start' })
  }

  #seal({ block }: FollowerToWriter & { readonly type: 'sealed' }): void {
    const { world } = this
    this.#applying = this.#applying.then(async () => {
      await world.apply({ type: 'sealed', block })
      await world.settle({ ticks: true })
      this.send({ type: 'published' })
      this.#changed()
    })
  }
  #changed(): void {
    for (const listener of this.#listeners) listener()
  }

  post(message: ToFollower): void {
    this.worker.postMessage(message)
  }
  send(message: WriterToFollower): void {
    this.#port.postMessage(message)
  }

  /** Resolves when the condition holds, which is checked after each message. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#listeners.add(resolve)
      await promise
      this.#listeners.delete(resolve)
    }
  }
  async canonicalIs(block: ProducedBlock): Promise<void> {
    const wanted = [block.number, bytesToHex(block.hash)]
    await this.until(() => String(this.world.heads().canonical) === String(wanted))
  }
  async status(isIt: (status: TrackerStatus) => boolean): Promise<void> {
    await this.until(() => {
      const last = this.received.findLast((message) => message.type === 'status')
      return last !== undefined && isIt(last.status)
    })
  }
  of<T extends FromFollower['type']>(type: T) {
    return this.received.filter((message) => message.type === type) as (FromFollower & {
      readonly type: T
    })[]
  }

  async stop(): Promise<void> {
    const ended = once(this.worker, 'exit')
    this.post({ type: 'stop' })
    await ended
    await this.#applying
  }
}

describe('the follower', () => {
  test('follows from an empty database, and continues from its head after a restart', async () => {
    const [upstream] = (await openUpstreams(1, BLOCKS - 5)) as [ChainUpstream]
    const node = await Node.open()
    node.start([upstream])
    await node.canonicalIs(chain[BLOCKS - 6]!)
    for (let head = BLOCKS - 4; head < BLOCKS; head++) {
      upstream.blocks = chain.slice(0, head)
      await node.canonicalIs(chain[head - 1]!)
    }
    const labelledHeads = () => node.toWriter.filter((message) => message.type === 'marks')
    await node.until(() => labelledHeads().some(({ safe, finalized }) => safe - finalized === 5))
    for (const { safe, finalized } of labelledHeads()) {
      expect(safe).toBeGreaterThanOrEqual(finalized)
      expect(safe).toBeLessThanOrEqual(BLOCKS - 5)
    }
    // The writer executed the same transactions, and got the same blocks.
    expect(node.world.count('canonical_mismatch')).toBe(0)
    await node.stop()
    expect(node.of('ready').length).toBe(1)
    expect(node.received.at(-1)).toEqual({ type: 'stopped' })
    expect(node.of('warning')).toEqual([])

    upstream.blocks = chain
    upstream.calls.length = 0
    node.toWriter.length = 0
    node.start([upstream])
    await node.canonicalIs(chain.at(-1)!)
    expect(node.toWriter.filter(({ type }) => type === 'sealed').length).toBe(1)
    await node.stop()
  })

  test('follows new heads over a WebSocket', async () => {
    const [upstream] = (await openUpstreams(1, 3)) as [ChainUpstream]
    const node = await Node.open()
    node.start([{ url: upstream.url.replace('http', 'ws') }])
    await node.canonicalIs(chain[2]!)
    await node.until(() => upstream.subscribers > 0)
    upstream.calls.length = 0
    for (let head = 4; head <= 10; head++) {
      upstream.grow(chain.slice(0, head))
      await node.canonicalIs(chain[head - 1]!)
    }
    // The follower sent no request for the head.
    expect(upstream.calls.filter(({ params }) => params[0] === 'latest')).toEqual([])
    upstream.dropConnections()
    upstream.grow(chain.slice(0, 20))
    await node.canonicalIs(chain[19]!)
    await node.stop()
  })

  test('follows a reorg, oldest block first', async () => {
    const [upstream] = (await openUpstreams(1, BLOCKS)) as [ChainUpstream]
    const node = await Node.open()
    node.start([upstream])
    await node.canonicalIs(chain.at(-1)!)
    node.toWriter.length = 0
    upstream.blocks = branch
    await node.canonicalIs(branch.at(-1)!)
    const sealed = node.toWriter.flatMap((one) => (one.type === 'sealed' ? [one.block.number] : []))
    expect(sealed).toEqual([BLOCKS - 2, BLOCKS - 1, BLOCKS, BLOCKS + 1, BLOCKS + 2])
    expect(node.of('warning')).toMatchObject([
      {
        message: `the chain goes on from block ${BLOCKS - 3} in another way: 3 blocks are replaced`,
      },
    ])
    await node.stop()
  })

  test('follows three upstreams of which one is dead and one dies later', async () => {
    const upstreams = (await openUpstreams(3, 10)) as [ChainUpstream, ChainUpstream, ChainUpstream]
    const [dead, dying, living] = upstreams
    dead.close()
    const node = await Node.open()
    node.start(upstreams)
    await node.canonicalIs(chain[9]!)
    dying.misbehave = (request) => request.socket.destroy()
    for (const one of [dying, living]) one.blocks = chain.slice(0, 20)
    await node.canonicalIs(chain[19]!)
    expect(node.of('warning').map(({ message }) => message.split(' ')[0])).toEqual([
      dead.url,
      dying.url,
    ])
    await node.stop()
  })

  test('outvotes an upstream that lies, and reports it', async () => {
    const upstreams = (await openUpstreams(3, BLOCKS)) as [
      ChainUpstream,
      ChainUpstream,
      ChainUpstream,
    ]
    upstreams[0].blocks = branch
    const node = await Node.open()
    node.start(upstreams)
    await node.canonicalIs(chain.at(-1)!)
    await node.status(({ degraded }) => degraded.length > 0)
    const [warning] = node.of('warning')
    expect(warning?.message).toContain(`${upstreams[0].url} is not asked for a while: block`)
    expect(warning?.message).toContain(`at ${upstreams[1].url} and ${upstreams[2].url}`)
    await node.stop()
  })

  test('asks others for a refused block, and halts when all give the same one', async () => {
    const upstreams = (await openUpstreams(2, 5)) as [ChainUpstream, ChainUpstream]
    const node = await Node.open()
    node.start(upstreams)
    await node.canonicalIs(chain[4]!)
    const [refused] = chain.slice(5)
    node.world.apply = async () => {}
    for (const one of upstreams) one.blocks = chain.slice(0, 6)
    const isSealed = (times: number) => () =>
      node.toWriter.filter((one) => one.type === 'sealed' && one.block.number === 6).length ===
      times
    await node.until(isSealed(1))
    node.send({ type: 'refused', number: 6, hash: refused!.hash, field: 'stateRoot' })
    await node.until(() => node.of('halted').length > 0)
    expect(node.of('halted')[0]?.message).toBe(
      `block 6 is ${bytesToHex(refused!.hash)} at ${upstreams[0].url} and ${upstreams[1].url}, but its stateRoot is not what this node computes`,
    )
    // The block is not sent again.
    expect(isSealed(1)()).toBe(true)
    await node.stop()
  })
})

describe('a follower whose first upstream check takes long', () => {
  async function startWithSilent() {
    const [upstream] = (await openUpstreams(1, 3)) as [ChainUpstream]
    const request = Promise.withResolvers<IncomingMessage>()
    upstream.misbehave = request.resolve
    const node = await Node.open()
    node.start([upstream])
    const { socket } = await request.promise
    return { node, upstream, socket }
  }

  test('can be stopped', async () => {
    const { node } = await startWithSilent()
    await node.stop()
    expect(node.received).toEqual([{ type: 'stopped' }])
  })

  test('answers requests after the check', async () => {
    const { node, upstream, socket } = await startWithSilent()
    const call = { type: 'forward', request: 7, method: 'eth_chainId', params: '[]' } as const
    node.post({ ...call, to: 'upstream', client: '' })
    upstream.misbehave = undefined
    socket.destroy()
    await node.until(() => node.of('forwarded').length > 0)
    expect(node.of('forwarded')).toMatchObject([{ request: 7, response: { result: '"0xc4"' } }])
    await node.stop()
  })
})

describe('the start of a follower', () => {
  const OTHER_HASH = `0x${'12'.repeat(32)}`
  const cases: [what: string, response: NonNullable<ChainUpstream['respond']>, message: string][] =
    [
      [
        'another chain id',
        ({ method }) => (method === 'eth_chainId' ? { result: '0x1' } : undefined),
        ' has chain 1, not 196 (xlayer): give another --upstream, or another --chain',
      ],
      [
        'another first block',
        ({ method }) =>
          method === 'eth_getBlockByNumber' ? { result: { hash: OTHER_HASH } } : undefined,
        ` has block ${OTHER_HASH} as 0, the first of xlayer is 0x`,
      ],
    ]
  test.each(cases)('is refused for %s', async (_, respond, message) => {
    const [good, wrong] = (await openUpstreams(2, 1)) as [ChainUpstream, ChainUpstream]
    wrong.respond = respond
    const node = await Node.open()
    node.start([good, wrong])
    await node.until(() => node.of('failed').length > 0)
    expect(node.of('failed')[0]?.message).toContain(`${wrong.url}${message}`)
    expect(node.of('ready')).toEqual([])
    await once(node.worker, 'exit')
  })

  test('is not refused for a dead upstream, which is checked before it is used', async () => {
    const [good, late] = (await openUpstreams(2, 3)) as [ChainUpstream, ChainUpstream]
    late.respond = ({ method }) => (method === 'eth_chainId' ? { result: '0x1' } : undefined)
    late.misbehave = (request) => request.socket.destroy()
    const node = await Node.open()
    node.start([late, good], { limits: { ...DEFAULT_UPSTREAM_LIMITS, upstreamRestMs: 100 } })
    await node.canonicalIs(chain[2]!)
    expect(node.of('ready').length).toBe(1)
    late.misbehave = undefined
    const isForeign = () =>
      node.of('warning').some(({ message }) => message.includes('has chain 1'))
    await node.until(isForeign)
    expect(late.calls.some(({ params }) => params[0] === 'latest')).toBe(false)
    await node.stop()
  })

  test('is not refused for an upstream without the first block, which may come later', async () => {
    const [upstream] = (await openUpstreams(1, 3)) as [ChainUpstream]
    upstream.respond = ({ method, params }) =>
      method === 'eth_getBlockByNumber' && params[0] === '0x0' ? { result: null } : undefined
    const node = await Node.open()
    node.start([upstream], { limits: { ...DEFAULT_UPSTREAM_LIMITS, upstreamRestMs: 100 } })
    await node.until(() => node.of('warning').length > 0)
    expect(node.of('warning')[0]?.message).toContain(`${upstream.url} has no block 0`)
    expect(node.of('ready').length).toBe(1)
    upstream.respond = undefined
    await node.canonicalIs(chain[2]!)
    await node.stop()
  })
})

describe('a forwarded request', () => {
  const forward = (to: 'upstream' | 'sequencer', method: string, params = '[]') =>
    ({ type: 'forward', request: 7, method, params, to, client: 'somebody' }) as const
  async function responseTo(node: Node, message: ToFollower) {
    node.post(message)
    await node.until(() => node.of('forwarded').length > 0)
    return node.of('forwarded').at(-1)?.response
  }
  let node: Node
  let upstream: ChainUpstream
  let sequencer: ChainUpstream
  const ends: (() => unknown)[] = []
  beforeAll(async () => {
    ;[upstream, sequencer] = (await openUpstreams(2, 1)) as [ChainUpstream, ChainUpstream]
    node = await Node.open()
    node.start([upstream], { sequencer: sequencer.url, limits })
    ends.push(...closers.splice(0), () => node.stop())
    await node.canonicalIs(chain[0]!)
  })
  afterAll(async () => {
    for (const end of ends.reverse()) await end()
  })
  beforeEach(() => {
    node.received.length = 0
    for (const one of [upstream, sequencer]) {
      one.respond = undefined
      one.misbehave = undefined
    }
  })
  const limits = { ...DEFAULT_UPSTREAM_LIMITS, forwardMs: 500 }

  test('with a transaction reaches the sequencer, and its error comes back unchanged', async () => {
    const error = { code: -32003, message: 'nonce too low', data: { next: 7 } }
    sequencer.respond = ({ method }) =>
      method === 'eth_sendRawTransaction' ? { error } : undefined
    expect(
      await responseTo(node, forward('sequencer', 'eth_sendRawTransaction', '["0x02"]')),
    ).toEqual({ error })
    expect(sequencer.calls.at(-1)).toMatchObject({ params: ['0x02'] })
    expect(upstream.calls.some(({ method }) => method === 'eth_sendRawTransaction')).toBe(false)
  })
  test('returns its result as text', async () => {
    upstream.respond = ({ method }) =>
      method === 'eth_getBalance' ? { result: { balance: '0x1' } } : undefined
    expect(await responseTo(node, forward('upstream', 'eth_getBalance'))).toEqual({
      result: '{"balance":"0x1"}',
    })
  })
  test('reports that the sequencer did not respond', async () => {
    sequencer.misbehave = () => {}
    expect(await responseTo(node, forward('sequencer', 'eth_sendRawTransaction'))).toEqual({
      silent: 'the sequencer gave no answer in time',
    })
  })
  test('distinguishes a broken connection from one that never opened', async () => {
    const send = forward('sequencer', 'eth_sendRawTransaction')
    // The sequencer shows its chain again, because it was silent before.
    expect(await responseTo(node, send)).toMatchObject({ error: { code: -32601 } })
    node.received.length = 0
    sequencer.misbehave = (request) => request.socket.destroy()
    expect(await responseTo(node, send)).toEqual({
      silent: 'the sequencer gave no answer that can be read',
    })
    sequencer.close()
    node.received.length = 0
    expect(await responseTo(node, send)).toMatchObject({
      error: { message: 'the sequencer cannot be reached' },
    })
  })
  test('hides the addresses in an error of the upstream', async () => {
    const error = { code: -32000, message: 'Post "http://10.0.0.7:8551/key": refused' }
    upstream.respond = ({ method }) => (method === 'eth_getBalance' ? { error } : undefined)
    expect(await responseTo(node, forward('upstream', 'eth_getBalance'))).toEqual({
      error: { code: -32000, message: 'Post "the upstream": refused' },
    })
  })
  test('for state is refused on a node with full state', async () => {
    node.post({ type: 'fetch', request: 3, keys: [], for: 'call', client: 'somebody' })
    await node.until(() => node.of('fetched').length > 0)
    const failed = 'this node has all of the state, so it fetches nothing'
    expect(node.of('fetched')).toEqual([{ type: 'fetched', request: 3, failed }])
    node.send({ type: 'need', request: 4, keys: [], for: 'canonical' })
    await node.until(() => node.toWriter.some(({ type }) => type === 'fetched'))
    expect(node.toWriter.at(-1)).toEqual({ type: 'fetched', request: 4, failed })
  })
})

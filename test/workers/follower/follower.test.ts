/** The follower's thread between real upstreams over HTTP and a real writer. */
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
/** One chain of BLOCKS, and another that leaves it 3 blocks below its end and is 2 longer. */
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
  readonly told: FromFollower[] = []
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
    const { port1: keeper, port2: keeperEnd } = new MessageChannel()
    this.#port = writer as unknown as MessagePort
    const data: FollowerData = {
      ...{ database: this.world.database.share(), views: this.world.views, thread: 3 },
      ...{ chain: CHAIN_OPTION, engine: 'reference', undoBlocks: 64, sequencer: undefined },
      keeper: keeperEnd as unknown as MessagePort,
      writer: toFollower as unknown as MessagePort,
      upstreams: upstreams.map(({ url }) => url),
      limits: DEFAULT_UPSTREAM_LIMITS,
      lazy: undefined,
      ...more,
    }
    const worker = new Worker(new URL('../../../workers/follower/follower.ts', import.meta.url), {
      workerData: data,
      transferList: [toFollower, keeperEnd],
    })
    this.worker = worker
    worker.on('message', (message: FromFollower) => {
      this.told.push(message)
      this.#changed()
    })
    writer.on('message', (message: FollowerToWriter) => {
      this.toWriter.push(message)
      if (message.type === 'sealed') this.#seal(message)
      this.#changed()
    })
    closers.push(() => {
      writer.close()
      keeper.close()
    })
    this.post({ type: 'start' })
  }

  #seal({ block }: FollowerToWriter & { readonly type: 'sealed' }): void {
    const { world } = this
    this.#applying = this.#applying.then(async () => {
      await world.apply({ type: 'sealed', block })
      await world.settle({ ticks: true })
      this.say({ type: 'published' })
      this.#changed()
    })
  }
  #changed(): void {
    for (const listener of this.#listeners) listener()
  }

  post(message: ToFollower): void {
    this.worker.postMessage(message)
  }
  say(message: WriterToFollower): void {
    this.#port.postMessage(message)
  }

  /** Resolves when `isSo`, looked at whenever something was said. */
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
      const last = this.told.findLast((message) => message.type === 'status')
      return last !== undefined && isIt(last.status)
    })
  }
  of<T extends FromFollower['type']>(type: T) {
    return this.told.filter((message) => message.type === type) as (FromFollower & {
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

describe('follows', () => {
  test('from nothing, then each new head, with the tags; and goes on from its own head', async () => {
    const [upstream] = (await openUpstreams(1, BLOCKS - 5)) as [ChainUpstream]
    const node = await Node.open()
    node.start([upstream])
    await node.canonicalIs(chain[BLOCKS - 6]!)
    for (let head = BLOCKS - 4; head < BLOCKS; head++) {
      upstream.blocks = chain.slice(0, head)
      await node.canonicalIs(chain[head - 1]!)
    }
    const marks = () => node.toWriter.filter((message) => message.type === 'marks')
    await node.until(() => marks().some(({ safe, finalized }) => safe - finalized === 5))
    for (const { safe, finalized } of marks()) {
      expect(safe).toBeGreaterThanOrEqual(finalized)
      expect(safe).toBeLessThanOrEqual(BLOCKS - 5)
    }
    // Executed by the writer from the same transactions, and come out as the same blocks.
    expect(node.world.count('canonical_mismatch')).toBe(0)
    await node.stop()
    expect(node.of('ready').length).toBe(1)
    expect(node.told.at(-1)).toEqual({ type: 'stopped' })
    expect(node.of('warning')).toEqual([])

    upstream.blocks = chain
    upstream.calls.length = 0
    node.toWriter.length = 0
    node.start([upstream])
    await node.canonicalIs(chain.at(-1)!)
    expect(node.toWriter.filter(({ type }) => type === 'sealed').length).toBe(1)
    await node.stop()
  })

  test('heads that are told over a WebSocket', async () => {
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
    // Nobody has asked.
    expect(upstream.calls.filter(({ params }) => params[0] === 'latest')).toEqual([])
    upstream.dropConnections()
    upstream.grow(chain.slice(0, 20))
    await node.canonicalIs(chain[19]!)
    await node.stop()
  })

  test('a chain that is replaced, oldest block first', async () => {
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

  test('three upstreams of which one is dead, and one dies', async () => {
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

  test('one that lies is outvoted, and said to be', async () => {
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

  test('a block that the writer refuses is asked for elsewhere; where all give it, the chain is halted', async () => {
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
    node.say({ type: 'refused', number: 6, hash: refused!.hash, field: 'stateRoot' })
    await node.until(() => node.of('halted').length > 0)
    expect(node.of('halted')[0]?.message).toBe(
      `block 6 is ${bytesToHex(refused!.hash)} at ${upstreams[0].url} and ${upstreams[1].url}, but its stateRoot is not what this node computes`,
    )
    // It is not sent again.
    expect(isSealed(1)()).toBe(true)
    await node.stop()
  })
})

describe('while the upstreams of the start are looked at', () => {
  async function startWithSilent() {
    const [upstream] = (await openUpstreams(1, 3)) as [ChainUpstream]
    const asked = Promise.withResolvers<IncomingMessage>()
    upstream.misbehave = asked.resolve
    const node = await Node.open()
    node.start([upstream])
    const { socket } = await asked.promise
    return { node, upstream, socket }
  }

  test('a stop is heard', async () => {
    const { node } = await startWithSilent()
    await node.stop()
    expect(node.told).toEqual([{ type: 'stopped' }])
  })

  test('what is asked is answered after them', async () => {
    const { node, upstream, socket } = await startWithSilent()
    const call = { type: 'forward', request: 7, method: 'eth_chainId', params: '[]' } as const
    node.post({ ...call, to: 'upstream', client: '' })
    upstream.misbehave = undefined
    socket.destroy()
    await node.until(() => node.of('forwarded').length > 0)
    expect(node.of('forwarded')).toMatchObject([{ request: 7, answer: { result: '"0xc4"' } }])
    await node.stop()
  })
})

describe('the start is refused', () => {
  const OTHER_HASH = `0x${'12'.repeat(32)}`
  const cases: [what: string, answer: NonNullable<ChainUpstream['answer']>, message: string][] = [
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
  test.each(cases)('%s', async (_, answer, message) => {
    const [good, wrong] = (await openUpstreams(2, 1)) as [ChainUpstream, ChainUpstream]
    wrong.answer = answer
    const node = await Node.open()
    node.start([good, wrong])
    await node.until(() => node.of('failed').length > 0)
    expect(node.of('failed')[0]?.message).toContain(`${wrong.url}${message}`)
    expect(node.of('ready')).toEqual([])
    await once(node.worker, 'exit')
  })

  test('not for one that does not answer: it is asked again before it is used', async () => {
    const [good, late] = (await openUpstreams(2, 3)) as [ChainUpstream, ChainUpstream]
    late.answer = ({ method }) => (method === 'eth_chainId' ? { result: '0x1' } : undefined)
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

  test('not for one without the first block, were it the only one: it is followed once it has it', async () => {
    const [upstream] = (await openUpstreams(1, 3)) as [ChainUpstream]
    upstream.answer = ({ method, params }) =>
      method === 'eth_getBlockByNumber' && params[0] === '0x0' ? { result: null } : undefined
    const node = await Node.open()
    node.start([upstream], { limits: { ...DEFAULT_UPSTREAM_LIMITS, upstreamRestMs: 100 } })
    await node.until(() => node.of('warning').length > 0)
    expect(node.of('warning')[0]?.message).toContain(`${upstream.url} has no block 0`)
    expect(node.of('ready').length).toBe(1)
    upstream.answer = undefined
    await node.canonicalIs(chain[2]!)
    await node.stop()
  })
})

describe('what others answer', () => {
  const forward = (to: 'upstream' | 'sequencer', method: string, params = '[]') =>
    ({ type: 'forward', request: 7, method, params, to, client: 'somebody' }) as const
  async function answered(node: Node, message: ToFollower) {
    node.post(message)
    await node.until(() => node.of('forwarded').length > 0)
    return node.of('forwarded').at(-1)?.answer
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
    node.told.length = 0
    for (const one of [upstream, sequencer]) {
      one.answer = undefined
      one.misbehave = undefined
    }
  })
  const limits = { ...DEFAULT_UPSTREAM_LIMITS, forwardMs: 500 }

  test('a transaction goes to the sequencer, and its error comes back as it is', async () => {
    const error = { code: -32003, message: 'nonce too low', data: { next: 7 } }
    sequencer.answer = ({ method }) => (method === 'eth_sendRawTransaction' ? { error } : undefined)
    expect(
      await answered(node, forward('sequencer', 'eth_sendRawTransaction', '["0x02"]')),
    ).toEqual({ error })
    expect(sequencer.calls.at(-1)).toMatchObject({ params: ['0x02'] })
    expect(upstream.calls.some(({ method }) => method === 'eth_sendRawTransaction')).toBe(false)
  })
  test('a result comes back as text', async () => {
    upstream.answer = ({ method }) =>
      method === 'eth_getBalance' ? { result: { balance: '0x1' } } : undefined
    expect(await answered(node, forward('upstream', 'eth_getBalance'))).toEqual({
      result: '{"balance":"0x1"}',
    })
  })
  test('silence is said to be that', async () => {
    sequencer.misbehave = () => {}
    expect(await answered(node, forward('sequencer', 'eth_sendRawTransaction'))).toEqual({
      silent: 'the sequencer gave no answer in time',
    })
  })
  test('a connection that breaks may have taken the transaction, one that never was has not', async () => {
    const send = forward('sequencer', 'eth_sendRawTransaction')
    // It shows its chain again, because it was silent before.
    expect(await answered(node, send)).toMatchObject({ error: { code: -32601 } })
    node.told.length = 0
    sequencer.misbehave = (request) => request.socket.destroy()
    expect(await answered(node, send)).toEqual({
      silent: 'the sequencer gave no answer that can be read',
    })
    sequencer.close()
    node.told.length = 0
    expect(await answered(node, send)).toMatchObject({
      error: { message: 'the sequencer cannot be reached' },
    })
  })
  test('an error that names whom the upstream has asked names it no more', async () => {
    const error = { code: -32000, message: 'Post "http://10.0.0.7:8551/key": refused' }
    upstream.answer = ({ method }) => (method === 'eth_getBalance' ? { error } : undefined)
    expect(await answered(node, forward('upstream', 'eth_getBalance'))).toEqual({
      error: { code: -32000, message: 'Post "the upstream": refused' },
    })
  })
  test('state is not fetched by a node that has all of it', async () => {
    node.post({ type: 'fetch', request: 3, keys: [], for: 'call', client: 'somebody' })
    await node.until(() => node.of('fetched').length > 0)
    const failed = 'this node has all of the state: nothing is fetched'
    expect(node.of('fetched')).toEqual([{ type: 'fetched', request: 3, failed }])
    node.say({ type: 'need', request: 4, keys: [], for: 'canonical' })
    await node.until(() => node.toWriter.some(({ type }) => type === 'fetched'))
    expect(node.toWriter.at(-1)).toEqual({ type: 'fetched', request: 4, failed })
  })
})

import { describe, expect, test } from 'vitest'
import type { Client } from '../../../rpc/core/client.ts'
import { RpcError } from '../../../rpc/core/errors.ts'
import type { Executor, PoolCall } from '../../../rpc/core/executor.ts'
import { quantityResult } from '../../../rpc/json/results.ts'
import { frontMethod, type Method } from '../../../rpc/method/method.ts'
import { type Reply, testRpc } from '../../fixtures/rpc.ts'

const call = (rest: string) => `{"jsonrpc":"2.0",${rest}}`
const chainId = call('"id":1,"method":"eth_chainId","params":[]')
const only = (...methods: Method[]) => new Map(methods.map((method) => [method.name, method]))

describe('the rate limiter', () => {
  test('refuses a call with 429, the reason and Retry-After', async () => {
    const rpc = testRpc({ perSecond: 1 })
    expect((await rpc.send(chainId)).status).toBe(200)
    const { text, status, headers } = await rpc.send(chainId)
    expect(status).toBe(429)
    expect(headers['Retry-After']).toBe('1')
    const refusal = (JSON.parse(text!) as Reply).error
    expect(refusal).toMatchObject({
      code: -32005,
      data: { reason: 'rate', limit: 1, used: 1, cost: 1 },
    })
  })
  test('charges a batch as a whole before any item runs', async () => {
    let runs = 0
    const counted = frontMethod({
      name: 'test_count',
      summary: 'Counts.',
      params: [],
      result: quantityResult('n'),
      handler: () => ++runs,
    })
    const rpc = testRpc({ perSecond: 2, extra: only(counted) })
    const item = call('"id":1,"method":"test_count"')
    const { text, status } = await rpc.send(`[${item},${item},${item}]`)
    expect(status).toBe(429)
    expect((JSON.parse(text!) as Reply[]).map((reply) => reply.error?.code)).toEqual([
      -32005, -32005, -32005,
    ])
    expect(runs).toBe(0)
    expect((await rpc.send(`[${item},${item}]`)).status).toBe(200)
    expect(runs).toBe(2)
  })
  test('charges notifications, invalid items and invalid bodies too', async () => {
    const rpc = testRpc({ perSecond: 3 })
    await rpc.send(call('"method":"eth_chainId"'))
    await rpc.send('[1]')
    await rpc.send('{')
    expect((await rpc.send(chainId)).status).toBe(429)
  })
})

describe('a response without a promise', () => {
  const client: Client = {
    address: '127.0.0.1',
    endpoint: 'flashblocks',
    notify: undefined,
    isGone: false,
    signal: new AbortController().signal,
  }
  const block = call('"id":2,"method":"eth_getBlockTransactionCountByNumber","params":["latest"]')
  const wrong = call('"id":3,"method":"eth_nothing"')
  const cases: [name: string, body: string, isAtOnce: boolean][] = [
    ['a call that the front runs', chainId, true],
    ['a batch of such calls and errors', `[${chainId},${block},${wrong},1]`, true],
    ['a batch of notifications', `[${call('"method":"eth_chainId"')}]`, true],
    ['a call that a worker runs', call('"id":4,"method":"eth_call","params":[{}]'), false],
    [
      'a batch with such a call',
      `[${chainId},${call('"id":4,"method":"eth_call","params":[{}]')}]`,
      false,
    ],
  ]
  test.each(cases)('is given exactly where no worker is needed: %s', async (_, body, isAtOnce) => {
    const rpc = testRpc()
    const response = rpc.respond(body, client)
    expect(response instanceof Promise).toBe(!isAtOnce)
    expect(await response).toEqual(await testRpc().respond(body, client))
  })
})

describe('a request', () => {
  const block =
    '{"jsonrpc":"2.0","id":1,"method":"eth_getBlockTransactionCountByNumber","params":["latest"]}'
  test('is repeated on a new view when its view disappears', async () => {
    const rpc = testRpc()
    rpc.memory.failNext(3)
    expect((await rpc.request('eth_getBlockTransactionCountByNumber', ['latest'])).result).toBe(
      '0x0',
    )
    expect(rpc.memory.leaks()).toBe(0)
  })
  test('in a batch is repeated without its changes when the view disappears', async () => {
    let effects = 0
    const effect = frontMethod({
      name: 'test_effect',
      summary: 'Counts.',
      hasEffect: true,
      params: [],
      result: quantityResult('n'),
      handler: () => ++effects,
    })
    const rpc = testRpc({ extra: only(effect) })
    rpc.memory.failNext(1)
    const body = `[${call('"id":1,"method":"test_effect"')},${block},${block}]`
    const replies = JSON.parse((await rpc.send(body)).text!) as Reply[]
    expect(replies.map(({ result }) => result)).toEqual(['0x1', '0x0', '0x0'])
    expect(effects).toBe(1)
    expect(rpc.memory.leaks()).toBe(0)
  })
  test.each([false, true])(
    'in one of many batches shares the time of a turn; waiting methods: %s',
    async (isWaiting) => {
      const worked: number[] = []
      let turn = 0
      const work = frontMethod({
        name: 'test_work',
        summary: 'Takes as long as the clock moves when it is looked at.',
        isWaiting,
        params: [],
        result: quantityResult('n'),
        handler: () => worked.push(turn),
      })
      const rpc = testRpc({ extra: only(work), clockStepMs: 4 })
      let ticking = setImmediate(function tick() {
        turn++
        ticking = setImmediate(tick)
      })
      const ended: string[] = []
      const batch = (items: number) => `[${Array(items).fill(call('"id":1,"method":"test_work"'))}]`
      await Promise.all(
        [20, 20, 20, 2].map(async (items) => {
          expect((await rpc.send(batch(items))).status).toBe(200)
          ended.push(items === 2 ? 'small' : 'large')
        }),
      )
      clearImmediate(ticking)
      expect(worked).toHaveLength(62)
      const max = Math.max(...worked.map((at) => worked.filter((one) => one === at).length))
      expect(max).toBeLessThanOrEqual(4)
      expect(ended[0]).toBe('small')
    },
  )
  test('in a large batch shares the time of a turn when all items continue at once', async () => {
    const blocker = Promise.withResolvers<void>()
    const worked: number[] = []
    let turn = 0
    const work = frontMethod({
      name: 'test_work',
      summary: 'Works when all of its batch may.',
      params: [],
      result: quantityResult('n'),
      async handler(context) {
        await blocker.promise
        await context.turn()
        return worked.push(turn)
      },
    })
    const rpc = testRpc({ extra: only(work), clockStepMs: 4 })
    const response = rpc.send(`[${Array(40).fill(call('"id":1,"method":"test_work"'))}]`)
    setTimeout(blocker.resolve, 100)
    let ticking = setImmediate(function tick() {
      turn++
      ticking = setImmediate(tick)
    })
    expect((await response).status).toBe(200)
    clearImmediate(ticking)
    const max = Math.max(...worked.map((at) => worked.filter((one) => one === at).length))
    expect([worked.length, max <= 4]).toEqual([40, true])
  })
  test('ends at its timeout when its view always disappears', async () => {
    const rpc = testRpc({ clockStepMs: 100 })
    rpc.memory.failNext(Number.POSITIVE_INFINITY)
    const reply = await rpc.request('eth_getBlockTransactionCountByNumber', ['latest'])
    expect(reply.error).toMatchObject({ code: -32002, data: { limitMs: 5_000 } })
    const { text } = await rpc.send(`[${block},${chainId}]`)
    const replies = JSON.parse(text!) as Reply[]
    expect(replies.map((one) => one.error?.code ?? one.result)).toEqual([-32002, '0xc4'])
    expect(rpc.memory.leaks()).toBe(0)
  })
  describe('whose traces always lose their view', () => {
    const stale = (onCall: (method: string) => void = () => {}) => ({
      clockStepMs: 100,
      limits: { callMs: 5_000, traceMs: 20_000 },
      executor: () => ({
        async execute({ method }: PoolCall) {
          onCall(method.name)
          return { stale: true } as const
        },
      }),
    })
    const trace = call(`"id":1,"method":"debug_traceTransaction","params":["0x${'11'.repeat(32)}"]`)
    const message = call('"id":2,"method":"eth_call","params":[{}]')
    const late = (limitMs: number) => ({ code: -32002, data: { limitMs } })

    test('is retried until the timeout of traces, which the error names', async () => {
      const { error } = JSON.parse((await testRpc(stale()).send(trace)).text!) as Reply
      expect(error).toMatchObject(late(20_000))
      expect((error!.data as { readonly elapsedMs: number }).elapsedMs).toBeGreaterThan(20_000)
    })
    test('as a batch of traces is retried until the timeout of traces', async () => {
      let runs = 0
      const rpc = testRpc(stale(() => void runs++))
      const { text } = await rpc.send(`[${trace},${chainId},${trace}]`)
      const replies = JSON.parse(text!) as Reply[]
      expect(replies.map(({ error, result }) => result ?? error)).toMatchObject([
        late(20_000),
        '0xc4',
        late(20_000),
      ])
      const times = replies[0]!.error!.data as { readonly elapsedMs: number }
      expect(times.elapsedMs).toBeGreaterThan(20_000)
      expect(runs).toBeGreaterThan(2)
    })
    test('as a batch of traces and calls retries each until its own timeout', async () => {
      const runs = { eth_call: 0, debug_traceTransaction: 0 }
      const rpc = testRpc(stale((method) => void runs[method as keyof typeof runs]++))
      const { text } = await rpc.send(`[${trace},${message},${chainId}]`)
      const replies = JSON.parse(text!) as Reply[]
      expect(replies.map(({ error, result }) => result ?? error)).toMatchObject([
        late(20_000),
        late(5_000),
        '0xc4',
      ])
      const [traced, called] = replies.map(
        ({ error }) => (error?.data as { readonly elapsedMs: number } | undefined)?.elapsedMs,
      )
      expect(traced).toBeGreaterThan(20_000)
      expect(called).toBeGreaterThan(5_000)
      expect(called).toBeLessThan(10_000)
      // A late call does not run again.
      expect(runs.eth_call).toBeLessThan(runs.debug_traceTransaction)
      expect(rpc.memory.leaks()).toBe(0)
    })
    test('as a batch gets the result of a trace after the timeout of a call', async () => {
      // Counts how many more runs the trace had than the call.
      let newer = 0
      const rpc = testRpc({
        ...stale(),
        executor: () => ({
          async execute({ method }) {
            newer += method.name === 'eth_call' ? -1 : 1
            return newer > 1 ? { result: '"traced"' } : { stale: true }
          },
        }),
      })
      const { text } = await rpc.send(`[${trace},${message}]`)
      const replies = JSON.parse(text!) as Reply[]
      expect(replies.map(({ error, result }) => result ?? error)).toMatchObject([
        'traced',
        late(5_000),
      ])
    })
  })
  test('for pruned history gets a separate error', async () => {
    const rpc = testRpc()
    rpc.memory.failNext(1, 'pruned')
    const reply = await rpc.request('eth_getBlockTransactionCountByNumber', ['latest'])
    expect(reply.error).toMatchObject({ code: -32001, data: { newest: '0x0' } })
  })
  test('that hits a bug gets an internal error, and the bug is reported once', async () => {
    const broken = frontMethod({
      name: 'test_broken',
      summary: 'Throws.',
      params: [],
      result: quantityResult('n'),
      handler(): number {
        throw new TypeError('secret')
      },
    })
    const refused = frontMethod({
      name: 'test_refused',
      summary: 'Refuses.',
      params: [],
      result: quantityResult('n'),
      async handler(): Promise<number> {
        throw new RpcError(-32000, 'no', { why: 'é' })
      },
    })
    const rpc = testRpc({ extra: only(broken, refused) })
    expect((await rpc.request('test_broken')).error).toEqual({
      code: -32603,
      message: 'internal error',
    })
    expect(rpc.bugs).toHaveLength(1)
    expect((await rpc.request('test_refused')).error).toEqual({
      code: -32000,
      message: 'no',
      data: { why: 'é' },
    })
    expect(rpc.bugs).toHaveLength(1)
  })
})

describe('a response', () => {
  test('names its flashblock in X-Flashblock', async () => {
    const rpc = testRpc()
    const { headers } = await rpc.send(chainId)
    expect(headers['X-Flashblock']).toBe('0:0:0x0000000000000001')
    expect((await rpc.send(chainId, { endpoint: 'standard' })).headers).toEqual({})
  })
  test.each([false, true])(
    'names the flashblock that the worker read, even when released; in pieces: %s',
    async (isInPieces) => {
      const executor = (local: Executor): Executor => ({
        async execute(call) {
          const reply = await local.execute(call)
          for (const salt of [1, 2]) {
            const { memory } = rpc
            memory.publish({ canonical: memory.make(memory.heads.canonical, { salt }) })
          }
          if (!isInPieces || !('result' in reply)) return reply
          const { result, ...from } = reply
          return { pieces: [Buffer.from(result)], ...from }
        },
      })
      const rpc = testRpc({ executor })
      const flashblockIds: (string | undefined)[] = []
      for (let requested = 0; requested < 3; requested++) {
        const requester = `{"to":"0x${'c'.repeat(40)}","data":"0x0${requested}"}`
        const body = call(`"id":1,"method":"eth_call","params":[${requester},"pending"]`)
        const { headers, text } = await rpc.send(body)
        expect(JSON.parse(text!)).toMatchObject({ result: '0x' })
        flashblockIds.push(headers['X-Flashblock'])
      }
      const payload = (id: number) => `0x${id.toString(16).padStart(16, '0')}`
      expect(flashblockIds).toEqual([0, 2, 4].map((number) => `${number}:0:${payload(number + 1)}`))
    },
  )
  test('that is large leaves a turn for other requests', async () => {
    const result = JSON.stringify('x'.repeat(300_000))
    const executor = () => ({ execute: async () => ({ result }) })
    const rpc = testRpc({ executor })
    let turn = 0
    let ticking = setImmediate(function tick() {
      turn++
      ticking = setImmediate(tick)
    })
    const logs = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getLogs', params: [{}] })
    const turns: number[] = []
    await Promise.all(
      [1, 2, 3, 4].map(async () => {
        expect((await rpc.send(logs)).text).toContain(result)
        turns.push(turn)
      }),
    )
    clearImmediate(ticking)
    expect(new Set(turns).size).toBe(4)
  })
  test('above the maximum size is an error', async () => {
    const rpc = testRpc({ limits: { responseBytes: 100 } })
    const reply = await rpc.request('eth_getBlockByNumber', ['latest', false])
    expect(reply.error).toMatchObject({ code: -32003, data: { limit: 100 } })
  })
})

import { describe, expect, test } from 'vitest'
import { quantityResult } from '../../../rpc/json/results.ts'
import { frontMethod, type Method } from '../../../rpc/method/method.ts'
import type { Client } from '../../../rpc/seam/client.ts'
import { RpcError } from '../../../rpc/seam/errors.ts'
import type { Executor, PoolCall } from '../../../rpc/seam/executor.ts'
import { type Reply, testRpc } from '../../fixtures/rpc.ts'

const call = (rest: string) => `{"jsonrpc":"2.0",${rest}}`
const chainId = call('"id":1,"method":"eth_chainId","params":[]')
const only = (...methods: Method[]) => new Map(methods.map((method) => [method.name, method]))

describe('the limiter', () => {
  test('a refused call: 429, what happened, when to come again', async () => {
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
  test('a batch is charged whole, before any of it runs', async () => {
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
  test('notifications, bad items and bad bodies cost as well', async () => {
    const rpc = testRpc({ perSecond: 3 })
    await rpc.send(call('"method":"eth_chainId"'))
    await rpc.send('[1]')
    await rpc.send('{')
    expect((await rpc.send(chainId)).status).toBe(429)
  })
})

describe('without a promise', () => {
  const client: Client = {
    ...{ address: '127.0.0.1', endpoint: 'flashblocks', notify: undefined, isGone: false },
    signal: new AbortController().signal,
  }
  const block = call('"id":2,"method":"eth_getBlockTransactionCountByNumber","params":["latest"]')
  const wrong = call('"id":3,"method":"eth_nothing"')
  const cases: [name: string, body: string, isAtOnce: boolean][] = [
    ['a call of the front', chainId, true],
    ['a batch of them, with errors', `[${chainId},${block},${wrong},1]`, true],
    ['a batch of notifications', `[${call('"method":"eth_chainId"')}]`, true],
    ['a call of a worker', call('"id":4,"method":"eth_call","params":[{}]'), false],
    ['a batch with one', `[${chainId},${call('"id":4,"method":"eth_call","params":[{}]')}]`, false],
  ]
  test.each(cases)('%s', async (_, body, isAtOnce) => {
    const rpc = testRpc()
    const answered = rpc.answer(body, client)
    expect(answered instanceof Promise).toBe(!isAtOnce)
    expect(await answered).toEqual(await testRpc().answer(body, client))
  })
})

describe('views', () => {
  const block =
    '{"jsonrpc":"2.0","id":1,"method":"eth_getBlockTransactionCountByNumber","params":["latest"]}'
  test('a view that vanishes is taken anew', async () => {
    const rpc = testRpc()
    rpc.memory.failNext(3)
    expect((await rpc.ask('eth_getBlockTransactionCountByNumber', ['latest'])).result).toBe('0x0')
    expect(rpc.memory.leaks()).toBe(0)
  })
  test('a batch starts again without repeating what it changed', async () => {
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
    'that are many share the time between two turns of the event loop; they wait: %s',
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
      const most = Math.max(...worked.map((at) => worked.filter((one) => one === at).length))
      expect(most).toBeLessThanOrEqual(4)
      expect(ended[0]).toBe('small')
    },
  )
  test('that all go on in the same turn of the event loop share its time', async () => {
    const gate = Promise.withResolvers<void>()
    const worked: number[] = []
    let turn = 0
    const work = frontMethod({
      name: 'test_work',
      summary: 'Works when all of its batch may.',
      params: [],
      result: quantityResult('n'),
      async handler(context) {
        await gate.promise
        await context.turn()
        return worked.push(turn)
      },
    })
    const rpc = testRpc({ extra: only(work), clockStepMs: 4 })
    const answered = rpc.send(`[${Array(40).fill(call('"id":1,"method":"test_work"'))}]`)
    setTimeout(gate.resolve, 100)
    let ticking = setImmediate(function tick() {
      turn++
      ticking = setImmediate(tick)
    })
    expect((await answered).status).toBe(200)
    clearImmediate(ticking)
    const most = Math.max(...worked.map((at) => worked.filter((one) => one === at).length))
    expect([worked.length, most <= 4]).toEqual([40, true])
  })
  test('one that never stands still ends at the deadline', async () => {
    const rpc = testRpc({ clockStepMs: 100 })
    rpc.memory.failNext(Number.POSITIVE_INFINITY)
    const reply = await rpc.ask('eth_getBlockTransactionCountByNumber', ['latest'])
    expect(reply.error).toMatchObject({ code: -32002, data: { limitMs: 5_000 } })
    const { text } = await rpc.send(`[${block},${chainId}]`)
    const replies = JSON.parse(text!) as Reply[]
    expect(replies.map((one) => one.error?.code ?? one.result)).toEqual([-32002, '0xc4'])
    expect(rpc.memory.leaks()).toBe(0)
  })
  describe('that vanish under every trace', () => {
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

    test('a trace is tried again until its own deadline, and says that one', async () => {
      const { error } = JSON.parse((await testRpc(stale()).send(trace)).text!) as Reply
      expect(error).toMatchObject(late(20_000))
      expect((error!.data as { readonly elapsedMs: number }).elapsedMs).toBeGreaterThan(20_000)
    })
    test('so is a batch of traces; reads of the front do not hurry it', async () => {
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
    test('in a batch of both each is tried until its own deadline, and says that one', async () => {
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
      // Once it is late it does not run again.
      expect(runs.eth_call).toBeLessThan(runs.debug_traceTransaction)
      expect(rpc.memory.leaks()).toBe(0)
    })
    test('a trace gets its answer after the call beside it has run out of time', async () => {
      // How often the trace has run more than the call.
      let ahead = 0
      const rpc = testRpc({
        ...stale(),
        executor: () => ({
          async execute({ method }) {
            ahead += method.name === 'eth_call' ? -1 : 1
            return ahead > 1 ? { result: '"traced"' } : { stale: true }
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
  test('pruned history is an error of its own', async () => {
    const rpc = testRpc()
    rpc.memory.failNext(1, 'pruned')
    const reply = await rpc.ask('eth_getBlockTransactionCountByNumber', ['latest'])
    expect(reply.error).toMatchObject({ code: -32001, data: { newest: '0x0' } })
  })
  test('a bug is an internal error, reported once', async () => {
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
    expect((await rpc.ask('test_broken')).error).toEqual({
      code: -32603,
      message: 'internal error',
    })
    expect(rpc.bugs).toHaveLength(1)
    expect((await rpc.ask('test_refused')).error).toEqual({
      code: -32000,
      message: 'no',
      data: { why: 'é' },
    })
    expect(rpc.bugs).toHaveLength(1)
  })
})

describe('answers', () => {
  test('say where they stand among the flashblocks', async () => {
    const rpc = testRpc()
    const { headers } = await rpc.send(chainId)
    expect(headers['X-Flashblock']).toBe('0:0:0x0000000000000001')
    expect((await rpc.send(chainId, { endpoint: 'standard' })).headers).toEqual({})
  })
  test.each([false, true])(
    'say where a worker read, though nobody holds that any more; in pieces: %s',
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
      const places: (string | undefined)[] = []
      for (let asked = 0; asked < 3; asked++) {
        const asking = `{"to":"0x${'c'.repeat(40)}","data":"0x0${asked}"}`
        const body = call(`"id":1,"method":"eth_call","params":[${asking},"pending"]`)
        const { headers, text } = await rpc.send(body)
        expect(JSON.parse(text!)).toMatchObject({ result: '0x' })
        places.push(headers['X-Flashblock'])
      }
      const payload = (id: number) => `0x${id.toString(16).padStart(16, '0')}`
      expect(places).toEqual([0, 2, 4].map((number) => `${number}:0:${payload(number + 1)}`))
    },
  )
  test('that are large go out one by one, with a turn for others between', async () => {
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
  test('beyond the size of one answer', async () => {
    const rpc = testRpc({ limits: { responseBytes: 100 } })
    const reply = await rpc.ask('eth_getBlockByNumber', ['latest', false])
    expect(reply.error).toMatchObject({ code: -32003, data: { limit: 100 } })
  })
})

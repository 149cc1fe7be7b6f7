/** Calls of one upstream are limited in number and time, whatever it does. */
import { describe, expect, test } from 'vitest'
import { createUpstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import type { Transport } from '../../../engine/sources/upstream/messages.ts'
import type { Clock } from '../../../engine/sources/upstream/permits.ts'

type Wire = { readonly id: number; readonly method: string; readonly params: readonly unknown[] }
type Exchange = {
  readonly message: Wire | readonly Wire[]
  readonly signal: AbortSignal
  respond(value: unknown): void
  fail(error: unknown): void
}

/** Makes a transport that responds on demand, and a clock that moves on demand. */
function open(limits: Partial<typeof LIMITS> = {}) {
  const sent: Exchange[] = []
  let timers: { atMs: number; run: () => void }[] = []
  const clock = { ms: 0 }
  const fake: Clock = {
    now: () => clock.ms,
    after(ms, run) {
      const timer = { atMs: clock.ms + ms, run }
      timers.push(timer)
      return () => {
        timers = timers.filter((one) => one !== timer)
      }
    },
  }
  const listeners = { message: (_: unknown) => {}, close: () => {} }
  const transport: Transport = {
    exchange(message, _, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<unknown>()
      sent.push({ message: JSON.parse(message), signal, respond: resolve, fail: reject })
      return promise
    },
    pushes: {
      onMessage(listener) {
        listeners.message = listener
      },
      onClose(listener) {
        listeners.close = listener
      },
    },
    close() {},
  }
  const calls: number[] = []
  const upstream = createUpstream({
    name: 'http://fake',
    transport,
    clock: fake,
    limits: { ...LIMITS, ...limits },
    isLimited: ({ message }) => message === 'too many',
    onSent: (count) => void calls.push(count),
  })
  return {
    upstream,
    sent,
    calls,
    listeners,
    timers: () => timers.length,
    settle,
    async pass(ms: number) {
      clock.ms += ms
      for (const timer of timers.filter(({ atMs }) => atMs <= clock.ms)) {
        timers = timers.filter((one) => one !== timer)
        timer.run()
      }
      await settle()
    },
  }
}
/** Lets promises run. */
async function settle() {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
}
const LIMITS = { upstreamCallMs: 8_000, upstreamInFlight: 2, upstreamWaiting: 3, upstreamBatch: 4 }
const kindOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'answered',
    (error: unknown) => (error instanceof UpstreamError ? error.kind : String(error)),
  )

describe('one call', () => {
  const responses: [what: string, response: (id: number) => unknown, outcome: object][] = [
    ['a result', (id) => ({ id, result: 7 }), { result: 7 }],
    ['null', (id) => ({ id, result: null, error: null }), { result: null }],
    ['a list with one response', (id) => [{ id, result: 7 }], { result: 7 }],
    [
      'an error with unknown fields',
      (id) => ({ id, error: { code: 3, message: 'reverted', data: '0x08', more: 1 } }),
      { kind: 'refused', fault: { code: 3, message: 'reverted', data: '0x08' } },
    ],
    ['neither a result nor an error', (id) => ({ id }), { kind: 'broken' }],
    ['a text', () => 'sorry', { kind: 'broken' }],
    ['an error that is a text', (id) => ({ id, error: 'no' }), { kind: 'broken' }],
  ]
  test.each(responses)('has the right outcome for %s', async (_, respond, outcome) => {
    const { upstream, sent, settle, timers } = open()
    const call = upstream.call('eth_x', [1]).then(
      (result) => ({ result }),
      ({ kind, fault }: UpstreamError) => ({ kind, fault }),
    )
    await settle()
    const { id, method, params } = sent[0]!.message as Wire
    expect({ method, params }).toEqual({ method: 'eth_x', params: [1] })
    sent[0]!.respond(respond(id))
    expect(await call).toMatchObject(outcome)
    expect(timers()).toBe(0)
  })

  test('fails when its timeout ends before the response', async () => {
    const { upstream, sent, settle, pass } = open()
    const kind = kindOf(upstream.call('eth_x', []))
    const short = kindOf(upstream.call('eth_y', [], { withinMs: 100 }))
    await settle()
    await pass(100)
    expect(await short).toBe('silent')
    expect(sent.map(({ signal }) => signal.aborted)).toEqual([false, true])
    await pass(7_900)
    expect(await kind).toBe('silent')
    // A late response is ignored.
    sent[0]!.respond({ id: 1, result: 1 })
    await settle()
  })
  test('fails when its caller aborts', async () => {
    const { upstream, settle } = open()
    const gone = new AbortController()
    const kind = kindOf(upstream.call('eth_x', [], { signal: gone.signal }))
    await settle()
    gone.abort()
    expect(await kind).toBe('broken')
    expect(await kindOf(upstream.call('eth_x', [], { signal: gone.signal }))).toBe('broken')
  })
  test('fails with the error of the transport', async () => {
    const { upstream, sent, settle } = open()
    const kind = kindOf(upstream.call('eth_x', []))
    await settle()
    sent[0]!.fail(new UpstreamError('unreachable', 'nobody there'))
    expect(await kind).toBe('unreachable')
  })
})

describe('the limit of concurrent calls', () => {
  test('sends calls in order, lets a few wait and refuses the others', async () => {
    const { upstream, sent, settle } = open()
    const kinds = Array.from({ length: 6 }, (_, at) => kindOf(upstream.call('eth_x', [at])))
    await settle()
    expect(sent.length).toBe(2)
    expect(await kinds[5]).toBe('limited')
    for (let at = 0; at < 5; at++) {
      const { id, params } = sent[at]!.message as Wire
      expect(params).toEqual([at])
      sent[at]!.respond({ id, result: 1 })
      await settle()
    }
    expect(await Promise.all(kinds.slice(0, 5))).toEqual(Array(5).fill('answered'))
  })
  test('gives the permit of a call that timed out to the next one', async () => {
    const { upstream, sent, settle, pass } = open()
    const first = [1, 2].map(() => kindOf(upstream.call('eth_x', [])))
    const waits = kindOf(upstream.call('eth_x', [], { withinMs: 50 }))
    const last = kindOf(upstream.call('eth_last', []))
    await settle()
    await pass(50)
    expect(await waits).toBe('silent')
    await pass(7_950)
    expect(await Promise.all(first)).toEqual(['silent', 'silent'])
    // The last call's own time is over too.
    expect(await last).toBe('silent')
    const repeated = kindOf(upstream.call('eth_again', []))
    await settle()
    const { id } = sent.at(-1)!.message as Wire
    sent.at(-1)!.respond({ id, result: 1 })
    expect(await repeated).toBe('answered')
  })
})

describe('a rate limit of the upstream', () => {
  const limited = (retryAfterMs: number) => new UpstreamError('limited', '429', { retryAfterMs })
  test('delays all calls until its end and then repeats the refused call', async () => {
    const { upstream, sent, settle, pass } = open()
    const kind = kindOf(upstream.call('eth_x', []))
    await settle()
    sent[0]!.fail(limited(3_000))
    await settle()
    const other = kindOf(upstream.call('eth_y', []))
    await pass(2_999)
    expect(sent.length).toBe(1)
    await pass(1)
    expect(sent.map(({ message }) => (message as Wire).method)).toEqual(['eth_x', 'eth_x', 'eth_y'])
    for (const { message, respond } of sent) respond({ id: (message as Wire).id, result: 1 })
    expect(await Promise.all([kind, other])).toEqual(['answered', 'answered'])
  })
  test('that lasts longer than the call’s timeout fails the call at once', async () => {
    const { upstream, sent, settle, pass } = open()
    const call = upstream.call('eth_x', [])
    const failed = call.catch((error: UpstreamError) => error)
    await settle()
    sent[0]!.fail(limited(30_000))
    expect(await failed).toMatchObject({ kind: 'limited', retryAfterMs: 30_000 })
    await pass(10_000)
    expect(await upstream.call('eth_y', []).catch((error: UpstreamError) => error)).toMatchObject({
      kind: 'limited',
      retryAfterMs: 20_000,
    })
    expect(sent.length).toBe(1)
  })
  test('fails calls at once if there are other upstreams', async () => {
    const { upstream, sent, settle, pass } = open()
    const request = () =>
      upstream.call('eth_x', [], { hasOthers: true }).catch((error: UpstreamError) => error)
    const failed = request()
    await settle()
    sent[0]!.fail(limited(3_000))
    expect(await failed).toMatchObject({ kind: 'limited', retryAfterMs: 3_000 })
    await pass(2_999)
    expect(await request()).toMatchObject({ kind: 'limited', retryAfterMs: 1 })
    expect(sent.length).toBe(1)
    await pass(1)
    const response = request()
    await settle()
    sent[1]!.respond({ id: (sent[1]!.message as Wire).id, result: 7 })
    expect(await response).toBe(7)
  })
  test('that comes as a JSON-RPC error lasts one second', async () => {
    const { upstream, sent, settle, pass } = open()
    const kind = kindOf(upstream.call('eth_x', []))
    await settle()
    sent[0]!.respond({ id: 1, error: { code: 1, message: 'too many' } })
    await settle()
    await pass(999)
    expect(sent.length).toBe(1)
    await pass(1)
    sent[1]!.respond({ id: 2, result: 1 })
    expect(await kind).toBe('answered')
  })
})

describe('a batch', () => {
  const calls = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ method: 'eth_x', params: [at] }))
  const onResponse = ({ id, params }: Wire) => ({ id, result: params[0] })

  test('takes responses in any order, and each call has its own outcome', async () => {
    const { upstream, sent, settle } = open()
    const batch = upstream.batch(calls(3))
    await settle()
    const [first, second, third] = sent[0]!.message as readonly Wire[]
    sent[0]!.respond([onResponse(third!), { id: second!.id, error: { code: 1, message: 'no' } }])
    const [one, two, three] = await batch
    expect(one).toMatchObject({ error: { kind: 'broken' } })
    expect(two).toMatchObject({ error: { kind: 'refused', fault: { message: 'no' } } })
    expect(three).toEqual({ result: 2 })
    expect(first).toMatchObject({ params: [0] })
  })
  test('that is too long is split', async () => {
    const { upstream, sent, calls: counts, settle } = open()
    const batch = upstream.batch(calls(9))
    await settle()
    while (sent.length > 0) {
      const { message, respond } = sent.shift()!
      respond(Array.isArray(message) ? message.map(onResponse) : onResponse(message as Wire))
      await settle()
    }
    expect(counts).toEqual([4, 4, 1])
    expect(await batch).toEqual(Array.from({ length: 9 }, (_, result) => ({ result })))
  })
  test('that the upstream refuses is halved, and later batches start short', async () => {
    const { upstream, sent, calls: counts, settle } = open({ upstreamInFlight: 9 })
    const serve = async (batch: Promise<unknown>) => {
      await settle()
      while (sent.length > 0) {
        const { message, respond } = sent.shift()!
        if (Array.isArray(message)) respond({ id: null, error: { code: 1, message: 'no batches' } })
        else respond(onResponse(message as Wire))
        await settle()
      }
      return batch
    }
    const expected = [0, 1, 2, 3].map((result) => ({ result }))
    expect(await serve(upstream.batch(calls(4)))).toEqual(expected)
    expect(counts).toEqual([4, 2, 2, 1, 1, 1, 1])
    counts.length = 0
    expect(await serve(upstream.batch(calls(4)))).toEqual(expected)
    expect(counts).toEqual([1, 1, 1, 1])
  })
  test('without calls sends nothing', async () => {
    const { upstream, sent } = open()
    expect(await upstream.batch([])).toEqual([])
    expect(sent).toEqual([])
  })
})

describe('the subscription to heads', () => {
  test('delivers heads until the connection ends, and again after a new subscription', async () => {
    const { upstream, sent, listeners, settle } = open()
    const heads: unknown[] = []
    const subscribe = async (subscription: string) => {
      const watching = upstream.watchHeads!((head) => void heads.push(head))
      await settle()
      const { message, respond } = sent.at(-1)!
      expect(message).toMatchObject({ method: 'eth_subscribe', params: ['newHeads'] })
      respond({ id: (message as Wire).id, result: subscription })
      await watching
    }
    const notify = (subscription: unknown, result: unknown) =>
      listeners.message({ method: 'eth_subscription', params: { subscription, result } })
    notify(undefined, 0)
    await subscribe('0x1')
    expect(upstream.isWatching).toBe(true)
    notify('0x1', 1)
    notify('0x2', 2)
    listeners.message({ method: 'other', params: { subscription: '0x1', result: 3 } })
    listeners.message({})
    listeners.close()
    expect(upstream.isWatching).toBe(false)
    notify('0x1', 4)
    await subscribe('0x9')
    notify('0x9', 5)
    expect(heads).toEqual([1, 5])
    await upstream.watchHeads!(() => {})
    expect(sent.length).toBe(2)
  })
  test('may be requested again after a refusal', async () => {
    const { upstream, sent, settle } = open()
    const kind = kindOf(upstream.watchHeads!(() => {}))
    await settle()
    sent[0]!.respond({ id: 1, error: { code: 1, message: 'no subscriptions' } })
    expect(await kind).toBe('refused')
    expect(upstream.isWatching).toBe(false)
    void upstream.watchHeads!(() => {}).catch(() => {})
    await settle()
    expect(sent.length).toBe(2)
  })
})

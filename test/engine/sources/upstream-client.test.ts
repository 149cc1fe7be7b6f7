/** Calls of one upstream: bounded in number and time, whatever it does. */
import { describe, expect, test } from 'vitest'
import { createUpstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import type { Clock } from '../../../engine/sources/upstream/places.ts'
import type { Transport } from '../../../engine/sources/upstream/transport.ts'

type Wire = { readonly id: number; readonly method: string; readonly params: readonly unknown[] }
type Exchange = {
  readonly message: Wire | readonly Wire[]
  readonly signal: AbortSignal
  answer(value: unknown): void
  fail(error: unknown): void
}

/** A transport that answers when it is told to, and a clock that moves when it is told to. */
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
      sent.push({ message: JSON.parse(message), signal, answer: resolve, fail: reject })
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
    ...{ name: 'http://fake', transport, clock: fake, limits: { ...LIMITS, ...limits } },
    isLimited: ({ message }) => message === 'too many',
    onSent: (count) => void calls.push(count),
  })
  return {
    ...{ upstream, sent, calls, listeners },
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
  const answers: [what: string, answer: (id: number) => unknown, outcome: object][] = [
    ['a result', (id) => ({ id, result: 7 }), { result: 7 }],
    ['null', (id) => ({ id, result: null, error: null }), { result: null }],
    ['a list of one', (id) => [{ id, result: 7 }], { result: 7 }],
    [
      'an error, as it came',
      (id) => ({ id, error: { code: 3, message: 'reverted', data: '0x08', more: 1 } }),
      { kind: 'refused', fault: { code: 3, message: 'reverted', data: '0x08' } },
    ],
    ['nothing of either', (id) => ({ id }), { kind: 'broken' }],
    ['no object', () => 'sorry', { kind: 'broken' }],
    ['an error that is none', (id) => ({ id, error: 'no' }), { kind: 'broken' }],
  ]
  test.each(answers)('%s', async (_, answer, outcome) => {
    const { upstream, sent, settle, timers } = open()
    const call = upstream.call('eth_x', [1]).then(
      (result) => ({ result }),
      ({ kind, fault }: UpstreamError) => ({ kind, fault }),
    )
    await settle()
    const { id, method, params } = sent[0]!.message as Wire
    expect({ method, params }).toEqual({ method: 'eth_x', params: [1] })
    sent[0]!.answer(answer(id))
    expect(await call).toMatchObject(outcome)
    expect(timers()).toBe(0)
  })

  test('that is not answered in time is given up', async () => {
    const { upstream, sent, settle, pass } = open()
    const kind = kindOf(upstream.call('eth_x', []))
    const short = kindOf(upstream.call('eth_y', [], { withinMs: 100 }))
    await settle()
    await pass(100)
    expect(await short).toBe('silent')
    expect(sent.map(({ signal }) => signal.aborted)).toEqual([false, true])
    await pass(7_900)
    expect(await kind).toBe('silent')
    // What comes later is nobody's.
    sent[0]!.answer({ id: 1, result: 1 })
    await settle()
  })
  test('of somebody who is gone is given up', async () => {
    const { upstream, settle } = open()
    const gone = new AbortController()
    const kind = kindOf(upstream.call('eth_x', [], { signal: gone.signal }))
    await settle()
    gone.abort()
    expect(await kind).toBe('broken')
    expect(await kindOf(upstream.call('eth_x', [], { signal: gone.signal }))).toBe('broken')
  })
  test('what the transport says is passed on', async () => {
    const { upstream, sent, settle } = open()
    const kind = kindOf(upstream.call('eth_x', []))
    await settle()
    sent[0]!.fail(new UpstreamError('unreachable', 'nobody there'))
    expect(await kind).toBe('unreachable')
  })
})

describe('places', () => {
  test('so many at a time, so many in line, in order', async () => {
    const { upstream, sent, settle } = open()
    const kinds = Array.from({ length: 6 }, (_, at) => kindOf(upstream.call('eth_x', [at])))
    await settle()
    expect(sent.length).toBe(2)
    expect(await kinds[5]).toBe('limited')
    for (let at = 0; at < 5; at++) {
      const { id, params } = sent[at]!.message as Wire
      expect(params).toEqual([at])
      sent[at]!.answer({ id, result: 1 })
      await settle()
    }
    expect(await Promise.all(kinds.slice(0, 5))).toEqual(Array(5).fill('answered'))
  })
  test('one that waits too long leaves the line, and its place goes to the next', async () => {
    const { upstream, sent, settle, pass } = open()
    const first = [1, 2].map(() => kindOf(upstream.call('eth_x', [])))
    const waits = kindOf(upstream.call('eth_x', [], { withinMs: 50 }))
    const last = kindOf(upstream.call('eth_last', []))
    await settle()
    await pass(50)
    expect(await waits).toBe('silent')
    await pass(7_950)
    expect(await Promise.all(first)).toEqual(['silent', 'silent'])
    // Its own time is over as well: it had none left.
    expect(await last).toBe('silent')
    const again = kindOf(upstream.call('eth_again', []))
    await settle()
    const { id } = sent.at(-1)!.message as Wire
    sent.at(-1)!.answer({ id, result: 1 })
    expect(await again).toBe('answered')
  })
})

describe('fewer requests', () => {
  const limited = (retryAfterMs: number) => new UpstreamError('limited', '429', { retryAfterMs })
  test('nothing leaves before the time that it says, then the same call again', async () => {
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
    for (const { message, answer } of sent) answer({ id: (message as Wire).id, result: 1 })
    expect(await Promise.all([kind, other])).toEqual(['answered', 'answered'])
  })
  test('a time beyond that of the call is said at once', async () => {
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
  test('is told at once where somebody else can be asked, and nothing leaves meanwhile', async () => {
    const { upstream, sent, settle, pass } = open()
    const ask = () =>
      upstream.call('eth_x', [], { hasOthers: true }).catch((error: UpstreamError) => error)
    const failed = ask()
    await settle()
    sent[0]!.fail(limited(3_000))
    expect(await failed).toMatchObject({ kind: 'limited', retryAfterMs: 3_000 })
    await pass(2_999)
    expect(await ask()).toMatchObject({ kind: 'limited', retryAfterMs: 1 })
    expect(sent.length).toBe(1)
    await pass(1)
    const answered = ask()
    await settle()
    sent[1]!.answer({ id: (sent[1]!.message as Wire).id, result: 7 })
    expect(await answered).toBe(7)
  })
  test('an error that says so counts as well: after a second', async () => {
    const { upstream, sent, settle, pass } = open()
    const kind = kindOf(upstream.call('eth_x', []))
    await settle()
    sent[0]!.answer({ id: 1, error: { code: 1, message: 'too many' } })
    await settle()
    await pass(999)
    expect(sent.length).toBe(1)
    await pass(1)
    sent[1]!.answer({ id: 2, result: 1 })
    expect(await kind).toBe('answered')
  })
})

describe('batches', () => {
  const calls = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ method: 'eth_x', params: [at] }))
  const answered = ({ id, params }: Wire) => ({ id, result: params[0] })

  test('are answered in any order, each call by itself', async () => {
    const { upstream, sent, settle } = open()
    const batch = upstream.batch(calls(3))
    await settle()
    const [first, second, third] = sent[0]!.message as readonly Wire[]
    sent[0]!.answer([answered(third!), { id: second!.id, error: { code: 1, message: 'no' } }])
    const [one, two, three] = await batch
    expect(one).toMatchObject({ error: { kind: 'broken' } })
    expect(two).toMatchObject({ error: { kind: 'refused', fault: { message: 'no' } } })
    expect(three).toEqual({ result: 2 })
    expect(first).toMatchObject({ params: [0] })
  })
  test('are cut where they are too long', async () => {
    const { upstream, sent, calls: counts, settle } = open()
    const batch = upstream.batch(calls(9))
    await settle()
    while (sent.length > 0) {
      const { message, answer } = sent.shift()!
      answer(Array.isArray(message) ? message.map(answered) : answered(message as Wire))
      await settle()
    }
    expect(counts).toEqual([4, 4, 1])
    expect(await batch).toEqual(Array.from({ length: 9 }, (_, result) => ({ result })))
  })
  test('an upstream that refuses them gets shorter ones, and remembers', async () => {
    const { upstream, sent, calls: counts, settle } = open({ upstreamInFlight: 9 })
    const serve = async (batch: Promise<unknown>) => {
      await settle()
      while (sent.length > 0) {
        const { message, answer } = sent.shift()!
        if (Array.isArray(message)) answer({ id: null, error: { code: 1, message: 'no batches' } })
        else answer(answered(message as Wire))
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
  test('of none ask nothing', async () => {
    const { upstream, sent } = open()
    expect(await upstream.batch([])).toEqual([])
    expect(sent).toEqual([])
  })
})

describe('heads', () => {
  test('are told until the connection ends, and again after it was asked for', async () => {
    const { upstream, sent, listeners, settle } = open()
    const heads: unknown[] = []
    const subscribe = async (subscription: string) => {
      const watching = upstream.watchHeads!((head) => void heads.push(head))
      await settle()
      const { message, answer } = sent.at(-1)!
      expect(message).toMatchObject({ method: 'eth_subscribe', params: ['newHeads'] })
      answer({ id: (message as Wire).id, result: subscription })
      await watching
    }
    const tell = (subscription: unknown, result: unknown) =>
      listeners.message({ method: 'eth_subscription', params: { subscription, result } })
    tell(undefined, 0)
    await subscribe('0x1')
    expect(upstream.isWatching).toBe(true)
    tell('0x1', 1)
    tell('0x2', 2)
    listeners.message({ method: 'other', params: { subscription: '0x1', result: 3 } })
    listeners.message({})
    listeners.close()
    expect(upstream.isWatching).toBe(false)
    tell('0x1', 4)
    await subscribe('0x9')
    tell('0x9', 5)
    expect(heads).toEqual([1, 5])
    await upstream.watchHeads!(() => {})
    expect(sent.length).toBe(2)
  })
  test('one that does not tell of heads may be asked again', async () => {
    const { upstream, sent, settle } = open()
    const kind = kindOf(upstream.watchHeads!(() => {}))
    await settle()
    sent[0]!.answer({ id: 1, error: { code: 1, message: 'no subscriptions' } })
    expect(await kind).toBe('refused')
    expect(upstream.isWatching).toBe(false)
    void upstream.watchHeads!(() => {}).catch(() => {})
    await settle()
    expect(sent.length).toBe(2)
  })
})

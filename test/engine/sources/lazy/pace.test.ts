/** Whoever asks upstreams beside the fetcher pays from its budget. */
import { expect, test } from 'vitest'
import { type Budget, BudgetError, type Payer } from '../../../../engine/sources/lazy/budget.ts'
import { paced, paceOf, pay } from '../../../../engine/sources/lazy/pace.ts'
import type { Upstream } from '../../../../engine/sources/upstream/client.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../../engine/sources/upstream/limits.ts'
import { createForwarder, type Forward } from '../../../../workers/follower/forward.ts'

function open(refused?: Error) {
  const paid: (readonly [number, Payer['what'], string])[] = []
  const budget: Budget = {
    batch: 45,
    async take(count, { what, client }) {
      if (refused !== undefined) throw refused
      paid.push([count, what, client])
    },
    waiting: () => 0,
    close() {},
  }
  return { budget, paid }
}

test('blocks are canonical, and paid for in parts that may leave at once', async () => {
  const { budget, paid } = open()
  await paceOf(budget).take(100, new AbortController().signal)
  expect(paid).toEqual([
    [45, 'canonical', ''],
    [45, 'canonical', ''],
    [10, 'canonical', ''],
  ])
})

test('a full budget is what an upstream says that is asked for too much; a bug stays one', async () => {
  const payer = { what: 'call', client: 'a' } as const
  const full = pay(open(new BudgetError('too much')).budget, 1, payer)
  await expect(full).rejects.toMatchObject({ name: 'UpstreamError', kind: 'limited' })
  const bug = pay(open(new TypeError('a bug')).budget, 1, payer)
  await expect(bug).rejects.toThrow(TypeError)
})

test('who asks as a start does hears the same of a full budget', async () => {
  const { budget } = open(new BudgetError('too much'))
  const node = { name: 'one', call: async () => 'asked all the same' } as unknown as Upstream
  const asking = paced(node, budget, { what: 'canonical', client: '' })
  const limited = { name: 'UpstreamError', kind: 'limited' }
  await expect(asking.call('eth_x', [])).rejects.toMatchObject(limited)
  await expect(asking.batch([{ method: 'eth_x', params: [] }])).rejects.toMatchObject(limited)
})

test.each([
  ['upstream', [[1, 'call', 'somebody']]],
  ['sequencer', [[1, 'send', 'somebody']]],
] as const)(
  'what goes to the %s is paid for, unless the sequencer is another node',
  async (to, wanted) => {
    const { budget, paid } = open()
    const node = (name: string) => ({ name, call: async () => name }) as unknown as Upstream
    const limits = DEFAULT_UPSTREAM_LIMITS
    const call: Forward = {
      ...{ type: 'forward', request: 1, method: 'eth_x', params: '[]', client: 'somebody', to },
    }
    const upstreams = () => [node('one')]
    const forward = createForwarder({ limits, sequencer: undefined, budget, upstreams })
    expect(await forward(call)).toEqual({ result: '"one"' })
    expect(paid).toEqual(wanted)
    const own = createForwarder({ limits, sequencer: node('own'), budget, upstreams })
    await own(call)
    expect(paid).toHaveLength(to === 'sequencer' ? 1 : 2)
  },
)

test('where too much waits, a forwarded call is refused with the time to wait', async () => {
  const { budget } = open(new BudgetError('too much'))
  const forward = createForwarder({
    ...{ limits: DEFAULT_UPSTREAM_LIMITS, sequencer: undefined, budget },
    upstreams: () => [{ name: 'one', call: async () => 'asked all the same' } as never],
  })
  const answer = await forward({
    ...{ type: 'forward', request: 1, method: 'eth_x', params: '[]', client: 'a', to: 'upstream' },
  })
  expect(answer).toMatchObject({ error: { code: -32005, data: { retryAfterMs: 1_000 } } })
})

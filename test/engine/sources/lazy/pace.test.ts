/** All requests to upstreams outside of the fetcher use its budget. */
import { expect, test } from 'vitest'
import { type Budget, BudgetError, type Payer } from '../../../../engine/sources/lazy/budget.ts'
import { paced, paceOf, pay } from '../../../../engine/sources/lazy/paced-upstream.ts'
import type { Upstream } from '../../../../engine/sources/upstream/client.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../../engine/sources/upstream/limits.ts'
import { createForwarder, type Forward } from '../../../../workers/follower/forward.ts'

function open(refused?: Error) {
  const charges: (readonly [number, Payer['what'], string])[] = []
  const budget: Budget = {
    batch: 45,
    async take(count, { what, client }) {
      if (refused !== undefined) throw refused
      charges.push([count, what, client])
    },
    waiting: () => 0,
    close() {},
  }
  return { budget, charges }
}

test('fetched blocks are charged as canonical, in parts of at most one batch', async () => {
  const { budget, charges } = open()
  await paceOf(budget).take(100, new AbortController().signal)
  expect(charges).toEqual([
    [45, 'canonical', ''],
    [45, 'canonical', ''],
    [10, 'canonical', ''],
  ])
})

test('a full budget is reported as a rate limit, and a bug stays a bug', async () => {
  const payer = { what: 'call', client: 'a' } as const
  const full = pay(open(new BudgetError('too much')).budget, 1, payer)
  await expect(full).rejects.toMatchObject({ name: 'UpstreamError', kind: 'limited' })
  const bug = pay(open(new TypeError('a bug')).budget, 1, payer)
  await expect(bug).rejects.toThrow(TypeError)
})

test('a paced upstream reports a full budget as a rate limit for calls and batches', async () => {
  const { budget } = open(new BudgetError('too much'))
  const node = { name: 'one', call: async () => 'asked all the same' } as unknown as Upstream
  const requester = paced(node, budget, { what: 'canonical', client: '' })
  const limited = { name: 'UpstreamError', kind: 'limited' }
  await expect(requester.call('eth_x', [])).rejects.toMatchObject(limited)
  await expect(requester.batch([{ method: 'eth_x', params: [] }])).rejects.toMatchObject(limited)
})

test.each([
  ['upstream', [[1, 'call', 'somebody']]],
  ['sequencer', [[1, 'send', 'somebody']]],
] as const)(
  'a call to the %s uses the budget, unless the sequencer is another node',
  async (to, wanted) => {
    const { budget, charges } = open()
    const node = (name: string) => ({ name, call: async () => name }) as unknown as Upstream
    const limits = DEFAULT_UPSTREAM_LIMITS
    const call: Forward = {
      type: 'forward',
      request: 1,
      method: 'eth_x',
      params: '[]',
      client: 'somebody',
      to,
    }
    const upstreams = () => [node('one')]
    const forward = createForwarder({ limits, sequencer: undefined, budget, upstreams })
    expect(await forward(call)).toEqual({ result: '"one"' })
    expect(charges).toEqual(wanted)
    const own = createForwarder({ limits, sequencer: node('own'), budget, upstreams })
    await own(call)
    expect(charges).toHaveLength(to === 'sequencer' ? 1 : 2)
  },
)

test('a forwarded call is refused with a retry time when too many requests wait', async () => {
  const { budget } = open(new BudgetError('too much'))
  const forward = createForwarder({
    limits: DEFAULT_UPSTREAM_LIMITS,
    sequencer: undefined,
    budget,
    upstreams: () => [{ name: 'one', call: async () => 'asked all the same' } as never],
  })
  const response = await forward({
    type: 'forward',
    request: 1,
    method: 'eth_x',
    params: '[]',
    client: 'a',
    to: 'upstream',
  })
  expect(response).toMatchObject({ error: { code: -32005, data: { retryAfterMs: 1_000 } } })
})

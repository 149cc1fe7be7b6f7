/** The budget of requests: its rate, its priorities, and its refusals. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Budget,
  BudgetError,
  createBudget,
  DEFAULT_BUDGET_LIMITS,
  type FetchFor,
} from '../../../../engine/sources/lazy/budget.ts'
import { handClock } from '../../../fixtures/hand-clock.ts'

const WHAT: readonly FetchFor[] = ['canonical', 'flashblock', 'send', 'call']

function open(limits = {}) {
  const clock = handClock()
  const budget = createBudget({ ...DEFAULT_BUDGET_LIMITS, ...limits }, clock)
  const gone: string[] = []
  const take = async (count: number, what: FetchFor, client = '', signal?: AbortSignal) => {
    try {
      await budget.take(count, { what, client, signal })
      gone.push(`${what}${client === '' ? '' : ` ${client}`}`)
    } catch (error) {
      gone.push(error instanceof BudgetError ? 'refused' : `${error}`)
    }
  }
  return { clock, budget, gone, take }
}

/** Takes everything that is available at once. */
const drain = (budget: Budget) => budget.take(45, { what: 'canonical', client: '' })

test('the budget grants half a second of requests at once and the rest at its rate', async () => {
  const { clock, gone, take } = open()
  for (let at = 0; at < 270; at++) void take(1, 'send', 'a')
  await clock.advance(0)
  expect(gone).toHaveLength(45)
  await clock.advance(1_000)
  expect(gone.length).toBeGreaterThanOrEqual(132)
  expect(gone.length).toBeLessThanOrEqual(136)
  await clock.advance(1_600)
  expect(gone).toHaveLength(270)
})

test('more urgent requests go first, whatever the order of arrival', async () => {
  const { clock, budget, gone, take } = open()
  await drain(budget)
  for (const what of [...WHAT].reverse()) void take(30, what)
  await clock.advance(4_000)
  expect(gone).toEqual(WHAT)
})

test('calls get a third of the budget, and other purposes get what calls do not use', async () => {
  const { clock, budget, gone, take } = open()
  await drain(budget)
  for (let at = 0; at < 300; at++) void take(1, 'call', 'a')
  await clock.advance(1_000)
  const first = gone.length
  await clock.advance(9_000)
  // The first client gets half a second's worth, then 30 a second.
  expect(first).toBeLessThanOrEqual(46)
  expect(gone.length).toBeGreaterThanOrEqual(290)
  void take(200, 'send')
  void take(1, 'send', 'b')
  await clock.advance(3_000)
  expect(gone.filter((one) => one.startsWith('send'))).toHaveLength(2)
})

test('clients take turns, however many requests one of them has', async () => {
  const { clock, budget, gone, take } = open()
  await drain(budget)
  for (let at = 0; at < 50; at++) void take(10, 'send', 'many')
  for (const client of ['b', 'c', 'd']) void take(10, 'send', client)
  await clock.advance(700)
  expect(gone.slice(0, 4)).toEqual(['send many', 'send b', 'send c', 'send d'])
})

describe('a request is refused', () => {
  test('above the waiting limit of its client or of all clients', async () => {
    const { clock, budget, gone, take } = open({ fetchWaiting: 100, fetchWaitingPerClient: 60 })
    await drain(budget)
    void take(50, 'send', 'a')
    void take(50, 'send', 'a')
    void take(60, 'send', 'b')
    void take(50, 'send', 'b')
    await clock.advance(0)
    expect(gone).toEqual(['refused', 'refused'])
    // A more urgent purpose has its own queue.
    void take(50, 'canonical')
    await clock.advance(2_000)
    expect(gone).toEqual(['refused', 'refused', 'canonical', 'send a', 'send b'])
  })

  test('when its caller aborts, before or while it waits', async () => {
    const { clock, budget, gone, take } = open()
    await drain(budget)
    const controller = new AbortController()
    void take(10, 'send', 'a', controller.signal)
    void take(10, 'send', 'b')
    controller.abort('over')
    void take(10, 'send', 'a', controller.signal)
    await clock.advance(1_000)
    expect(gone).toEqual(['over', 'over', 'send b'])
    expect(budget.waiting('send')).toBe(0)
  })

  test('when the budget is closed, whether it waits or is new', async () => {
    const { clock, budget, gone, take } = open()
    await drain(budget)
    void take(1, 'call')
    budget.close()
    void take(1, 'canonical')
    await clock.advance(5_000)
    expect(gone).toEqual(['refused', 'refused'])
  })
})

test('in any history no second exceeds its limit and every request is granted', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          afterMs: fc.nat(400),
          count: fc.integer({ min: 1, max: 40 }),
          what: fc.constantFrom(...WHAT),
          client: fc.constantFrom('a', 'b', 'c'),
        }),
        { maxLength: 40 },
      ),
      async (takes) => {
        const { clock, budget } = open()
        const sent: { readonly at: number; readonly count: number; readonly what: FetchFor }[] = []
        for (const { afterMs, count, what, client } of takes) {
          await clock.advance(afterMs)
          void budget
            .take(count, { what, client })
            .then(() => sent.push({ at: clock.now(), count, what }))
        }
        await clock.advance(60_000)
        expect(sent).toHaveLength(takes.length)
        for (const { at } of sent)
          for (const [isCounted, max] of [
            [() => true, 90 + 45 + 40],
            [(what: FetchFor) => what === 'call', 30 + 15 + 40],
          ] as const) {
            const within = sent.filter((one) => one.at >= at && one.at < at + 1_000)
            const sum = within.reduce((sum, one) => sum + (isCounted(one.what) ? one.count : 0), 0)
            expect(sum).toBeLessThanOrEqual(max)
          }
      },
    ),
    { numRuns: 40 },
  )
})

/** The pace allows this many calls a second, in the order of the requests. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createPace } from '../../../engine/sources/upstream/call-rate.ts'

/** Makes a clock that moves to the next timer when all other work is done. */
function open(perSecond: number) {
  const clock = { ms: 0 }
  let timers: { readonly atMs: number; readonly run: () => void }[] = []
  const pace = createPace(perSecond, {
    now: () => clock.ms,
    after(ms, run) {
      const timer = { atMs: clock.ms + ms, run }
      timers.push(timer)
      return () => {
        timers = timers.filter((one) => one !== timer)
      }
    },
  })
  const settle = async () => {
    for (let turn = 0; turn < 400; turn++) await Promise.resolve()
  }
  async function run(): Promise<void> {
    for (await settle(); timers.length > 0; await settle()) {
      const next = timers.toSorted((a, b) => a.atMs - b.atMs)[0]!
      timers = timers.filter((one) => one !== next)
      clock.ms = Math.max(clock.ms, next.atMs)
      next.run()
    }
  }
  return { pace, clock, run, settle, timers: () => timers.length }
}
const never = new AbortController().signal

test('calls leave in order, at the rate and with a burst of at most one second', () =>
  fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 100 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 }),
      async (rate, requested) => {
        const { pace, clock, run } = open(rate)
        const left: { readonly atMs: number; readonly at: number }[] = []
        const all = requested.map((calls, at) =>
          pace.take(calls, never).then(() => void left.push({ atMs: clock.ms, at })),
        )
        await run()
        await Promise.all(all)
        expect(left.map(({ at }) => at)).toEqual(requested.keys().toArray())
        let calls = 0
        for (const { atMs, at } of left) {
          // The calls of one message may exceed a second's worth.
          expect(calls).toBeLessThanOrEqual(rate + (atMs / 1_000) * rate + 1e-6)
          calls += requested[at]!
        }
        const total = requested.reduce((sum, one) => sum + one, 0)
        // The pace is not slower than the rate either.
        expect(clock.ms).toBeLessThanOrEqual((total / rate) * 1_000 + 10 * requested.length)
      },
    ),
  ))

test('an aborted call leaves the queue without a trace', async () => {
  const { pace, run, settle, timers } = open(10)
  await pace.take(10, never)
  const gone = new AbortController()
  const waits = pace.take(5, gone.signal).catch((error: Error) => error.message)
  let isDone = false
  const next = pace.take(1, never).then(() => {
    isDone = true
  })
  await settle()
  expect(isDone).toBe(false)
  gone.abort(new Error('gone'))
  expect(await waits).toBe('gone')
  await run()
  await next
  expect(timers()).toBe(0)
})

test('a pace of 0 does not limit', async () => {
  const { pace, clock } = open(0)
  for (let at = 0; at < 1_000; at++) await pace.take(100, never)
  expect(clock.ms).toBe(0)
})

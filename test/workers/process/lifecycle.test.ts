/** A node stops all its parts by one deadline, on a clock that the test moves. */
import { describe, expect, test } from 'vitest'
import { createLifecycle, STOP_MS, type StopOptions } from '../../../workers/process/lifecycle.ts'
import { handClock } from '../../fixtures/hand-clock.ts'

function world() {
  const hand = handClock()
  const problems: string[] = []
  const waits: string[] = []
  const lifecycle = createLifecycle({
    onProblem: (part) => void problems.push(part),
    onWait: (what, leftMs) => void waits.push(`${what} (${leftMs})`),
    clock: { now: hand.now, later: hand.after },
  })
  const given = new Map<string, number>()
  return {
    hand,
    lifecycle,
    problems,
    waits,
    given,
    /** Adds a part that takes this long; undefined: for ever. */
    part(name: string, ms: number | undefined, options: StopOptions = {}) {
      const run = (withinMs: number) => {
        given.set(name, withinMs)
        return new Promise<void>((resolve) => {
          if (ms !== undefined) hand.after(ms, resolve)
        })
      }
      lifecycle.onStop(name, run, options)
    },
    async stopped(): Promise<number> {
      const from = hand.now()
      let at: number | undefined
      void lifecycle.stop().then(() => {
        at = hand.now()
      })
      for (let step = 0; at === undefined && step < 100_000; step++) await hand.advance(10)
      return at! - from
    },
  }
}

/** `dev` and `follow` open the parts in this order, and close the last one first. */
const NODE: [part: string, minMs: number][] = [
  ['the data directory', 0],
  ['the database', 200],
  ['the journal of transactions', 0],
  ['the record', 700],
  ['the persistence thread', 700],
  ['the writer', 300],
  ['the follower', 300],
  ['the feeds', 300],
  ['the leaders', 200],
  ['the pool', 300],
  ['the server', 1_300],
  ['the admin server', 0],
]

describe('a stop', () => {
  test('takes at most eight seconds, whichever parts hang', async () => {
    for (const hanging of [1, 2, 3, 5, 7, 11, 12]) {
      const { part, stopped, given, problems } = world()
      for (const [at, [name, minMs]] of NODE.entries())
        part(name, at % hanging === 0 ? undefined : 30, { minMs })
      part('the requests in flight', undefined)
      expect(await stopped()).toBeLessThanOrEqual(STOP_MS)
      expect(problems).toContain('the requests in flight')
      for (const [name, minMs] of NODE)
        expect(given.get(name)).toBeGreaterThanOrEqual(Math.max(0, minMs - 100))
    }
  })
  test('gives a part the time that earlier parts did not use', async () => {
    const { part, stopped, given, problems } = world()
    part('the persistence thread', 6_500, { minMs: 700 })
    part('the server', 200, { minMs: 700 })
    part('the requests in flight', 100)
    expect(await stopped()).toBe(6_800)
    expect(problems).toEqual([])
    expect(given.get('the requests in flight')).toBe(STOP_MS - 1_400 - 100)
    expect(given.get('the persistence thread')).toBe(STOP_MS - 300 - 100)
  })
  test('starts its deadline after the wait that the operator configured', async () => {
    const { part, stopped } = world()
    part('the persistence thread', undefined, { minMs: 700 })
    part('the requests in flight', undefined, { extraMs: 20_000 })
    expect(await stopped()).toBe(20_000 + STOP_MS)
  })
  test('reports each second what it waits for', async () => {
    const { part, stopped, waits, hand } = world()
    part('the persistence thread', 1_500, { minMs: 700 })
    const since = hand.now()
    part('the requests in flight', 2_500, { about: () => `${hand.now() - since} so far` })
    expect(await stopped()).toBe(4_000)
    expect(waits).toEqual([
      'the requests in flight: 1000 so far (6300)',
      'the requests in flight: 2000 so far (5300)',
      'the persistence thread (4500)',
    ])
  })
})

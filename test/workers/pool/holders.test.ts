/**
 * The choice of a worker for a trace is compared with a model. Its workers cache executions of the
 * newest blocks.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MAX_REPLAYS } from '../../../engine/execution/call/max-replays.ts'
import { createHolders } from '../../../workers/pool/holders.ts'

const THREADS = [1, 2, 3, 4]
type Event = { readonly free: readonly number[]; readonly block: number; readonly ended: boolean }
const events: fc.Arbitrary<Event[]> = fc.array(
  fc.record({
    free: fc.subarray(THREADS, { minLength: 1 }),
    block: fc.nat({ max: 12 }),
    ended: fc.boolean(),
  }),
  { maxLength: 60 },
)

test('a trace gets a free worker that has its block, or any other free worker', () => {
  fc.assert(
    fc.property(events, (all) => {
      const holders = createHolders()
      /** The blocks of each worker, the newest first. */
      const kept = new Map<number, readonly number[]>()
      let hits = 0
      for (const [turn, { free, block, ended }] of all.entries()) {
        const having = free.filter((thread) => kept.get(thread)?.includes(block))
        const thread = holders.choose(free, `${block}`)
        expect(having.length === 0 ? free : having).toContain(thread)
        if (having.length > 0) hits++
        const others = (kept.get(thread) ?? []).filter((one) => one !== block)
        kept.set(thread, [block, ...others].slice(0, MAX_REPLAYS))
        if (ended && turn % 5 === 0) {
          holders.forget(thread)
          kept.delete(thread)
        }
      }
      expect(holders.counts).toEqual({ kept: hits, begun: all.length - hits })
    }),
  )
})

test('blocks stay at their workers while all workers together can cache them', () => {
  const holders = createHolders()
  const blocks = THREADS.length * MAX_REPLAYS
  for (let at = 0; at < 200; at++)
    for (let block = 0; block < blocks; block++) holders.choose(THREADS, `${block}`)
  expect(holders.counts).toEqual({ kept: 199 * blocks, begun: blocks })
})

test('a further block replaces the one that was requested least recently', () => {
  const holders = createHolders()
  const at = (block: string) => holders.choose([1, 2], block)
  const first = ['a', 'b', 'c', 'd'].map(at)
  expect([at('a'), at('c'), at('d')]).toEqual([first[0], first[2], first[3]])
  expect(at('e')).toBe(first[1])
  expect(holders.counts).toEqual({ kept: 3, begun: 5 })
})

test('a block of two workers goes to the one that had it last', () => {
  const holders = createHolders()
  expect([holders.choose([1], 'a'), holders.choose([2], 'a')]).toEqual([1, 2])
  expect(holders.choose([1, 2], 'a')).toBe(2)
  holders.forget(2)
  expect(holders.choose([1, 2], 'a')).toBe(1)
})

/**
 * Sockets have a limited number of entries. The evicted one is the oldest idle socket of the
 * address with the most.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Activity,
  createSocketRegistry,
  type SocketEntry,
} from '../../../rpc/http/socket-registry.ts'
import {
  createConcurrencyMemory,
  type OpenConcurrencyLimit,
  openSharedConcurrencyLimits,
} from '../../../rpc/limiter/shared-concurrency-limits.ts'

const oneFrontThread = () =>
  openSharedConcurrencyLimits(createConcurrencyMemory({ rows: 20, frontThreads: 1 }), 0)

describe.each<[string, () => OpenConcurrencyLimit | undefined]>([
  ['without shared limits', () => undefined],
  ['with shared limits and one front thread', oneFrontThread],
])('an entry of the socket registry (%s)', (_name, concurrencyLimitsOf) => {
  /**
   * Each letter is a new socket of an address. Upper case: it stays idle, lower case: it is busy at
   * once.
   */
  const cases: [name: string, perKey: number, total: number, come: string, end: string][] = [
    ['is refused to the third socket of an address', 2, 9, 'aaab', 'aab'],
    ['is never refused without a limit', 0, 9, 'aaab', 'aaab'],
    [
      'is taken from the oldest idle socket of the address with the most sockets',
      9,
      4,
      'BAAAC',
      'BAAC',
    ],
    ['is not taken from an address whose sockets are all busy', 9, 4, 'aaaBC', 'aaaC'],
    ['is refused when all sockets are busy', 9, 3, 'abcD', 'abc'],
    ['is taken from the address of the new socket', 9, 3, 'AABA', 'ABA'],
    ['is taken again for each new socket', 9, 2, 'ABCDE', 'DE'],
  ]
  test.each(cases)('%s', (_, perKey, total, come, end) => {
    const registry = createSocketRegistry<string>({
      perKey,
      total,
      concurrencyLimits: concurrencyLimitsOf(),
    })
    let open: SocketEntry<string>[] = []
    for (const letter of come) {
      const entered = registry.enter(letter.toLowerCase(), letter)
      if (entered === undefined) continue
      if (letter !== letter.toUpperCase()) registry.set(entered.entry, 'busy')
      open = [...open.filter(({ isTaken }) => isTaken), entered.entry]
    }
    expect(open.map(({ item }) => item).join('')).toBe(end)
    expect(registry.size).toBe(end.length)
  })

  test('of a proxy counts only in the total, and is never evicted', () => {
    const registry = createSocketRegistry<number>({
      perKey: 1,
      total: 3,
      concurrencyLimits: concurrencyLimitsOf(),
    })
    for (let at = 0; at < 3; at++) expect(registry.enter(undefined, at)?.evicted).toBe(undefined)
    expect(registry.enter('a', 3)).toBe(undefined)
    expect(registry.enter(undefined, 4)).toBe(undefined)
  })
})

describe('front threads with shared limits', () => {
  const memory = createConcurrencyMemory({ rows: 20, frontThreads: 2 })
  const open = () =>
    [0, 1].map((frontThread) =>
      createSocketRegistry<string>({
        perKey: 2,
        total: 3,
        concurrencyLimits: openSharedConcurrencyLimits(memory, frontThread),
      }),
    )

  test('share the limit of an address, and each has its own total', () => {
    const [one, other] = open()
    const first = one!.enter('a', 'a1')!.entry
    const second = other!.enter('a', 'a2')!.entry
    expect([one, other].map((registry) => registry!.isFull('a'))).toEqual([true, true])
    expect([one, other].map((registry) => registry!.enter('a', 'a3'))).toEqual([
      undefined,
      undefined,
    ])
    // An entry is freed on the front thread itself, never on another one.
    for (const key of ['b', 'c']) other!.enter(key, key)
    expect(other!.enter('d', 'd')?.evicted).toBe('a2')
    expect([one!.size, other!.size, second.isTaken]).toEqual([1, 3, false])
    expect(one!.isFull('a')).toBe(false)
    one!.leave(first)
    one!.leave(first)
    for (const registry of [one, other]) expect(registry!.enter('a', 'a')).toBeTypeOf('object')
    expect(one!.enter('a', 'a')).toBe(undefined)
  })

  test('do not count a socket that was refused', () => {
    const [one, other] = open()
    for (const key of ['e', 'f', 'g']) one!.set(one!.enter(key, key)!.entry, 'busy')
    expect(one!.enter('h', 'h')).toBe(undefined)
    for (let n = 0; n < 2; n++) expect(other!.enter('h', 'h')).toBeTypeOf('object')
  })
})

type Step =
  | { readonly enter: string | undefined }
  | { readonly at: number; readonly activity: Activity }
  | { readonly leave: number }
const stepOf: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ enter: fc.constantFrom('a', 'b', 'c', 'd', undefined) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      at: fc.nat(),
      activity: fc.constantFrom<Activity[]>('idle', 'arriving', 'busy'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ leave: fc.nat() }) },
)

/** The model applies the same rules to a plain list, in the order of the sockets' activity. */
type Known = { readonly key: string | undefined; readonly item: number; activity: Activity }
function expectedEviction(known: readonly Known[]): readonly number[] {
  const count = (key: string | undefined) => known.filter((one) => one.key === key).length
  const losing = known.filter(({ key, activity }) => key !== undefined && activity !== 'busy')
  const max = Math.max(...losing.map(({ key }) => count(key)))
  const keys = new Set(losing.filter(({ key }) => count(key) === max).map(({ key }) => key))
  return [...keys].map((key) => {
    const own = losing.filter((one) => one.key === key)
    return (own.find(({ activity }) => activity === 'idle') ?? own[0]!).item
  })
}

test('any sequence of events stays within the limits', () => {
  fc.assert(
    fc.property(
      fc.array(stepOf, { maxLength: 200 }),
      fc.nat(5),
      fc.boolean(),
      (steps, perKey, isShared) => {
        const total = 10
        const concurrencyLimits = isShared ? oneFrontThread() : undefined
        const registry = createSocketRegistry<number>({ perKey, total, concurrencyLimits })
        const entriesByItem = new Map<number, SocketEntry<number>>()
        let known: Known[] = []
        let next = 0
        const pick = (at: number) => known[at % Math.max(1, known.length)]
        for (const step of steps) {
          if ('enter' in step) {
            const key = step.enter
            const item = next++
            const own = known.filter((one) => one.key === key).length
            const isRefused = key !== undefined && perKey > 0 && own >= perKey
            const evictions = known.length < total ? [] : expectedEviction(known)
            const entered = registry.enter(key, item)
            expect(entered === undefined).toBe(
              isRefused || (known.length >= total && evictions.length === 0),
            )
            if (entered === undefined) continue
            if (known.length < total) expect(entered.evicted).toBe(undefined)
            else expect(evictions).toContain(entered.evicted)
            known = known.filter((one) => one.item !== entered.evicted)
            known.push({ key, item, activity: 'idle' })
            entriesByItem.set(item, entered.entry)
          } else if ('activity' in step) {
            const one = pick(step.at)
            if (one === undefined) continue
            registry.set(entriesByItem.get(one.item)!, step.activity)
            if (one.activity === step.activity) continue
            one.activity = step.activity
            known = [...known.filter((other) => other !== one), one]
          } else {
            const one = pick(step.leave)
            if (one === undefined) continue
            registry.leave(entriesByItem.get(one.item)!)
            registry.leave(entriesByItem.get(one.item)!)
            known = known.filter((other) => other !== one)
          }
          expect(registry.size).toBe(known.length)
          expect(known.length).toBeLessThanOrEqual(total)
        }
      },
    ),
    { numRuns: 500 },
  )
})

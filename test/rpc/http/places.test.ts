/** Places for sockets: nobody passes a bound, and the one that goes is the oldest idle one of the address with the most. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Activity, createPlaces, type Place } from '../../../rpc/http/places.ts'
import { createCapsMemory, type OpenCaps, openSharedCaps } from '../../../rpc/seam/shared-caps.ts'

const oneCell = () => openSharedCaps(createCapsMemory({ rows: 20, cells: 1 }), 0)

describe.each<[string, () => OpenCaps | undefined]>([
  ['a place', () => undefined],
  ['a place of the only cell', oneCell],
])('%s', (_name, capsOf) => {
  /** Each letter is an address that comes; upper case: the newcomer stays idle, lower case: it is busy at once. */
  const cases: [name: string, perKey: number, total: number, come: string, end: string][] = [
    ['is refused to the third of an address', 2, 9, 'aaab', 'aab'],
    ['is refused to nobody without a bound', 0, 9, 'aaab', 'aaab'],
    ['is taken from the oldest of the most', 9, 4, 'BAAAC', 'BAAC'],
    ['is not taken from who has more, all of them busy', 9, 4, 'aaaBC', 'aaaC'],
    ['is refused when all are busy', 9, 3, 'abcD', 'abc'],
    ['is taken from the own address', 9, 3, 'AABA', 'ABA'],
    ['is taken again and again', 9, 2, 'ABCDE', 'DE'],
  ]
  test.each(cases)('%s', (_, perKey, total, come, end) => {
    const places = createPlaces<string>({ perKey, total, caps: capsOf() })
    let open: Place<string>[] = []
    for (const letter of come) {
      const entered = places.enter(letter.toLowerCase(), letter)
      if (entered === undefined) continue
      if (letter !== letter.toUpperCase()) places.set(entered.place, 'busy')
      open = [...open.filter(({ isTaken }) => isTaken), entered.place]
    }
    expect(open.map(({ item }) => item).join('')).toBe(end)
    expect(places.size).toBe(end.length)
  })

  test('of a proxy counts in the sum only, and is never taken away', () => {
    const places = createPlaces<number>({ perKey: 1, total: 3, caps: capsOf() })
    for (let at = 0; at < 3; at++) expect(places.enter(undefined, at)?.evicted).toBe(undefined)
    expect(places.enter('a', 3)).toBe(undefined)
    expect(places.enter(undefined, 4)).toBe(undefined)
  })
})

describe('over cells', () => {
  const memory = createCapsMemory({ rows: 20, cells: 2 })
  const open = () =>
    [0, 1].map((cell) =>
      createPlaces<string>({ perKey: 2, total: 3, caps: openSharedCaps(memory, cell) }),
    )

  test('an address has its places together, and each cell its own in all', () => {
    const [one, other] = open()
    const first = one!.enter('a', 'a1')!.place
    const second = other!.enter('a', 'a2')!.place
    expect([one, other].map((places) => places!.isFull('a'))).toEqual([true, true])
    expect([one, other].map((places) => places!.enter('a', 'a3'))).toEqual([undefined, undefined])
    // A place is made of the cell's own: nobody loses one elsewhere.
    for (const key of ['b', 'c']) other!.enter(key, key)
    expect(other!.enter('d', 'd')?.evicted).toBe('a2')
    expect([one!.size, other!.size, second.isTaken]).toEqual([1, 3, false])
    expect(one!.isFull('a')).toBe(false)
    one!.leave(first)
    one!.leave(first)
    for (const places of [one, other]) expect(places!.enter('a', 'a')).toBeTypeOf('object')
    expect(one!.enter('a', 'a')).toBe(undefined)
  })

  test('who finds no place has taken none', () => {
    const [one, other] = open()
    for (const key of ['e', 'f', 'g']) one!.set(one!.enter(key, key)!.place, 'busy')
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

/** The same rules over a plain list, in the order in which they came into their activity. */
type Known = { readonly key: string | undefined; readonly item: number; activity: Activity }
function expectedEviction(known: readonly Known[]): readonly number[] {
  const count = (key: string | undefined) => known.filter((one) => one.key === key).length
  const losing = known.filter(({ key, activity }) => key !== undefined && activity !== 'busy')
  const most = Math.max(...losing.map(({ key }) => count(key)))
  const keys = new Set(losing.filter(({ key }) => count(key) === most).map(({ key }) => key))
  return [...keys].map((key) => {
    const own = losing.filter((one) => one.key === key)
    return (own.find(({ activity }) => activity === 'idle') ?? own[0]!).item
  })
}

test('all sequences keep the bounds', () => {
  fc.assert(
    fc.property(
      fc.array(stepOf, { maxLength: 200 }),
      fc.nat(5),
      fc.boolean(),
      (steps, perKey, isShared) => {
        const total = 10
        const caps = isShared ? oneCell() : undefined
        const places = createPlaces<number>({ perKey, total, caps })
        const placed = new Map<number, Place<number>>()
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
            const entered = places.enter(key, item)
            expect(entered === undefined).toBe(
              isRefused || (known.length >= total && evictions.length === 0),
            )
            if (entered === undefined) continue
            if (known.length < total) expect(entered.evicted).toBe(undefined)
            else expect(evictions).toContain(entered.evicted)
            known = known.filter((one) => one.item !== entered.evicted)
            known.push({ key, item, activity: 'idle' })
            placed.set(item, entered.place)
          } else if ('activity' in step) {
            const one = pick(step.at)
            if (one === undefined) continue
            places.set(placed.get(one.item)!, step.activity)
            if (one.activity === step.activity) continue
            one.activity = step.activity
            known = [...known.filter((other) => other !== one), one]
          } else {
            const one = pick(step.leave)
            if (one === undefined) continue
            places.leave(placed.get(one.item)!)
            places.leave(placed.get(one.item)!)
            known = known.filter((other) => other !== one)
          }
          expect(places.size).toBe(known.length)
          expect(known.length).toBeLessThanOrEqual(total)
        }
      },
    ),
    { numRuns: 500 },
  )
})

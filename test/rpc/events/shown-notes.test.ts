import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { clearShown, createShownMemory, openSharedShown } from '../../../rpc/events/shared-shown.ts'
import {
  createShownNotes,
  type ShownLimits,
  type ShownNotes,
} from '../../../rpc/events/shown-notes.ts'

const account = (byte: number) => byte.toString(16).padStart(2, '0').repeat(20)
const set = (...bytes: number[]) => new Set(bytes.map(account))
const ROOMY: ShownLimits = { shownClients: 100, shownAddresses: 64 }
const shared = (limits: ShownLimits) => openSharedShown(createShownMemory(limits), 1)

describe.each([
  { name: 'of one front', open: createShownNotes },
  { name: 'shared', open: shared },
])('what clients were shown, $name', ({ open }) => {
  test('the newest block, and that of each account', () => {
    const notes = open(ROOMY)
    expect([notes.isEmpty, notes.height('a')]).toEqual([true, undefined])
    notes.note('a', 7n, set(1, 2))
    notes.note('a', 5n, set(3))
    notes.note('b', 9n, set(1))
    expect([notes.height('a'), notes.height('b'), notes.height('c')]).toEqual([7n, 9n, undefined])
    expect(notes.named('a', `["0x${account(3)}"]`)).toBe(5n)
    expect(notes.named('a', `["0x${account(3)}","0x${account(2)}"]`)).toBe(7n)
    expect(notes.named('a', `["0x${account(9)}"]`)).toBe(0n)
    expect(notes.named('c', account(1))).toBe(0n)
    notes.note('a', 8n, set(3))
    expect(notes.named('a', account(3))).toBe(8n)
  })

  test('heights of any chain', () => {
    const notes = open(ROOMY)
    const height = (1n << 53n) - 1n
    notes.note('a', height, set(255))
    expect([notes.height('a'), notes.named('a', account(255))]).toEqual([height, height])
  })

  test('accounts beyond those of one client: the first are forgotten', () => {
    const notes = open({ shownClients: 4, shownAddresses: 2 })
    for (const byte of [1, 2, 3]) notes.note('a', BigInt(byte), set(byte))
    expect([1, 2, 3].map((byte) => notes.named('a', account(byte)))).toEqual([0n, 2n, 3n])
  })

  test('clients beyond those that there is room for are not known, until there is', () => {
    const notes = open({ shownClients: 2, shownAddresses: 4 })
    notes.note('a', 5n, set(1))
    notes.note('b', 6n, set(1))
    notes.note('c', 7n, set(1))
    expect(notes.height('c')).toBeUndefined()
    notes.forget(5n)
    expect([notes.height('a'), notes.height('b')]).toEqual([undefined, 6n])
    notes.note('c', 7n, set(2))
    expect([notes.height('b'), notes.height('c')]).toEqual([6n, 7n])
    expect(notes.named('c', account(1))).toBe(0n)
  })
})

type Step =
  | { readonly note: string; readonly height: bigint; readonly accounts: number[] }
  | { readonly forget: bigint }
const clients = ['a', 'b', 'c', 'd', 'e']
const steps = fc.array(
  fc.oneof(
    fc.record({
      note: fc.constantFrom(...clients),
      height: fc.bigInt(1n, 30n),
      accounts: fc.array(fc.integer({ min: 0, max: 8 }), { maxLength: 4 }),
    }),
    fc.record({ forget: fc.bigInt(0n, 30n) }),
  ),
  { maxLength: 60 },
)
const apply = (notes: ShownNotes, step: Step) =>
  'forget' in step
    ? notes.forget(step.forget)
    : notes.note(step.note, step.height, set(...step.accounts))
const above = (height: bigint, canonical: bigint) => (height > canonical ? height : 0n)
/** Nobody waits for what is canonical. */
const seen = (notes: ShownNotes, canonical: bigint) =>
  clients.map((client) => [
    notes.height(client),
    ...(notes.height(client) === undefined
      ? []
      : Array.from({ length: 9 }, (_, byte) =>
          above(notes.named(client, account(byte)), canonical),
        )),
  ])

test('with room for all, fronts that share them say what one says', () => {
  fc.assert(
    fc.property(steps, fc.array(fc.integer({ min: 0, max: 2 })), (all, fronts) => {
      const memory = createShownMemory(ROOMY)
      const own = createShownNotes(ROOMY)
      const several = [1, 2, 3].map((thread) => openSharedShown(memory, thread))
      // Heights that are canonical do not go back.
      let canonical = 0n
      for (const [at, step] of all.entries()) {
        if ('forget' in step) {
          if (step.forget < canonical) continue
          canonical = step.forget
          for (const notes of several) apply(notes, step)
        } else {
          // Nobody is shown a receipt above latest of a block that is canonical.
          if (step.height <= canonical) continue
          apply(several[fronts[at] ?? 0]!, step)
        }
        apply(own, step)
        for (const notes of several) expect(seen(notes, canonical)).toEqual(seen(own, canonical))
      }
    }),
  )
})

test('of a thread that ended while it worked on them all are forgotten, and the others go on', () => {
  const memory = createShownMemory(ROOMY)
  const [first, second] = [1, 2].map((thread) => openSharedShown(memory, thread))
  first!.note('a', 5n, set(1))
  expect(clearShown(memory, 1)).toBe(false)
  expect(second!.height('a')).toBe(5n)
  // As the first word says it: thread 1 has the lock.
  Atomics.store(new Int32Array(memory.buffer), 0, 2)
  expect(clearShown(memory, 1)).toBe(true)
  expect(second!.height('a')).toBeUndefined()
  second!.note('b', 6n, set(2))
  expect(second!.named('b', bytesToHex(new Uint8Array(20).fill(2)))).toBe(6n)
})

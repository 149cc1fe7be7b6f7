import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import {
  createSeenAccounts,
  type SeenAccounts,
  type SeenLimits,
} from '../../../rpc/events/seen-accounts.ts'
import { clearSeen, createSeenMemory, openSharedSeen } from '../../../rpc/events/shared-seen.ts'

const account = (byte: number) => byte.toString(16).padStart(2, '0').repeat(20)
const set = (...bytes: number[]) => new Set(bytes.map(account))
const ROOMY: SeenLimits = { shownClients: 100, shownAddresses: 64 }
const shared = (limits: SeenLimits) => openSharedSeen(createSeenMemory(limits), 1)

describe.each([
  { name: 'of a single front', open: createSeenAccounts },
  { name: 'shared by fronts', open: shared },
])('the memory of blocks that clients have seen, $name', ({ open }) => {
  test('has the newest block for each client, and for each account', () => {
    const seenAccounts = open(ROOMY)
    expect([seenAccounts.isEmpty, seenAccounts.height('a')]).toEqual([true, undefined])
    seenAccounts.record('a', 7n, set(1, 2))
    seenAccounts.record('a', 5n, set(3))
    seenAccounts.record('b', 9n, set(1))
    expect([seenAccounts.height('a'), seenAccounts.height('b'), seenAccounts.height('c')]).toEqual([
      7n,
      9n,
      undefined,
    ])
    expect(seenAccounts.named('a', `["0x${account(3)}"]`)).toBe(5n)
    expect(seenAccounts.named('a', `["0x${account(3)}","0x${account(2)}"]`)).toBe(7n)
    expect(seenAccounts.named('a', `["0x${account(9)}"]`)).toBe(0n)
    expect(seenAccounts.named('c', account(1))).toBe(0n)
    seenAccounts.record('a', 8n, set(3))
    expect(seenAccounts.named('a', account(3))).toBe(8n)
  })

  test('takes the largest block number of any chain', () => {
    const seenAccounts = open(ROOMY)
    const height = (1n << 53n) - 1n
    seenAccounts.record('a', height, set(255))
    expect([seenAccounts.height('a'), seenAccounts.named('a', account(255))]).toEqual([
      height,
      height,
    ])
  })

  test('drops the oldest accounts of a client above the limit', () => {
    const seenAccounts = open({ shownClients: 4, shownAddresses: 2 })
    for (const byte of [1, 2, 3]) seenAccounts.record('a', BigInt(byte), set(byte))
    expect([1, 2, 3].map((byte) => seenAccounts.named('a', account(byte)))).toEqual([0n, 2n, 3n])
  })

  test('ignores clients above the limit until others are forgotten', () => {
    const seenAccounts = open({ shownClients: 2, shownAddresses: 4 })
    seenAccounts.record('a', 5n, set(1))
    seenAccounts.record('b', 6n, set(1))
    seenAccounts.record('c', 7n, set(1))
    expect(seenAccounts.height('c')).toBeUndefined()
    seenAccounts.forget(5n)
    expect([seenAccounts.height('a'), seenAccounts.height('b')]).toEqual([undefined, 6n])
    seenAccounts.record('c', 7n, set(2))
    expect([seenAccounts.height('b'), seenAccounts.height('c')]).toEqual([6n, 7n])
    expect(seenAccounts.named('c', account(1))).toBe(0n)
  })
})

type Step =
  | { readonly record: string; readonly height: bigint; readonly accounts: number[] }
  | { readonly forget: bigint }
const clients = ['a', 'b', 'c', 'd', 'e']
const steps = fc.array(
  fc.oneof(
    fc.record({
      record: fc.constantFrom(...clients),
      height: fc.bigInt(1n, 30n),
      accounts: fc.array(fc.integer({ min: 0, max: 8 }), { maxLength: 4 }),
    }),
    fc.record({ forget: fc.bigInt(0n, 30n) }),
  ),
  { maxLength: 60 },
)
const apply = (seenAccounts: SeenAccounts, step: Step) =>
  'forget' in step
    ? seenAccounts.forget(step.forget)
    : seenAccounts.record(step.record, step.height, set(...step.accounts))
const above = (height: bigint, canonical: bigint) => (height > canonical ? height : 0n)
/** A canonical height needs no wait. */
const seen = (seenAccounts: SeenAccounts, canonical: bigint) =>
  clients.map((client) => [
    seenAccounts.height(client),
    ...(seenAccounts.height(client) === undefined
      ? []
      : Array.from({ length: 9 }, (_, byte) =>
          above(seenAccounts.named(client, account(byte)), canonical),
        )),
  ])

test('front threads that share the memory answer like a single one', () => {
  fc.assert(
    fc.property(steps, fc.array(fc.integer({ min: 0, max: 2 })), (all, fronts) => {
      const memory = createSeenMemory(ROOMY)
      const own = createSeenAccounts(ROOMY)
      const several = [1, 2, 3].map((thread) => openSharedSeen(memory, thread))
      // Canonical heights do not go back.
      let canonical = 0n
      for (const [at, step] of all.entries()) {
        if ('forget' in step) {
          if (step.forget < canonical) continue
          canonical = step.forget
          for (const seenAccounts of several) apply(seenAccounts, step)
        } else {
          // No receipt above latest belongs to a canonical block.
          if (step.height <= canonical) continue
          apply(several[fronts[at] ?? 0]!, step)
        }
        apply(own, step)
        for (const seenAccounts of several)
          expect(seen(seenAccounts, canonical)).toEqual(seen(own, canonical))
      }
    }),
  )
})

test('a thread that ends inside the lock clears the memory, and others go on', () => {
  const memory = createSeenMemory(ROOMY)
  const [first, second] = [1, 2].map((thread) => openSharedSeen(memory, thread))
  first!.record('a', 5n, set(1))
  expect(clearSeen(memory, 1)).toBe(false)
  expect(second!.height('a')).toBe(5n)
  // The first word says that thread 1 has the lock.
  Atomics.store(new Int32Array(memory.buffer), 0, 2)
  expect(clearSeen(memory, 1)).toBe(true)
  expect(second!.height('a')).toBeUndefined()
  second!.record('b', 6n, set(2))
  expect(second!.named('b', bytesToHex(new Uint8Array(20).fill(2)))).toBe(6n)
})

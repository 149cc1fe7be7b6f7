import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeAccount, encodeAccount } from '../../../engine/state/account-codec.ts'
import type { AccountState, StateDiff } from '../../../engine/state/diff.ts'
import { decodeDiff, encodeDiff } from '../../../engine/state/diff-codec.ts'
import { DiffError } from '../../../engine/state/encoded-diff.ts'
import { overlayReader } from '../../../engine/state/overlay.ts'
import { ACCOUNT_WORDS, type StateReader } from '../../../engine/state/reader.ts'
import { bytesOf, wordsOf } from '../../../engine/state/words.ts'
import { memoryReader } from '../../fixtures/memory-reader.ts'
import { mergeDiffs } from '../../fixtures/merged-diffs.ts'
import { accountState, stateDiff } from '../../fixtures/state-arbitrary.ts'

const bytes = (length: number, fill: number) => new Uint8Array(length).fill(fill)
const account = (nonce: bigint): AccountState => ({ nonce, balance: 5n, codeHash: bytes(32, 9) })

describe('the account codec', () => {
  test('encodes the fields big-endian', () => {
    const encoded = encodeAccount({ nonce: 1n, balance: 2n ** 255n + 3n, codeHash: bytes(32, 7) })
    expect(Buffer.from(encoded).toString('hex')).toBe(
      `0000000000000001${'80'.padEnd(62, '0')}03${'07'.repeat(32)}`,
    )
  })

  test('decodes what it encoded, at any offset', () => {
    fc.assert(
      fc.property(accountState, fc.nat(9), (state, offset) => {
        const buffer = new Uint8Array(offset + 72)
        buffer.set(encodeAccount(state), offset)
        expect(decodeAccount(buffer, offset)).toEqual(state)
      }),
    )
  })

  test.each([
    ['nonce', { ...account(2n ** 64n) }, /nonce/],
    ['balance', { ...account(0n), balance: -1n }, /balance/],
    ['code hash', { ...account(0n), codeHash: bytes(31, 0) }, /code hash of 31/],
  ])('refuses a bad %s', (_, state, message) => {
    expect(() => encodeAccount(state)).toThrow(message)
  })
})

describe('the diff codec', () => {
  test('decodes what it encoded', () => {
    fc.assert(
      fc.property(stateDiff, (diff) => {
        expect(decodeDiff(encodeDiff(diff))).toEqual(diff)
      }),
    )
  })

  test('gives a located error or an equal diff for any other bytes', () => {
    fc.assert(
      fc.property(stateDiff, fc.nat(), fc.nat(255), (diff, where, value) => {
        const spoilt = encodeDiff(diff)
        spoilt[where % spoilt.length] = value
        for (const input of [spoilt, spoilt.subarray(0, where % spoilt.length)])
          try {
            expect(encodeDiff(decodeDiff(input))).toEqual(input)
          } catch (error) {
            expect(error).toBeInstanceOf(DiffError)
            expect((error as Error).message).toMatch(/ at \d+/)
          }
      }),
    )
  })
})

describe('a merged diff', () => {
  const address = bytes(20, 1)
  const slot = (before: number, after: number) => ({
    key: bytes(32, 2),
    before: bytes(32, before),
    after: bytes(32, after),
  })

  test('has the first value before and the last value after', () => {
    const first: StateDiff = [
      { address, before: undefined, after: account(1n), slots: [slot(0, 1)], code: bytes(3, 3) },
    ]
    const second: StateDiff = [
      { address, before: account(7n), after: account(2n), slots: [slot(8, 2)], code: undefined },
    ]
    expect(mergeDiffs([first, second])).toEqual([
      { address, before: undefined, after: account(2n), slots: [slot(0, 2)], code: bytes(3, 3) },
    ])
  })

  test('drops changes that end at their first value', () => {
    const there: StateDiff = [
      { address, before: account(1n), after: undefined, slots: [slot(1, 0)], code: undefined },
    ]
    const back: StateDiff = [
      { address, before: account(1n), after: account(1n), slots: [slot(1, 1)], code: undefined },
    ]
    expect(mergeDiffs([there, back])).toEqual([])
    expect(mergeDiffs([there, back, there])).toEqual(there)
  })

  test('drops code that the account no longer has', () => {
    const other = { ...account(1n), codeHash: bytes(32, 4) }
    const set: StateDiff = [
      { address, before: undefined, after: account(1n), slots: [], code: bytes(3, 3) },
    ]
    const replaced: StateDiff = [
      { address, before: undefined, after: other, slots: [], code: undefined },
    ]
    expect(mergeDiffs([set, replaced])[0]!.code).toBeUndefined()
  })
})

/** Collects all responses of a reader for the few addresses and keys of the arbitraries. */
function inspect(reader: StateReader) {
  const seen: unknown[] = []
  for (let a = 1; a <= 5; a++) {
    const address = wordsOf(bytes(20, a))
    const out = new Uint32Array(ACCOUNT_WORDS + 1)
    const presence = reader.account(address, out, 1)
    seen.push([presence, presence === 'present' ? bytesOf(out).slice(4) : undefined])
    for (let k = 0; k <= 4; k++) {
      const value = new Uint32Array(9)
      seen.push([reader.slot(address, wordsOf(bytes(32, k)), value, 1), bytesOf(value).slice(4)])
    }
    const slots = [...reader.slots(address)].sort((x, y) => x.key[0]! - y.key[0]!)
    expect(reader.hasSlots(address)).toBe(slots.length > 0)
    seen.push(slots)
  }
  return seen
}

describe('a state reader', () => {
  test('over an overlay gives the state with the diff applied', () => {
    fc.assert(
      fc.property(stateDiff, stateDiff, (base, diff) => {
        const applied = memoryReader({ diff: base })
        applied.apply(diff)
        expect(inspect(overlayReader(diff, memoryReader({ diff: base })))).toEqual(inspect(applied))
      }),
    )
  })

  test('over a merged diff gives the state of the diffs one by one', () => {
    fc.assert(
      fc.property(fc.array(stateDiff, { maxLength: 4 }), (diffs) => {
        const steps = memoryReader()
        // Each diff's `before` has the values of the diffs before.
        const honest = diffs.map((diff) => {
          const before = memoryState(steps, diff)
          steps.apply(diff)
          return before
        })
        expect(inspect(memoryReader({ diff: mergeDiffs(honest) }))).toEqual(inspect(steps))
      }),
    )
  })

  test('finds code by its hash', () => {
    const code = bytes(3, 1)
    const reader = memoryReader({
      diff: [{ address: bytes(20, 1), before: undefined, after: account(1n), slots: [], code }],
    })
    expect(reader.code(bytes(32, 9))).toEqual(code)
    expect(reader.code(bytes(32, 8))).toBe('missing')
    expect(overlayReader([], reader).code(bytes(32, 9))).toEqual(code)
  })
})

/** Replaces the diff's `before` values by those of the reader. */
function memoryState(reader: StateReader, diff: StateDiff): StateDiff {
  return diff.map((change) => {
    const out = new Uint32Array(ACCOUNT_WORDS)
    const isThere = reader.account(wordsOf(change.address), out, 0) === 'present'
    return {
      ...change,
      before: isThere ? decodeAccount(bytesOf(out)) : undefined,
      slots: change.slots.map((slot) => {
        const value = new Uint32Array(8)
        reader.slot(wordsOf(change.address), wordsOf(slot.key), value, 0)
        return { ...slot, before: bytesOf(value) }
      }),
    }
  })
}

/** Rows from an encoded diff are compared with those of the decoded diff. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bigintToBytes, compareBytes, concatBytes } from '../../../engine/primitives/words.ts'
import { encodeAccount } from '../../../engine/state/account-codec.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { encodeDiff } from '../../../engine/state/diff-codec.ts'
import {
  changesOf,
  codesOf,
  DiffError,
  type DiffRow,
  rowsOf,
  sortedRows,
} from '../../../engine/state/encoded-diff.ts'
import { stateDiff } from '../../fixtures/state-arbitrary.ts'
import { mulberry32 } from '../../kit/run-options.ts'

const hex = (bytes: Bytes | undefined) => bytes && Buffer.from(bytes).toString('hex')
const hexRow = ({ key, before, after }: DiffRow) => [hex(key), hex(before), hex(after)]
const nonZero = (word: Bytes) => (word.some((byte) => byte !== 0) ? word : undefined)

/**
 * Gives the rows that flat state and history store for a diff, computed directly from its types.
 */
function expectedRows(diff: StateDiff) {
  return diff
    .flatMap(({ address, before, after, slots }): DiffRow[] => [
      {
        key: address,
        before: before && encodeAccount(before),
        after: after && encodeAccount(after),
      },
      ...slots.map((slot) => ({
        key: concatBytes(address, slot.key),
        before: nonZero(slot.before),
        after: nonZero(slot.after),
      })),
    ])
    .filter(({ before, after }) => hex(before) !== hex(after))
}

function sorted(diff: StateDiff): { readonly rows: readonly DiffRow[]; readonly steps: number } {
  const sorting = sortedRows(encodeDiff(diff))
  for (let steps = 0; ; steps++) {
    const next = sorting.next()
    if (next.done === true) return { rows: [...next.value], steps }
  }
}

test('an encoded diff gives the rows of the diff, in its order or sorted by key', () => {
  fc.assert(
    fc.property(stateDiff, (diff) => {
      const rows = expectedRows(diff)
      expect([...rowsOf(encodeDiff(diff))].map(hexRow)).toEqual(rows.map(hexRow))
      const inOrder = rows.toSorted((a, b) => compareBytes(a.key, b.key))
      expect(sorted(diff).rows.map(hexRow)).toEqual(inOrder.map(hexRow))
      const codes = diff.filter(({ after, code }) => after !== undefined && code !== undefined)
      expect(
        [...codesOf(encodeDiff(diff))].map(({ hash, code }) => [hex(hash), hex(code)]),
      ).toEqual(codes.map(({ after, code }) => [hex(after!.codeHash), hex(code)]))
    }),
  )
})

test.each([
  ['slots of one account', 1, 5_000],
  ['accounts of one slot', 5_000, 1],
])('a diff with many %s is sorted in steps', (_, accounts, slots) => {
  const random = mulberry32(accounts)
  const word = () => bigintToBytes(BigInt(Math.floor(random() * 2 ** 40)), 32)
  const diff = Array.from({ length: accounts }, () => ({
    address: word().slice(12),
    before: undefined,
    after: undefined,
    slots: Array.from({ length: slots }, () => ({ key: word(), before: word(), after: word() })),
    code: undefined,
  }))
  const { rows, steps } = sorted(diff)
  const inOrder = expectedRows(diff).toSorted((a, b) => compareBytes(a.key, b.key))
  expect(rows.map(hexRow)).toEqual(inOrder.map(hexRow))
  expect(steps).toBeGreaterThan(10)
})

test('an encoding that is cut or too long is refused with the offset', () => {
  fc.assert(
    fc.property(stateDiff, fc.nat(), (diff, where) => {
      const full = encodeDiff(diff)
      const cut = full.subarray(0, where % full.length)
      expect(() => [...changesOf(cut)]).toThrow(DiffError)
      expect(() => [...changesOf(cut)]).toThrow(/ at \d+/)
      expect(() => [...changesOf(concatBytes(full, Uint8Array.of(0)))]).toThrow(
        `1 bytes too many at ${full.length}`,
      )
    }),
  )
})

/**
 * Some values that a block wrote, compared with the upstream's after it: without a trie no root shows a mistake of ours. Who finds a
 * difference stops being right about anything.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { equalBytes } from '../../primitives/words.ts'
import { describeMissing } from '../../state/reader.ts'
import type { FillRow } from '../../storage/types.ts'
import { type FetchHead, nameOf, type StateKey } from './calls.ts'
import type { Fetcher } from './fetcher.ts'

export type Sampled = {
  readonly key: StateKey
  /** 72 bytes of an account, 32 of a slot; undefined: it is absent, or zero. Ours, after the block. */
  readonly value: Bytes | undefined
}

/** @returns the first difference, in one line; undefined: there is none @throws {FetchError} nobody says */
export async function findDifference(
  fetcher: Pick<Fetcher, 'read'>,
  block: FetchHead,
  sample: readonly Sampled[],
): Promise<string | undefined> {
  const keys = sample.map(({ key }) => key)
  const rows = await fetcher.read(keys, block, { what: 'flashblock', client: '' })
  const theirs = new Map<string, Bytes | undefined>()
  for (const row of rows) {
    const key = keyOf(row)
    if (key !== undefined) theirs.set(nameOf(key.key), key.value)
  }
  for (const { key, value } of sample) {
    const their = theirs.get(nameOf(key))
    if (isSame(value, their)) continue
    return `${describeMissing(key)} after block ${block.number} is ${shown(value)} here and ${shown(their)} at the upstream`
  }
  return undefined
}

function keyOf(row: FillRow): Sampled | undefined {
  if (row.kind === 'account')
    return { key: { kind: 'account', address: row.address }, value: row.value }
  if (row.kind !== 'slot') return undefined
  return { key: { kind: 'slot', address: row.address, key: row.key }, value: row.value }
}

const isSame = (a: Bytes | undefined, b: Bytes | undefined): boolean =>
  a === undefined || b === undefined ? a === b : equalBytes(a, b)

const shown = (value: Bytes | undefined): string =>
  value === undefined ? 'absent' : bytesToHex(value)

/**
 * Compares some values that a block wrote with the upstream's, because without a trie no root
 * reveals a mistake. The follower halts the writer at a difference.
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
  /**
   * Our value after the block: 72 bytes of an account or 32 of a slot; undefined: absent or zero.
   */
  readonly value: Bytes | undefined
}

/**
 * @returns the first difference, in one line; undefined: there is none
 * @throws {FetchError} when no upstream answers
 */
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
    return `${describeMissing(key)} after block ${block.number} is ${format(value)} here and ${format(their)} at the upstream`
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

const format = (value: Bytes | undefined): string =>
  value === undefined ? 'absent' : bytesToHex(value)

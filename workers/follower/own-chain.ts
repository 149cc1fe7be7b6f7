/**
 * Reads of the local chain for the follower. While blocks are unwound no snapshot is valid, so the
 * canonical head is unknown.
 */
import type { ChainReader, ChainView } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { FetchHead } from '../../engine/sources/lazy/calls.ts'
import type { Point } from '../../engine/sources/upstream/tracker-types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { StoreReader } from '../../engine/storage/types.ts'

export const headOf = (reader: ChainReader): Point =>
  readNewest(reader, 'standard', ({ canonical }) => ({
    number: Number(canonical.number),
    hash: bytesToHex(canonical.hash),
  }))

/** Valid only at the start, when nothing is unwound. */
export const finalizedOf = (reader: ChainReader): number =>
  readNewest(reader, 'standard', (view) =>
    Number(view.block({ tag: 'finalized' })?.number ?? view.earliest),
  )

/** Returns undefined if the block does not exist, is pruned, or blocks are being unwound. */
export function hashOf(
  reader: ChainReader,
  { genesisNumber }: ChainSpec,
  number: number,
): Hex | undefined {
  return BigInt(number) < genesisNumber
    ? undefined
    : readUnless(reader, ['void', 'pruned'], hashIn(number))
}

/** Like `hashOf`, but throws while blocks are unwound. @throws {ViewError} */
export const settledHashOf = (reader: ChainReader, number: number): Hex | undefined =>
  readUnless(reader, ['pruned'], hashIn(number))

const hashIn = (number: number) => (view: ChainView) => {
  const found = view.block({ number: BigInt(number) })
  return found && bytesToHex(found.hash)
}

/** Returns a local block by its hash; undefined if there is none, or blocks are being unwound. */
export const blockOf = (reader: ChainReader, hash: Bytes): FetchHead | undefined =>
  readUnless(reader, ['void'], (view) => {
    const block = view.block({ hash, requireCanonical: false })
    if (block === undefined) return undefined
    const { number, header } = block
    return { number: Number(number), hash, stateRoot: header.stateRoot.slice() }
  })

/**
 * Returns the newest canonical block up to `max`, but at least the start of lazy state.
 * A value that no local block wrote is the same after each of them. Returns undefined while blocks
 * are unwound.
 */
export const headAt = (
  reader: ChainReader,
  store: Pick<StoreReader, 'lazyStart'>,
  max: number,
): FetchHead | undefined =>
  readUnless(reader, ['void'], (view) => {
    const min = store.lazyStart()?.block.number ?? 0
    const wanted = Math.min(Math.max(max, min), Number(view.canonical.number))
    const block = view.block({ number: BigInt(wanted) }) ?? view.block({ tag: 'latest' })
    if (block === undefined) throw new Error(`snapshot ${view.snapshot} has no canonical block`)
    const { number, hash, header } = block
    return { number: Number(number), hash: hash.slice(), stateRoot: header.stateRoot.slice() }
  })

function readUnless<Result>(
  reader: ChainReader,
  reasons: readonly ViewError['reason'][],
  read: (view: ChainView) => Result | undefined,
): Result | undefined {
  try {
    return readNewest(reader, 'standard', read)
  } catch (error) {
    if (error instanceof ViewError && reasons.includes(error.reason)) return undefined
    throw error
  }
}

/** What the follower looks up of our own chain. While the keeper takes blocks back no record is good, and nobody can say what is canonical. */
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader, ChainView } from '../../engine/chain/types.ts'
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

/** At the start alone: nothing is taken back then. */
export const finalizedOf = (reader: ChainReader): number =>
  readNewest(reader, 'standard', (view) =>
    Number(view.block({ tag: 'finalized' })?.number ?? view.earliest),
  )

/** undefined: no block of this number, none any more, or blocks are being taken back. */
export function hashOf(
  reader: ChainReader,
  { genesisNumber }: ChainSpec,
  number: number,
): Hex | undefined {
  return BigInt(number) < genesisNumber
    ? undefined
    : readUnless(reader, ['void', 'pruned'], hashIn(number))
}

/** The same, for who has to know of blocks that are being taken back. @throws {ViewError} */
export const settledHashOf = (reader: ChainReader, number: number): Hex | undefined =>
  readUnless(reader, ['pruned'], hashIn(number))

const hashIn = (number: number) => (view: ChainView) => {
  const found = view.block({ number: BigInt(number) })
  return found && bytesToHex(found.hash)
}

/** A block of our chain by its hash; undefined: there is none, or blocks are being taken back. */
export const blockOf = (reader: ChainReader, hash: Bytes): FetchHead | undefined =>
  readUnless(reader, ['void'], (view) => {
    const block = view.block({ hash, requireCanonical: false })
    if (block === undefined) return undefined
    const { number, header } = block
    return { number: Number(number), hash, stateRoot: header.stateRoot.slice() }
  })

/**
 * Our newest canonical block up to `most`, and not below the one at which the state begins: what no local block wrote has one value after
 * all of them. undefined: blocks are being taken back.
 */
export const headAt = (
  reader: ChainReader,
  store: Pick<StoreReader, 'lazyStart'>,
  most: number,
): FetchHead | undefined =>
  readUnless(reader, ['void'], (view) => {
    const least = store.lazyStart()?.block.number ?? 0
    const wanted = Math.min(Math.max(most, least), Number(view.canonical.number))
    const block = view.block({ number: BigInt(wanted) }) ?? view.block({ tag: 'latest' })
    if (block === undefined) throw new Error(`record ${view.record} has no canonical block`)
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

/**
 * Without a trie no state root reveals a local mistake. Therefore some values that a block wrote
 * are compared with the upstream's.
 */
import type { ChainReader } from '../../engine/chain/types.ts'
import { ResponseFault } from '../../engine/sources/lazy/calls.ts'
import { FetchError, type Fetcher } from '../../engine/sources/lazy/fetcher.ts'
import { findDifference } from '../../engine/sources/lazy/sample.ts'
import { UpstreamError } from '../../engine/sources/upstream/error.ts'
import type { CheckEffect } from '../../engine/sources/writer/types.ts'
import { blockOf } from './own-chain.ts'

export type CheckCount = 'state_checked' | 'state_unchecked'
type Parts = {
  readonly fetcher: Fetcher
  readonly reader: ChainReader
  readonly count: (what: CheckCount, by: number) => void
}

/** Returns the difference; undefined if there is none, or if the values could not be fetched. */
export async function differenceOf(
  { hash, keys }: CheckEffect,
  { fetcher, reader, count }: Parts,
): Promise<string | undefined> {
  const block = blockOf(reader, hash)
  if (block === undefined || keys.length === 0) return undefined
  try {
    const difference = await findDifference(fetcher, block, keys)
    count('state_checked', keys.length)
    return difference
  } catch (error) {
    const isExpected =
      error instanceof UpstreamError ||
      error instanceof FetchError ||
      error instanceof ResponseFault
    if (!isExpected) throw error
    count('state_unchecked', keys.length)
    return undefined
  }
}

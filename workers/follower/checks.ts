/** Without a trie no root tells of a mistake of ours: some of what a block wrote is looked up at that block and compared. */
import type { ChainReader } from '../../engine/chain/types.ts'
import { AnswerFault } from '../../engine/sources/lazy/calls.ts'
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

/** Gives what is different; undefined: nothing, or it could not be looked up. */
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
      error instanceof UpstreamError || error instanceof FetchError || error instanceof AnswerFault
    if (!isExpected) throw error
    count('state_unchecked', keys.length)
    return undefined
  }
}

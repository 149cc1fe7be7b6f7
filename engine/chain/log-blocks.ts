/** Where logs may be: of folded blocks the index says it, the blocks in tables are each looked at. */
import { LOG_SHARD_BLOCKS } from '../storage/blocks/log-index.ts'
import type { LogValues, ShardBits, StoreReader } from '../storage/types.ts'
import type { BlockSpan } from './types.ts'

/**
 * Spans from `first` to `last` that follow one another, each with its candidates in order. An index row may be of blocks folded since, or
 * unfolded again: a view is asked for every candidate, and knows its own chain.
 */
export function* logSpans(
  { store, base }: { readonly store: Pick<StoreReader, 'logBlocks'>; readonly base: number },
  values: LogValues,
  { first, last }: { readonly first: number; readonly last: number },
): Generator<BlockSpan, void> {
  const isIndexed = values.some((group) => group.length > 0)
  for (let from = first; from <= last; ) {
    const shard = Math.floor(from / LOG_SHARD_BLOCKS)
    const end = (shard + 1) * LOG_SHARD_BLOCKS - 1
    const isInIndex = isIndexed && from <= base
    const to = Math.min(end, last, isInIndex ? base : last)
    const bits = isInIndex ? store.logBlocks(values, shard) : undefined
    yield { first: BigInt(from), numbers: candidates(bits, from, to) }
    from = to + 1
  }
}

function candidates(bits: ShardBits | undefined, from: number, to: number): readonly bigint[] {
  const numbers: bigint[] = []
  for (let number = from; number <= to; number++) {
    const offset = number % LOG_SHARD_BLOCKS
    if (bits === undefined || (bits[offset >> 5]! & (1 << (offset & 31))) !== 0)
      numbers.push(BigInt(number))
  }
  return numbers
}

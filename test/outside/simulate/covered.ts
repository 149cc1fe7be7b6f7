/**
 * These rules say which changes of a flashblock the node can notice, by its form. A hash covers the
 * block up to the flashblock: base, transactions, sums and roots. Compared sums cover the
 * transactions as receipts show them. The index has no protection, because an empty flashblock with
 * another one's index describes the same block.
 */
import type { FeedMessage, Flashblock, FlashblockBase } from '../../../engine/flashblocks/types.ts'
import { contentOf, type TrueBlock } from './chain.ts'
import type { Path } from './mutate.ts'

/** A subblock has no hash, and where refunds are stated the hash may be of any block. */
const isHashCompared = ({ delta }: Flashblock): boolean =>
  delta.blockHash !== undefined && delta.postExec === undefined

const COMPARED_OF_BASE = new Set(['parent_hash', 'block_number', 'base_fee_per_gas'])
/**
 * The message does not state whether these sums include refunds, and any refund is as right as
 * another.
 */
const FREE_WITH_REFUNDS = new Set(['gas_used', 'receipts_root', 'post_exec_tx'])

/**
 * Whether a change at the path is noticed, or changes nothing visible. Other changes make another
 * valid block, for which a history cannot be compared with plain execution.
 * @param hasRefunds whether some flashblocks state refunds; after a wrong index they would be
 * accepted without a sum
 */
export function mayChange(message: FeedMessage, [field, member]: Path, hasRefunds: boolean) {
  if (message.type === 'end') return true
  const isCovered = isHashCompared(message)
  if (field === 'index') return isCovered && !hasRefunds
  if (isCovered) return true
  if (field === 'base') return COMPARED_OF_BASE.has(`${member}`)
  // A flashblock of another payload fits after empty ones, and no sum shows that.
  if (field === 'payload_id') return false
  if (field !== 'diff') return true
  const isFree = message.delta.postExec !== undefined && FREE_WITH_REFUNDS.has(`${member}`)
  return member !== 'transactions' && !isFree
}

/** Makes a flashblock that contains all of its block before it. */
export function blockUpTo(message: Flashblock, before: Flashblock | undefined): Flashblock {
  if (before === undefined) return message
  const transactions = [...before.delta.transactions, ...message.delta.transactions]
  return { ...message, base: before.base, delta: { ...message.delta, transactions } }
}

/**
 * Whether the accepted block up to a flashblock is the sequencer's, at this index or at that of
 * another flashblock.
 * @param isLazy without a trie, index 0 gives the hash to its parent, and nothing else compares
 * this word
 */
export function isMade(taken: Flashblock, block: TrueBlock, isLazy: boolean): boolean {
  let made: Flashblock | undefined
  return block.parts.some(({ message }) => {
    made = blockUpTo(message, made)
    return contentOf(made) === contentOf(filledFrom(made, taken, isLazy))
  })
}

/** Fills in the true values where the node has compared nothing. */
function filledFrom(made: Flashblock, taken: Flashblock, isLazy: boolean): Flashblock {
  const { blobGasUsed = made.delta.blobGasUsed } = taken.delta
  const isWord = isLazy && !isHashCompared(taken)
  return {
    ...taken,
    base: taken.base && (isWord ? withParent(taken.base, made.base) : taken.base),
    delta: { ...taken.delta, blobGasUsed },
  }
}

const withParent = (base: FlashblockBase, other: FlashblockBase | undefined): FlashblockBase => ({
  ...base,
  parentHash: other?.parentHash ?? base.parentHash,
})

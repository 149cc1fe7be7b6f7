/**
 * Changes of a flashblock on its way that the node can notice, by its form. A hash covers the block
 * up to the flashblock: base, transactions, sums and roots. Sums that are compared cover what
 * receipts show of the transactions. Nothing covers the index: an empty flashblock with the index
 * of another one says the same about the block.
 */
import type { FeedMessage, Flashblock, FlashblockBase } from '../../../engine/flashblocks/types.ts'
import { contentOf, type TrueBlock } from './chain.ts'
import type { Path } from './mutate.ts'

/** A subblock has no hash, and where refunds are stated the hash may be of any block. */
const isHashCompared = ({ delta }: Flashblock): boolean =>
  delta.blockHash !== undefined && delta.postExec === undefined

const COMPARED_OF_BASE = new Set(['parent_hash', 'block_number', 'base_fee_per_gas'])
/** Nobody says whether these sums count refunds, and any refund is as right as another. */
const FREE_WITH_REFUNDS = new Set(['gas_used', 'receipts_root', 'post_exec_tx'])

/**
 * Whether another value in a place is noticed, or changes nothing that the node shows of the block.
 * Elsewhere it makes another block that is as right, with which a history cannot be held against
 * plain execution.
 * @param hasRefunds some flashblocks of the chain state refunds: behind one with a wrong index they would be taken without a sum
 */
export function mayChange(message: FeedMessage, [place, member]: Path, hasRefunds: boolean) {
  if (message.type === 'end') return true
  const isCovered = isHashCompared(message)
  if (place === 'index') return isCovered && !hasRefunds
  if (isCovered) return true
  if (place === 'base') return COMPARED_OF_BASE.has(`${member}`)
  // One of another payload fits behind empty ones, and no sum shows it.
  if (place === 'payload_id') return false
  if (place !== 'diff') return true
  const isFree = message.delta.postExec !== undefined && FREE_WITH_REFUNDS.has(`${member}`)
  return member !== 'transactions' && !isFree
}

/** The flashblock as if it had come with all that its block has before it. */
export function blockUpTo(message: Flashblock, before: Flashblock | undefined): Flashblock {
  if (before === undefined) return message
  const transactions = [...before.delta.transactions, ...message.delta.transactions]
  return { ...message, base: before.base, delta: { ...message.delta, transactions } }
}

/**
 * Whether the block up to a flashblock that the node has taken is what the sequencer made: at this
 * index, or at that of another flashblock.
 * @param isLazy without a trie index 0 gives its parent the hash, so that nothing else compares this word
 */
export function isMade(taken: Flashblock, block: TrueBlock, isLazy: boolean): boolean {
  let made: Flashblock | undefined
  return block.parts.some(({ message }) => {
    made = blockUpTo(message, made)
    return contentOf(made) === contentOf(filledFrom(made, taken, isLazy))
  })
}

/** With the true value where the node has compared nothing. */
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

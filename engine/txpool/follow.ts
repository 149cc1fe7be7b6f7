/**
 * Updates a txpool from views: transactions that a publish included, and those that a flush or
 * reorg took back.
 */
import type { Block, ChainView } from '../chain/types.ts'
import { blockIfStored } from '../chain/view-reads.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { keccak256 } from '../primitives/keccak.ts'
import { isSigned, type SignedTransaction } from '../primitives/transaction.ts'
import { openTransaction } from '../primitives/transaction-codec.ts'
import { equalBytes } from '../primitives/words.ts'
import { readAccount } from '../state/read.ts'
import { MissingError, type MissingKey } from '../state/reader.ts'
import type { Txpool } from './txpool.ts'
import type { NonceOf, TxpoolHead } from './types.ts'

/**
 * Updates the txpool to a view of the flashblocks endpoint. Called after each publish; skipped
 * publishes do no harm.
 * @throws {ViewError} when the view is gone
 */
export type TxpoolFollower = { update(view: ChainView): void }

export function followViews(txpool: Txpool): TxpoolFollower {
  let last: Seen | undefined
  return {
    update(view) {
      const pending = pendingBlock(view)
      const nonceOf = noncesOf(view, pending)
      if (last !== undefined && isExtended(last, view)) {
        for (let number = last.number; number <= pending.number; number++)
          includeBlock(txpool, view, {
            number,
            from: number === last.number ? last.hashes.length : 0,
          })
      } else {
        txpool.rewind({ blockOf: (hash) => numberOf(view, hash), nonceOf })
        const oldest = pending.number - BigInt(txpool.limits.retentionBlocks)
        for (let number = oldest; number <= pending.number; number++)
          includeBlock(txpool, view, { number, from: 0 })
      }
      last = {
        number: pending.number,
        parentHash: pending.header.parentHash.slice(),
        hashes: pending.transactionHashes().map((hash) => hash.slice()),
        below: endsBelow(view, pending.number),
      }
      txpool.settle({
        pending: {
          number: Number(pending.number),
          index: pending.flashblockIndex ?? Number.POSITIVE_INFINITY,
        },
        canonical: Number(view.canonical.number),
        nonceOf,
      })
    },
  }
}

/**
 * Result of a restore: the number of restored transactions, and those whose state is missing. The
 * latter stay in the journal.
 */
export type Restored = {
  readonly restored: number
  readonly waiting: readonly Bytes[]
  readonly missing: readonly MissingKey[]
}

/**
 * Restores journalled transactions at the start.
 * A transaction in a block that could still be lost is retained as included. One in an older block,
 * or one that no longer fits, is dropped.
 * @throws {ViewError} when the view is gone
 */
export function restoreTxpool(
  txpool: Txpool,
  journalled: Iterable<Bytes>,
  at: { readonly view: ChainView; readonly head: TxpoolHead },
): Restored {
  let restored = 0
  const waiting: Bytes[] = []
  const missing: MissingKey[] = []
  const raws = [...journalled]
  const hashes = raws.map((raw) => keccak256(raw))
  const oldest = Number(at.view.canonical.number) - txpool.limits.retentionBlocks
  /*
   * The lookup covers all hashes at once: there are thousands after a busy hour, nearly all in
   * older blocks.
   */
  const numbers = at.view.persistedNumbers(hashes)
  for (const [index, raw] of raws.entries()) {
    if ((numbers[index] ?? oldest) < oldest) continue
    const location = at.view.findTransaction(hashes[index]!)
    const included = location?.block.transaction(location.index)
    if (location !== undefined && included !== undefined && isSigned(included))
      txpool.include(copyOf(included), Number(location.block.number))
    else
      try {
        if (txpool.restore(raw, at.head)) restored++
      } catch (error) {
        if (!(error instanceof MissingError)) throw error
        waiting.push(raw)
        missing.push(...error.missing)
      }
  }
  txpool.rewriteJournal(waiting)
  return { restored, waiting, missing }
}

export function noncesOf(view: ChainView, pending: Block): NonceOf {
  const state = view.state(pending)
  return (address, known) => orMissing(() => readAccount(state, address)?.nonce ?? 0n, known)
}

function orMissing<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof MissingError) return otherwise
    throw error
  }
}

/** @throws {Error} when the view has no pending block, although every snapshot has one */
export function pendingBlock(view: ChainView): Block {
  const pending = view.block({ tag: 'pending' })
  if (pending === undefined) throw new Error(`snapshot ${view.snapshot} has no pending block`)
  return pending
}

/** The pending block as of the last update. */
type Seen = {
  readonly number: bigint
  readonly parentHash: Bytes
  readonly hashes: readonly Bytes[]
  /**
   * Blocks between the canonical head and the pending block. Without a trie, a block's content can
   * change under the same hash.
   */
  readonly below: readonly End[]
}
type End = { readonly number: bigint; readonly count: number; readonly last: Bytes | undefined }

/**
 * Returns whether the view's chain continues the seen one: same parent, and the same first
 * transactions.
 */
function isExtended(last: Seen, view: ChainView): boolean {
  const block = blockIfStored(view, last.number)
  if (block === undefined || !equalBytes(block.header.parentHash, last.parentHash)) return false
  if (!last.below.every((end) => isSame(end, endOf(view, end.number)))) return false
  const hashes = block.transactionHashes()
  return last.hashes.every((hash, at) => hashes[at] !== undefined && equalBytes(hash, hashes[at]))
}

function endsBelow(view: ChainView, number: bigint): readonly End[] {
  const ends: End[] = []
  for (let at = view.canonical.number + 1n; at < number; at++) {
    const end = endOf(view, at)
    if (end !== undefined) ends.push(end)
  }
  return ends
}
function endOf(view: ChainView, number: bigint): End | undefined {
  const block = blockIfStored(view, number)
  if (block === undefined) return undefined
  const count = block.transactionCount
  return { number, count, last: block.transactionHash(count - 1)?.slice() }
}
const isSame = (a: End, b: End | undefined): boolean =>
  a.count === b?.count &&
  (a.last === b.last ||
    (a.last !== undefined && b.last !== undefined && equalBytes(a.last, b.last)))

function includeBlock(
  txpool: Txpool,
  view: ChainView,
  at: { readonly number: bigint; readonly from: number },
): void {
  if (at.number < view.earliest) return
  const block = blockIfStored(view, at.number)
  if (block === undefined) return
  const hashes = block.transactionHashes()
  for (let index = at.from; index < block.transactionCount; index++) {
    // A transaction that the txpool has is not decoded again.
    const known = txpool.retained(hashes[index]!)
    const transaction = known ?? block.transaction(index)!
    if (!isSigned(transaction)) continue
    // The copy is needed, because the txpool outlives the view's lease.
    txpool.include(known ?? copyOf(transaction), Number(at.number))
  }
}

const copyOf = ({ raw, hash, from }: SignedTransaction) =>
  openTransaction(raw.slice(), { hash: hash.slice(), from: from.slice() })

function numberOf(view: ChainView, hash: Bytes): number | undefined {
  const found = view.findTransaction(hash)
  return found && Number(found.block.number)
}

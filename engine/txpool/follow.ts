/** Keeps a txpool in step with the views: what each publish included, and what a flush or reorg took back. */
import { blockHere } from '../chain/here.ts'
import type { Block, ChainView } from '../chain/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { keccak256 } from '../primitives/keccak.ts'
import { isSigned, type SignedTransaction } from '../primitives/transaction.ts'
import { openTransaction } from '../primitives/transaction-codec.ts'
import { equalBytes } from '../primitives/words.ts'
import { readAccount } from '../state/read.ts'
import { MissingError, type MissingKey } from '../state/reader.ts'
import type { Txpool } from './txpool.ts'
import type { NonceOf, TxpoolHead } from './types.ts'

/** Brings the txpool to a view of the flashblocks endpoint; called after each publish, publishes may be left out. @throws {ViewError} */
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
        const oldest = pending.number - BigInt(txpool.limits.keepBlocks)
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

/** How many came back; and of those that could not be looked at what is missing. They stay in the journal. */
export type Restored = {
  readonly restored: number
  readonly waiting: readonly Bytes[]
  readonly missing: readonly MissingKey[]
}

/**
 * Puts journalled transactions back at the start. Those in a block that could still be lost are kept as included, those in an older one
 * and those that no longer fit are left out. @throws {ViewError}
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
  const oldest = Number(at.view.canonical.number) - txpool.limits.keepBlocks
  // Thousands after a busy hour, nearly all of them in older blocks.
  const numbers = at.view.foldedNumbers(hashes)
  for (const [index, raw] of raws.entries()) {
    if ((numbers[index] ?? oldest) < oldest) continue
    const place = at.view.findTransaction(hashes[index]!)
    const included = place?.block.transaction(place.index)
    if (place !== undefined && included !== undefined && isSigned(included))
      txpool.include(copyOf(included), Number(place.block.number))
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

/** Nonces in the pending state of a view. */
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

/** @throws {Error} when the view has no pending block: every record has one. */
export function pendingBlock(view: ChainView): Block {
  const pending = view.block({ tag: 'pending' })
  if (pending === undefined) throw new Error(`record ${view.record} has no pending block`)
  return pending
}

/** The pending block as it was at the last update. */
type Seen = {
  readonly number: bigint
  readonly parentHash: Bytes
  readonly hashes: readonly Bytes[]
  /** Of the blocks between canonical and it: without a trie one may come again with another content and the same hash. */
  readonly below: readonly End[]
}
type End = { readonly number: bigint; readonly count: number; readonly last: Bytes | undefined }

/** Whether the view's chain begins with what was seen: same parent, and the same transactions first. */
function isExtended(last: Seen, view: ChainView): boolean {
  const block = blockHere(view, last.number)
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
  const block = blockHere(view, number)
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
  const block = blockHere(view, at.number)
  if (block === undefined) return
  const hashes = block.transactionHashes()
  for (let index = at.from; index < block.transactionCount; index++) {
    // What the txpool has is not decoded again.
    const known = txpool.kept(hashes[index]!)
    const transaction = known ?? block.transaction(index)!
    if (!isSigned(transaction)) continue
    // What the txpool keeps must outlive the view's lease.
    txpool.include(known ?? copyOf(transaction), Number(at.number))
  }
}

const copyOf = ({ raw, hash, from }: SignedTransaction) =>
  openTransaction(raw.slice(), { hash: hash.slice(), from: from.slice() })

function numberOf(view: ChainView, hash: Bytes): number | undefined {
  const found = view.findTransaction(hash)
  return found && Number(found.block.number)
}

/**
 * Senders as a leader has told them. No root has them, but a root has every nonce: whoever sent a transaction of nonce n went past n in its
 * block. The first of a nonce in a block is taken as told, every further one is recovered, and before the block is durable the accounts that
 * went past n must be those senders and no other; where they are more, the first is recovered too. So a recovery is paid where two senders of a
 * block have the same nonce, and nowhere else.
 */
import { isEdit } from '../../execution/transaction/edits.ts'
import type { ExecutedTransaction } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { isSigned, type SignedTransaction, type Transaction } from '../../primitives/transaction.ts'
import { recoverSender, type SenderOf } from '../../primitives/transaction-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { StateDiff } from '../../state/diff.ts'
import { latin1 } from '../../state/words.ts'
import type { LeaderDiff, LeaderFault, ToldDiff } from './types.ts'

/** Transactions whose sender is as this leader told it, and nothing more; no two of a block have one nonce. */
export type ToldSenders = Map<Transaction, LeaderDiff>

/** In place of a sender that nobody has asked for yet: 20 bytes. */
export const NOBODY: Bytes = new Uint8Array(20)

export type Sent = {
  readonly transactions: readonly Transaction[]
  /** Those of them whose sender is the leader's word. */
  readonly told: readonly SignedTransaction[]
}

/**
 * @param transactions with the hashes that are told; the senders of signed ones are open
 * @param block what it has before them @returns a fault: a signature says otherwise
 */
export function sendersOf(
  { senders }: Pick<ToldDiff, 'senders'>,
  transactions: readonly Transaction[],
  block: { readonly executed: readonly ExecutedTransaction[]; readonly senderOf: SenderOf },
): Sent | LeaderFault {
  const nonces = new Set<bigint>()
  for (const { transaction } of block.executed)
    if (isSigned(transaction)) nonces.add(transaction.nonce)
  const told: SignedTransaction[] = []
  const sent: Transaction[] = []
  for (const [at, transaction] of transactions.entries()) {
    const word = senders.slice(at * 20, at * 20 + 20)
    const known = isSigned(transaction)
      ? (block.senderOf(transaction.hash) ??
        (nonces.has(transaction.nonce) ? recoverSender(transaction) : undefined))
      : transaction.from
    if (known !== undefined && !equalBytes(known, word)) return wrongSender(transaction, word)
    const one = isSigned(transaction) ? { ...transaction, from: known ?? word } : transaction
    sent.push(one)
    if (!isSigned(one)) continue
    if (known === undefined) told.push(one)
    nonces.add(one.nonce)
  }
  return { transactions: sent, told }
}

/**
 * Of a block whose root is its source's: every sender that is a leader's word is made sure of.
 * @param changes of the whole block, over its parent
 */
export function wrongOfSenders(
  told: ToldSenders,
  block: { readonly executed: readonly ExecutedTransaction[]; readonly changes: StateDiff },
): { readonly diff: LeaderDiff; readonly fault: LeaderFault } | undefined {
  if (told.size === 0) return undefined
  const others = othersPast(told, block)
  for (const [transaction, diff] of told) {
    if (!isSigned(transaction)) continue
    const past = others?.get(transaction.nonce)
    const isOnly = past?.size === 1 && past.has(latin1(transaction.from))
    if (isOnly) continue
    const from = recoverSender(transaction)
    if (from === undefined || !equalBytes(from, transaction.from))
      return { diff, fault: wrongSender(transaction, transaction.from) }
  }
  return undefined
}

/** By nonce, who went past it and has sent no other transaction of it. undefined: a nonce may have been set by hand, and tells nothing. */
function othersPast(
  told: ToldSenders,
  {
    executed,
    changes,
  }: { readonly executed: readonly ExecutedTransaction[]; readonly changes: StateDiff },
): ReadonlyMap<bigint, Set<string>> | undefined {
  const past = new Map<bigint, Set<string>>()
  for (const transaction of told.keys())
    if (isSigned(transaction)) past.set(transaction.nonce, new Set())
  for (const { address, before, after } of changes) {
    const [from, to] = [before?.nonce ?? 0n, after?.nonce ?? 0n]
    if (to <= from) continue
    const name = latin1(address)
    // An account may leap far where a contract makes others.
    if (to - from > past.size) {
      for (const [nonce, names] of past) if (nonce >= from && nonce < to) names.add(name)
    } else for (let nonce = from; nonce < to; nonce++) past.get(nonce)?.add(name)
  }
  for (const { transaction } of executed) {
    if (isEdit(transaction)) return undefined
    if (isSigned(transaction) && !told.has(transaction))
      past.get(transaction.nonce)?.delete(latin1(transaction.from))
  }
  return past
}

export const wrongSender = ({ hash }: Transaction, word: Bytes): LeaderFault => ({
  kind: 'sender',
  message: `${bytesToHex(word)} has not signed transaction ${bytesToHex(hash)}`,
})

/** Fills a flashblock: executes the pool's transactions in their order within a gas and a time quota. */
import type { BlockExecution } from '../execution/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { keccak256 } from '../primitives/keccak.ts'
import type { Transaction } from '../primitives/transaction.ts'
import { decodeTransaction, TransactionError } from '../primitives/transaction-codec.ts'
import type { Rejected } from './sequencer-types.ts'

export type Filled = {
  readonly executed: number
  readonly rejected: readonly Rejected[]
  /** The time was over before the list was. */
  readonly isOutOfTime: boolean
}

/** How often a transaction may have a flashblock's whole time and not finish. */
export const MAX_TRIES = 3
/** Transactions whose tries are remembered. */
const MAX_REMEMBERED = 1_000

export interface Filler {
  /**
   * `gas`: what the block may have used afterwards. A transaction that does not fit, or that must wait for another of its sender, is
   * left for later; `isExpired` ends the one that is running.
   */
  fill(
    execution: BlockExecution,
    transactions: readonly Bytes[],
    quota: { readonly gas: bigint; readonly isExpired: () => boolean },
  ): Promise<Filled>
  /** The pool may hand out again what the newest blocks have: forgets those of blocks below `number`. */
  forget(number: bigint): void
  /** Counts as included, e.g. when a block is begun again. */
  include(number: bigint, hash: Bytes): void
}

export function createFiller(): Filler {
  /** Hash → height: the pool learns of an inclusion only when it is published. */
  const included = new Map<string, bigint>()
  const tries = new Map<string, number>()

  const hasTried = (hash: string) => {
    const count = (tries.get(hash) ?? 0) + 1
    tries.delete(hash)
    tries.set(hash, count)
    for (const oldest of tries.keys()) {
      if (tries.size <= MAX_REMEMBERED) break
      tries.delete(oldest)
    }
    return count >= MAX_TRIES
  }

  return {
    async fill(execution, transactions, { gas, isExpired }) {
      const rejected: Rejected[] = []
      /** A later nonce of these has to wait. */
      const waiting = new Set<string>()
      let executed = 0
      for (const raw of transactions) {
        if (isExpired()) return { executed, rejected, isOutOfTime: true }
        const transaction = decode(raw, rejected)
        if (!transaction) continue
        const [hash, sender] = [bytesToHex(transaction.hash), bytesToHex(transaction.from)]
        if (included.has(hash) || waiting.has(sender)) continue
        if (transaction.gasLimit > gas - execution.gasUsed) {
          waiting.add(sender)
          continue
        }
        const done = await execution.execute(transaction, { isExpired })
        if (done.status === 'executed') {
          included.set(hash, execution.attributes.number)
          executed++
          continue
        }
        waiting.add(sender)
        if (done.status === 'invalid') {
          if (!isForLater(done.reason.message, transaction))
            rejected.push({ hash: transaction.hash, reason: done.reason.message })
          continue
        }
        // It had the whole time only when nothing ran before it.
        if (executed === 0 && hasTried(hash))
          rejected.push({ hash: transaction.hash, reason: 'takes longer than a flashblock has' })
        return { executed, rejected, isOutOfTime: true }
      }
      return { executed, rejected, isOutOfTime: false }
    },
    forget(number) {
      for (const [hash, height] of included) if (height < number) included.delete(hash)
    },
    include(number, hash) {
      included.set(bytesToHex(hash), number)
    },
  }
}

/** Invalid in this block and perhaps not in a later one: the pool decides how long it keeps them. Paying nothing is never enough later. */
function isForLater(reason: string, transaction: Transaction): boolean {
  if (/^max fee per gas less than/.test(reason)) return feeCapOf(transaction) > 0n
  return /^(nonce too high|exceeds block (gas|DA footprint) limit)/.test(reason)
}

function feeCapOf(transaction: Transaction): bigint {
  if ('maxFeePerGas' in transaction) return transaction.maxFeePerGas
  return 'gasPrice' in transaction ? transaction.gasPrice : 0n
}

function decode(raw: Bytes, rejected: Rejected[]): Transaction | undefined {
  try {
    return decodeTransaction(raw)
  } catch (error) {
    if (!(error instanceof TransactionError)) throw error
    rejected.push({ hash: keccak256(raw), reason: error.message })
    return undefined
  }
}

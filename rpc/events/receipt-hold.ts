/**
 * Receipt hold of the flashblocks endpoint. A client library requests a receipt right after
 * sending, and then again only at the next block. The response therefore waits for the flashblock
 * with the transaction.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Client } from '../core/client.ts'
import type { Limits } from '../core/limits.ts'
import type { TransactionService } from '../core/ports.ts'
import { hash as hashCodec } from '../json/codecs.ts'
import { SchemaError } from '../json/schema.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import type { ReceiptWaits } from './receipt-waits.ts'
import type { WaitingCall } from './seen-receipts.ts'

export interface ReceiptHold {
  /**
   * Waits for the receipt that the calls request. undefined: no hold; otherwise the calls run when
   * the promise settles.
   */
  before(
    calls: readonly Pick<WaitingCall, 'found' | 'params'>[],
    client: Client,
  ): Promise<void> | undefined
  readonly stats: HoldStats
}
export type HoldStats = {
  readonly held: number
  readonly seen: number
  readonly expired: number
  readonly gone: number
  /** The transaction has left the txpool without a block. */
  readonly departed: number
  /** Requests that did not wait because of a concurrency limit. */
  readonly refused: number
}

/**
 * Maximum calls of a body with a hold, because unmodified ethers batches the chain id and the
 * receipt.
 */
const BATCH_ITEMS = 4
/**
 * Flashblocks after which a hold ends. An expected transaction is in the next flashblock, or in the
 * second if the next was already closed. On a busy machine it may be one later. At 200 ms this
 * exceeds the time limit. At shorter intervals it ends holds for transactions that were left out.
 */
const FLASHBLOCKS = 3

export function createReceiptHold(options: {
  readonly transactions: TransactionService
  readonly waits: ReceiptWaits
  /** Tells whether the transaction can be found now. */
  readonly isVisible: (hash: Bytes) => boolean
  /** Maximum milliseconds of a hold; 0 turns holds off. */
  readonly holdMs: number
  readonly limits: Pick<Limits, 'holdsPerClient' | 'holdsTotal'>
  readonly concurrencyLimits: OpenConcurrencyLimit
}): ReceiptHold {
  const { transactions, waits, holdMs, limits } = options
  const concurrencyLimits = options.concurrencyLimits('holds', {
    perClient: limits.holdsPerClient,
    total: limits.holdsTotal,
  })
  const stats = { held: 0, seen: 0, expired: 0, gone: 0, departed: 0, refused: 0 }

  return {
    stats,
    before(calls, client) {
      if (holdMs <= 0 || calls.length > BATCH_ITEMS) return undefined
      const hash = onlyReceipt(calls)
      if (hash === undefined || !transactions.isExpected(hash) || options.isVisible(hash))
        return undefined
      const giveBack = concurrencyLimits.take(client.address)
      if (giveBack === undefined) {
        stats.refused++
        return undefined
      }
      stats.held++
      const wait = { hash, endpoint: 'flashblocks', ms: holdMs, flashblocks: FLASHBLOCKS } as const
      return waits.wait({ ...wait, signal: client.signal }).then((end) => {
        stats[end]++
        giveBack()
      })
    },
  }
}

/** Returns the requested hash if exactly one of the calls requests a receipt. */
function onlyReceipt(calls: readonly Pick<WaitingCall, 'found' | 'params'>[]): Bytes | undefined {
  const receipts = calls.filter(({ found }) => found.about?.is === 'receipt')
  const [first] = receipts
  if (first === undefined || receipts.length > 1) return undefined
  try {
    return hashCodec.decode(first.params[first.found.about!.at])
  } catch (error) {
    if (error instanceof SchemaError) return undefined // The method itself reports the error.
    throw error
  }
}

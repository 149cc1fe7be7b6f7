/**
 * The receipt hold of the flashblocks endpoint: a client library asks for a receipt right after sending and then not again before the
 * next block, so the answer waits for the flashblock that brings it.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { hash as hashCodec } from '../json/codecs.ts'
import { SchemaError } from '../json/schema.ts'
import type { Client } from '../seam/client.ts'
import type { Limits } from '../seam/limits.ts'
import type { TransactionService } from '../seam/ports.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'
import type { ReceiptWaits } from './receipt-waits.ts'
import type { HeldCall } from './shown.ts'

export interface ReceiptHold {
  /** Undefined: nothing to hold for, go on now; else go on when it settles. */
  before(
    calls: readonly Pick<HeldCall, 'found' | 'params'>[],
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
  /** Not held because of a cap. */
  readonly refused: number
}

/** Stock ethers asks for the chain id and the receipt in one batch. */
const BATCH_ITEMS = 4
/**
 * An expected transaction is in the next flashblock, or in the one after when the next was already closed, or a further one later when a
 * busy machine publishes late. At 200 ms that is more than the time limit; with shorter intervals it ends a hold whose transaction was
 * left out.
 */
const FLASHBLOCKS = 3

export function createReceiptHold(options: {
  readonly transactions: TransactionService
  readonly waits: ReceiptWaits
  /** Whether the transaction can be found now. */
  readonly isVisible: (hash: Bytes) => boolean
  /** 0: never hold. */
  readonly holdMs: number
  readonly limits: Pick<Limits, 'holdsPerClient' | 'holdsTotal'>
  readonly caps: OpenCaps
}): ReceiptHold {
  const { transactions, waits, holdMs, limits } = options
  const caps = options.caps('holds', {
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
      const giveBack = caps.take(client.address)
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

/** The hash asked for when exactly one of the calls asks for a receipt. */
function onlyReceipt(calls: readonly Pick<HeldCall, 'found' | 'params'>[]): Bytes | undefined {
  const receipts = calls.filter(({ found }) => found.about?.is === 'receipt')
  const [first] = receipts
  if (first === undefined || receipts.length > 1) return undefined
  try {
    return hashCodec.decode(first.params[first.found.about!.at])
  } catch (error) {
    if (error instanceof SchemaError) return undefined // The method itself says what is wrong.
    throw error
  }
}

/** Methods that send signed transactions. */

import { splitSidecar } from '../../engine/primitives/blob-sidecar.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { isSigned } from '../../engine/primitives/transaction.ts'
import { decodeTransaction } from '../../engine/primitives/transaction-codec.ts'
import { readAccount } from '../../engine/state/read.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import { type Departure, departureReason } from '../../engine/txpool/departed.ts'
import { overloaded, syncTimeout, transactionDropped } from '../core/errors.ts'
import { recordSeenReceipt } from '../events/seen-receipts.ts'
import { bytes, uint64 } from '../json/codecs.ts'
import { receiptAt } from '../json/json.ts'
import { hashResult, textResult } from '../json/results.ts'
import { type PlainCodec, SchemaError } from '../json/schema.ts'
import { type FrontContext, frontMethod, optional, param } from '../method/method.ts'
import { resolveState } from '../method/resolve.ts'
import { submit } from './shared/submission.ts'

const envelope = param('Transaction', bytes)

export const eth_sendRawTransaction = frontMethod({
  name: 'eth_sendRawTransaction',
  summary: 'Adds a signed transaction to the txpool.',
  listed: ['standard', 'flashblocks'],
  hasEffect: true,
  weight: 10,
  params: [envelope],
  result: hashResult('Transaction hash'),
  handler: submit,
})

/** Milliseconds as a number, or as hex, which some clients send. */
const milliseconds: PlainCodec<number> = {
  decode(wire) {
    if (typeof wire === 'number' && Number.isFinite(wire) && wire >= 0) return Math.floor(wire)
    if (typeof wire === 'number') throw new SchemaError('timeout must be a number of milliseconds')
    return Number(uint64.decode(wire))
  },
  encode: (value) => value,
  schema: { title: 'Milliseconds', oneOf: [{ type: 'integer', minimum: 0 }, uint64.schema] },
}

const RETRY_MS = 1_000
const PENDING = { tag: 'pending' } as const
export const eth_sendRawTransactionSync = frontMethod({
  name: 'eth_sendRawTransactionSync',
  summary: 'Adds a signed transaction to the txpool and returns its receipt.',
  hasEffect: true,
  isWaiting: true,
  weight: 10,
  params: [envelope, optional('Timeout', milliseconds, 0)],
  result: textResult('Receipt information', { title: 'Receipt object', type: 'object' }),
  async handler(context, raw, timeoutMs) {
    const { services, limits, client } = context
    const giveBack = services.syncSends.take(client.address)
    if (giveBack === undefined) throw overloaded('too many sends wait for a receipt', RETRY_MS)
    try {
      // A timeout of 0, or above the node's own limit, means that limit.
      const isOwn = timeoutMs > 0 && timeoutMs < limits.syncSendMs
      return await included(context, raw, isOwn ? timeoutMs : limits.syncSendMs)
    } finally {
      giveBack()
    }
  },
})

async function included(context: FrontContext, raw: Bytes, ms: number): Promise<string> {
  const { services, client } = context
  const { endpoint, signal } = client
  const startedAt = services.now()
  const hash = await submit(context, raw)
  for (;;) {
    const departure = await departureOf(context, hash)
    const receipt = context.readNewest((view) => {
      const location = view.findTransaction(hash)
      if (location === undefined) return undefined
      recordSeenReceipt(services, client, { view, location })
      return receiptAt(location.block, location.index)
    })
    if (receipt !== undefined) return receipt
    if (departure !== undefined && isForGood(context, raw, departure))
      throw transactionDropped(bytesToHex(hash), departureReason(departure))
    const left = Math.max(0, startedAt + ms - services.now())
    const further = departure === undefined ? {} : { flashblocks: 1 }
    const end = await services.waits.wait({ hash, endpoint, ms: left, signal, ...further })
    const isLate = end === 'expired' && (departure === undefined || left === 0)
    if (end === 'gone' || isLate) throw syncTimeout(bytesToHex(hash), ms)
  }
}

/**
 * Tells whether no block that the client can see later includes the transaction. A used nonce
 * proves this only where the client's view has used it, too. The reason is that the txpool may have
 * read a newer view, which includes the transaction.
 */
function isForGood({ readNewest }: FrontContext, raw: Bytes, departure: Departure): boolean {
  if (departure.why === 'dropped' || departure.by !== undefined) return true
  const transaction = decodeTransaction(splitSidecar(raw).envelope)
  if (!isSigned(transaction)) return true
  const { from, nonce } = transaction
  try {
    return readNewest(
      (view) => (readAccount(resolveState(view, PENDING), from)?.nonce ?? 0n) > nonce,
    )
  } catch (error) {
    if (error instanceof MissingError || error instanceof ViewError) return false
    throw error
  }
}

/**
 * Returns why the transaction left the txpool without a block; undefined when it is expected or
 * unknown.
 */
async function departureOf(
  { services: { transactions } }: FrontContext,
  hash: Bytes,
): Promise<Departure | undefined> {
  // `isExpected` comes first, because another thread may have the txpool and answer slowly.
  if (transactions.isExpected(hash)) return undefined
  const standing = await transactions.standingOf(hash)
  return standing?.why === 'waits' ? undefined : standing
}

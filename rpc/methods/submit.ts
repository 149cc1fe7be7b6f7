/** Sending signed transactions. */

import { splitSidecar } from '../../engine/primitives/blob-sidecar.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { isSigned } from '../../engine/primitives/transaction.ts'
import { decodeTransaction } from '../../engine/primitives/transaction-codec.ts'
import { readAccount } from '../../engine/state/read.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import { type Departure, departureReason } from '../../engine/txpool/departed.ts'
import { noteShown } from '../events/shown.ts'
import { bytes, uint64 } from '../json/codecs.ts'
import { receiptAt } from '../json/json.ts'
import { hashResult, textResult } from '../json/results.ts'
import { type PlainCodec, SchemaError } from '../json/schema.ts'
import { type FrontContext, frontMethod, optional, param } from '../method/method.ts'
import { resolveState } from '../method/resolve.ts'
import { overloaded, syncTimeout, transactionDropped } from '../seam/errors.ts'
import { submit } from './shared/submission.ts'

const envelope = param('Transaction', bytes)

export const eth_sendRawTransaction = frontMethod({
  name: 'eth_sendRawTransaction',
  summary: 'Takes a signed transaction into the txpool.',
  listed: ['standard', 'flashblocks'],
  hasEffect: true,
  weight: 10,
  params: [envelope],
  result: hashResult('Transaction hash'),
  handler: submit,
})

/** Milliseconds: a number, or hex as some clients send it. */
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
  summary: 'Takes a signed transaction into the txpool and answers with its receipt.',
  hasEffect: true,
  isWaiting: true,
  weight: 10,
  params: [envelope, optional('Timeout', milliseconds, 0)],
  result: textResult('Receipt information', { title: 'Receipt object', type: 'object' }),
  async handler(context, raw, timeoutMs) {
    const { services, limits, client } = context
    const giveBack = services.syncSends.take(client.address)
    if (giveBack === undefined) throw overloaded('too many transactions are waited for', RETRY_MS)
    try {
      // 0, and more than the node waits for anybody, mean its own limit.
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
      const place = view.findTransaction(hash)
      if (place === undefined) return undefined
      noteShown(services, client, { view, place })
      return receiptAt(place.block, place.index)
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
 * Whether no block that the client can see later has it. A used nonce says so only where this client's view has used it too, because
 * the txpool may have read a newer view, which includes the transaction.
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

/** Why it is not in the txpool any more, without a block; undefined: it is expected, or nothing is known of it. */
async function departureOf(
  { services: { transactions } }: FrontContext,
  hash: Bytes,
): Promise<Departure | undefined> {
  // Asked first, because another thread may have the txpool and takes a while to answer.
  if (transactions.isExpected(hash)) return undefined
  const standing = await transactions.standingOf(hash)
  return standing?.why === 'waits' ? undefined : standing
}

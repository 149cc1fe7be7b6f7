/** Sending signed transactions. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { noteShown } from '../events/shown.ts'
import { bytes, uint64 } from '../json/codecs.ts'
import { receiptAt } from '../json/json.ts'
import { hashResult, textResult } from '../json/results.ts'
import { type PlainCodec, SchemaError } from '../json/schema.ts'
import { type FrontContext, frontMethod, optional, param } from '../method/method.ts'
import { overloaded, syncTimeout } from '../seam/errors.ts'
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
    const receipt = context.readNewest((view) => {
      const place = view.findTransaction(hash)
      if (place === undefined) return undefined
      noteShown(services, client, { view, place })
      return receiptAt(place.block, place.index)
    })
    if (receipt !== undefined) return receipt
    const left = startedAt + ms - services.now()
    const end = await services.waits.wait({ hash, endpoint, ms: Math.max(0, left), signal })
    if (end !== 'seen') throw syncTimeout(bytesToHex(hash), ms)
  }
}

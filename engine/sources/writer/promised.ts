/** Reports for the promise ledger about flashblocks that became visible. */

import { hexToBytes } from '../../primitives/hex.ts'
import { isSigned } from '../../primitives/transaction.ts'
import { PROMISED_BYTES } from '../../storage/ledger-types.ts'
import type { LiveBlock } from './live-block.ts'
import { emit, type WriterState } from './writer-state.ts'

/**
 * Reports a visible index 0. Promises of competing payloads at its height learn of it, even if it
 * promises nothing.
 */
export function reportPayload(state: WriterState, { handle, payloadId, index }: LiveBlock): void {
  if (payloadId === undefined || index > 0) return
  const { number } = handle
  emit(state, {
    type: 'persistence',
    request: { type: 'payload', number, payloadId: hexToBytes(payloadId) },
  })
}

/**
 * Reports the newest flashblock's promises. Deposits are excluded, because any block at the height
 * has them again.
 * @param from the flashblock's first transaction
 */
export function reportPromised(state: WriterState, block: LiveBlock, from: number): void {
  const { handle, payloadId, index, open } = block
  if (payloadId === undefined || open === undefined) return
  const promised = open.execution.executed.flatMap(({ transaction }, position) =>
    position < from || !isSigned(transaction) ? [] : [{ transaction, position }],
  )
  if (promised.length === 0) return
  const transactions = new Uint8Array(promised.length * PROMISED_BYTES)
  const view = new DataView(transactions.buffer)
  for (const [at, { transaction, position }] of promised.entries()) {
    const to = at * PROMISED_BYTES
    transactions.set(transaction.hash, to)
    transactions.set(transaction.from, to + 32)
    view.setBigUint64(to + 52, transaction.nonce)
    view.setUint32(to + 60, position)
  }
  const { now, wallMs = now } = state.options
  emit(state, {
    type: 'persistence',
    request: {
      type: 'promise',
      promised: {
        number: handle.number,
        payloadId: hexToBytes(payloadId),
        index,
        transactions,
        atMs: wallMs(),
      },
    },
  })
}

/** Reports that one index of the payload in progress came with different flashblocks. */
export function reportSuspicion(state: WriterState): void {
  const { payload } = state.sequence
  if (payload === undefined) return
  const { payloadId, number } = payload
  emit(state, {
    type: 'persistence',
    request: { type: 'suspicion', number: Number(number), payloadId: hexToBytes(payloadId) },
  })
}

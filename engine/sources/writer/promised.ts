/** What flashblocks promise, as the ledger is told: of each that was shown, once it was. */

import { hexToBytes } from '../../primitives/hex.ts'
import { isSigned } from '../../primitives/transaction.ts'
import { PROMISED_BYTES } from '../../storage/ledger-types.ts'
import type { LiveBlock } from './live-block.ts'
import { emit, type WriterState } from './state.ts'

/** Index 0 was shown: what another payload of its height promised is told that there is this one, whatever it promises itself. */
export function tellPayload(state: WriterState, { handle, payloadId, index }: LiveBlock): void {
  if (payloadId === undefined || index > 0) return
  const { number } = handle
  emit(state, {
    type: 'keeper',
    request: { type: 'payload', number, payloadId: hexToBytes(payloadId) },
  })
}

/** The newest flashblock of a block; `from`: its first transaction. Deposits are no promises: they come again whatever the block becomes. */
export function tellPromised(state: WriterState, block: LiveBlock, from: number): void {
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
    type: 'keeper',
    request: {
      type: 'promise',
      promised: {
        ...{ number: handle.number, payloadId: hexToBytes(payloadId), index, transactions },
        atMs: wallMs(),
      },
    },
  })
}

/** A flashblock of the payload in progress was told in two ways. */
export function tellDoubt(state: WriterState): void {
  const { payload } = state.sequence
  if (payload === undefined) return
  const { payloadId, number } = payload
  emit(state, {
    type: 'keeper',
    request: { type: 'doubt', number: Number(number), payloadId: hexToBytes(payloadId) },
  })
}

/** Outcomes of transactions in one buffer: an object for each log would cost a thread more to hand over than to make. */
import type { TakenOutcome } from '../../execution/block/joined.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Log } from '../../primitives/receipt.ts'
import { concatBytes } from '../../primitives/words.ts'
import { malformed } from './fields.ts'

export type ToldOutcome = TakenOutcome & { readonly gasUsed: bigint }

/**
 * Each: status (1) ‖ cumulative gas (8) ‖ gas used (8) ‖ whether it has a deposit nonce (1) ‖ that (8) ‖ count of logs (4), then of each log
 * address (20) ‖ count of topics (1) ‖ topics (32) ‖ length of its data (4) ‖ data. Numbers are big-endian.
 */
export function packOutcomes(outcomes: readonly ToldOutcome[]): Bytes {
  const pieces: Bytes[] = []
  for (const { isSuccess, cumulativeGasUsed, gasUsed, depositNonce, logs } of outcomes) {
    const head = new Uint8Array(HEAD_BYTES)
    const view = new DataView(head.buffer)
    head[0] = isSuccess ? 1 : 0
    view.setBigUint64(1, cumulativeGasUsed)
    view.setBigUint64(9, gasUsed)
    head[17] = depositNonce === undefined ? 0 : 1
    view.setBigUint64(18, depositNonce ?? 0n)
    view.setUint32(26, logs.length)
    pieces.push(head)
    for (const { address, topics, data } of logs) {
      const length = new Uint8Array(4)
      new DataView(length.buffer).setUint32(0, data.length)
      pieces.push(address, Uint8Array.of(topics.length), ...topics, length, data)
    }
  }
  return concatBytes(...pieces)
}

const HEAD_BYTES = 30

/** @throws {LeaderError} when they are not so many, or not as packOutcomes makes them */
export function checkOutcomes(bytes: Bytes, count: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  const take = (length: number): number => {
    if (length > bytes.length - at) throw malformed('outcomes', 'more bytes')
    at += length
    return at - length
  }
  for (let left = count; left > 0; left--) {
    const from = take(HEAD_BYTES)
    if (bytes[from]! > 1 || bytes[from + 17]! > 1) throw malformed('outcomes', '0 or 1')
    for (let logs = view.getUint32(from + 26); logs > 0; logs--) {
      const topics = bytes[take(21) + 20]!
      if (topics > 4) throw malformed('topics', 'at most four')
      take(view.getUint32(take(topics * 32 + 4) + topics * 32))
    }
  }
  if (at !== bytes.length) throw malformed('outcomes', 'one for each transaction')
}

/** Byte strings are views into `bytes`. */
export function unpackOutcomes(bytes: Bytes): readonly ToldOutcome[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const outcomes: ToldOutcome[] = []
  let at = 0
  const take = (length: number): Bytes => {
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const from = at
    take(HEAD_BYTES)
    const logs: Log[] = []
    for (let left = view.getUint32(from + 26); left > 0; left--) {
      const address = take(20)
      const topics = Array.from({ length: take(1)[0]! }, () => take(32))
      const length = view.getUint32(at)
      take(4)
      logs.push({ address, topics, data: take(length) })
    }
    outcomes.push({
      isSuccess: bytes[from] === 1,
      cumulativeGasUsed: view.getBigUint64(from + 1),
      gasUsed: view.getBigUint64(from + 9),
      depositNonce: bytes[from + 17] === 1 ? view.getBigUint64(from + 18) : undefined,
      logs,
    })
  }
  return outcomes
}

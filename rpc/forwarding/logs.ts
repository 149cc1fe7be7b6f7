/**
 * Merges the results of a log query that this node answers from block `cutoff` on. Another node
 * answers for the earlier blocks: the older chain's node, or the upstream of a lazy state.
 */

import { broken, type RpcError, type RpcErrorObject } from '../core/errors.ts'
import { uint64 } from '../json/codecs.ts'
import { asciiJson } from '../json/envelope.ts'

/**
 * Range that the other node answers, from `fromBlock` to `cutoff` (exclusive). The cutoff is this
 * chain's first block, or the oldest block with local state.
 */
export type ForwardedRange = { readonly fromBlock: bigint; readonly cutoff: bigint }

/**
 * Merges the logs of both nodes to the JSON text of one list, in order of block, transaction and
 * log.
 * @param theirs the other node's parsed response in any order; logs outside of `range` are left out
 * @param ours compact JSON text of this node's logs, sorted, all at `cutoff` or later; `[]` if none
 * @throws {RpcError} with code `internal`, when the other node's response is no list of logs
 */
export function mergedLogs(theirs: unknown, ours: string, range: ForwardedRange): string {
  if (!Array.isArray(theirs)) throw noLogs('a list of logs expected')
  const sorted = theirs
    .map((log: unknown) => ({ log, position: positionOf(log) }))
    .filter(({ position: [number] }) => number >= range.fromBlock && number < range.cutoff)
    .toSorted((a, b) => compare(a.position, b.position))
  if (sorted.length === 0) return ours
  const texts = sorted.map(({ log }) => asciiJson(log)).join(',')
  return ours === '[]' ? `[${texts}]` : `[${texts},${ours.slice(1)}`
}

/**
 * Adapts an error of this node's part to the full query: a suggested range starts where the query
 * does. An error without a suggested range is returned unchanged.
 */
export function rangeError(
  error: RpcErrorObject,
  { fromBlock, cutoff }: ForwardedRange,
): RpcErrorObject {
  const { suggestedRange, ...others } = (error.data ?? {}) as { readonly suggestedRange?: object }
  if (suggestedRange === undefined) return error
  const { code, message } = error
  const fullRange = { ...suggestedRange, fromBlock: `0x${fromBlock.toString(16)}` }
  return {
    code,
    message: `from block ${cutoff} on: ${message}`,
    data: { ...others, suggestedRange: fullRange },
  }
}

type LogPosition = readonly [number: bigint, transaction: bigint, log: bigint]

function positionOf(log: unknown): LogPosition {
  const { blockNumber, transactionIndex, logIndex } = (log ?? {}) as Readonly<
    Record<string, unknown>
  >
  try {
    return [uint64.decode(blockNumber), uint64.decode(transactionIndex), uint64.decode(logIndex)]
  } catch {
    throw noLogs('a log without blockNumber, transactionIndex or logIndex')
  }
}

function compare(a: LogPosition, b: LogPosition): number {
  const at = a.findIndex((value, index) => value !== b[index])
  if (at < 0) return 0
  return a[at]! < b[at]! ? -1 : 1
}

const noLogs = (problem: string): RpcError => broken(`Invalid legacy response: ${problem}`)

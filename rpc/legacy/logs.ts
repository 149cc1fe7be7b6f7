/** Log queries over both chains: the older one's part goes before this one's. */

import { uint64 } from '../json/codecs.ts'
import { asciiJson } from '../json/envelope.ts'
import { broken, type RpcError, type RpcErrorObject } from '../seam/errors.ts'

/** From the first block of the query to this chain's first. */
export type LegacyRange = { readonly fromBlock: bigint; readonly cutoff: bigint }

/**
 * JSON text of both lists, in order of block, transaction and log.
 * @param theirs the other node's answer, in whatever order; logs of blocks outside of the range are left out
 * @param ours JSON text of a list
 * @throws {RpcError} when the other node's answer is no list of logs
 */
export function mergedLogs(theirs: unknown, ours: string, range: LegacyRange): string {
  if (!Array.isArray(theirs)) throw noLogs('a list of logs expected')
  const placed = theirs
    .map((log: unknown) => ({ log, place: placeOf(log) }))
    .filter(({ place: [number] }) => number >= range.fromBlock && number < range.cutoff)
    .toSorted((a, b) => compare(a.place, b.place))
  if (placed.length === 0) return ours
  const texts = placed.map(({ log }) => asciiJson(log)).join(',')
  return ours === '[]' ? `[${texts}]` : `[${texts},${ours.slice(1)}`
}

/** What is wrong with this chain's part of a query is said of the whole: a suggested range begins where the query does. */
export function rangeError(
  error: RpcErrorObject,
  { fromBlock, cutoff }: LegacyRange,
): RpcErrorObject {
  const { suggestedRange, ...others } = (error.data ?? {}) as { readonly suggestedRange?: object }
  if (suggestedRange === undefined) return error
  const { code, message } = error
  const whole = { ...suggestedRange, fromBlock: `0x${fromBlock.toString(16)}` }
  return {
    code,
    message: `from block ${cutoff} on: ${message}`,
    data: { ...others, suggestedRange: whole },
  }
}

type Place = readonly [number: bigint, transaction: bigint, log: bigint]

function placeOf(log: unknown): Place {
  const { blockNumber, transactionIndex, logIndex } = (log ?? {}) as Readonly<
    Record<string, unknown>
  >
  try {
    return [uint64.decode(blockNumber), uint64.decode(transactionIndex), uint64.decode(logIndex)]
  } catch {
    throw noLogs('a log without blockNumber, transactionIndex or logIndex')
  }
}

function compare(a: Place, b: Place): number {
  const at = a.findIndex((value, index) => value !== b[index])
  if (at < 0) return 0
  return a[at]! < b[at]! ? -1 : 1
}

const noLogs = (problem: string): RpcError => broken(`Invalid legacy response: ${problem}`)

/** What is wrong in a data directory: which row, and what to do about it. */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import type { ColumnName } from '../storage/database/columns.ts'

/** One row, or several that cannot be told apart. */
export type Finding = {
  /** A column of the database, or the name of a journal. */
  readonly where: ColumnName | 'transactions.journal' | 'flashblocks.journal'
  /** Hex; undefined: a row that is not there, or more than one. */
  readonly key: string | undefined
  readonly block: number | undefined
  readonly message: string
  readonly advice: string
}
export type Place = {
  readonly where: Finding['where']
  readonly key?: Bytes | undefined
  readonly block?: number | undefined
}

export interface Findings {
  /** Further ones of a row that was named are left out. */
  add(place: Place, message: string): void
  isNamed(place: Place): boolean
  /** How many rows were named, those that are not kept included. */
  readonly count: number
  /** Those that an execution may have read. */
  readonly stateCount: number
  readonly kept: readonly Finding[]
}

/** Findings that are kept; of a directory with more one knows enough. */
export const MOST_FINDINGS = 1_000

/** @param isLazy the directory is one of fetched state */
export function createFindings(isLazy: boolean): Findings {
  const kept: Finding[] = []
  const named = new Set<string>()
  let count = 0
  let stateCount = 0
  const nameOf = ({ where, key }: Place) => `${where} ${key === undefined ? '' : bytesToHex(key)}`
  return {
    add(place, message) {
      const name = nameOf(place)
      if (place.key !== undefined && named.has(name)) return
      count++
      if (STATE.includes(place.where)) stateCount++
      if (kept.length >= MOST_FINDINGS) return
      named.add(name)
      const { where, key, block } = place
      const advice = adviceOf(where, isLazy)
      kept.push({ where, key: key && bytesToHex(key), block, message, advice })
    },
    isNamed: (place) => named.has(nameOf(place)),
    get count() {
      return count
    },
    get stateCount() {
      return stateCount
    },
    kept,
  }
}

/** What an execution reads: what comes out of it otherwise may follow from these. */
const STATE: readonly Finding['where'][] = [
  ...(['accounts', 'slots', 'accountHistory', 'slotHistory', 'code', 'numbers'] as const),
]

function adviceOf(where: Finding['where'], isLazy: boolean): string {
  switch (where) {
    case 'transactions.journal':
      return 'the next start leaves it out, after a copy of the file: send its transaction again'
    case 'flashblocks.journal':
      return '`dev` does not start with it: put back a copy, or move it away: blocks that only this file has are then built anew; `follow` keeps what stands before it, after a copy of the file'
    case 'ledger':
      return 'flashblocks_transactionStatus and flashblocks_stats are in doubt, nothing else: it goes after --ledger-hours'
    case 'momentary':
      return 'one flashblock answers wrongly by its hash, nothing else: it goes with the next 64 blocks'
    default:
      return isLazy
        ? 'stop the node, move the directory away and let `follow` begin a new one'
        : 'stop the node, move the directory away and make it again with the command that made it, or put back a copy'
  }
}

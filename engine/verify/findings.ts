/** Findings in a data directory or a journal: the damaged row, and advice. */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import type { ColumnName } from '../storage/database/columns.ts'
import { type CheckedJournal, describeDamage } from '../storage/directory/journal.ts'

/** A damaged row, or several that cannot be distinguished. */
export type Finding = {
  /** A column of the database, or the name of a journal. */
  readonly where: ColumnName | 'transactions.journal' | 'flashblocks.journal'
  /** Hex; undefined: a missing row, or several. */
  readonly key: string | undefined
  readonly block: number | undefined
  readonly message: string
  readonly advice: string
}
export type Location = {
  readonly where: Finding['where']
  readonly key?: Bytes | undefined
  readonly block?: number | undefined
}

export interface Findings {
  /** Adds a finding. Further findings about the same row are ignored. */
  add(location: Location, message: string): void
  isNamed(location: Location): boolean
  /** Number of damaged rows, including those beyond `retained`. */
  readonly count: number
  /** Number of damaged rows that an execution may read. */
  readonly stateCount: number
  readonly retained: readonly Finding[]
}

export const MAX_FINDINGS = 1_000

/** @param isLazy whether the directory has fetched state */
export function createFindings(isLazy: boolean): Findings {
  const retained: Finding[] = []
  const named = new Set<string>()
  let count = 0
  let stateCount = 0
  const nameOf = ({ where, key }: Location) =>
    `${where} ${key === undefined ? '' : bytesToHex(key)}`
  return {
    add(location, message) {
      const name = nameOf(location)
      if (location.key !== undefined && named.has(name)) return
      count++
      if (STATE.includes(location.where)) stateCount++
      if (retained.length >= MAX_FINDINGS) return
      named.add(name)
      const { where, key, block } = location
      const advice = adviceOf(where, isLazy)
      retained.push({ where, key: key && bytesToHex(key), block, message, advice })
    },
    isNamed: (location) => named.has(nameOf(location)),
    get count() {
      return count
    },
    get stateCount() {
      return stateCount
    },
    retained,
  }
}

/** Columns that an execution reads. A wrong result may follow from damage there. */
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

/**
 * Reports damage of a journal. An entry at the end that a kill cut short is no damage; the next
 * start drops it.
 */
export function journalFinding(
  where: 'transactions.journal' | 'flashblocks.journal',
  journal: CheckedJournal | undefined,
): readonly Finding[] {
  if (journal === undefined || journal.damages.length === 0) return []
  const findings = createFindings(false)
  findings.add(
    { where },
    `${describeDamage(journal.damages)}; ${journal.records} records are right`,
  )
  return findings.retained
}

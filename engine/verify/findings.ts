/** Findings in a data directory or a journal: the damaged row, and advice. */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import type { ColumnName } from '../storage/database/columns.ts'
import { type CheckedJournal, describeDamage } from '../storage/directory/journal.ts'

/** One damaged row, several damaged rows that share a message, or a damaged journal. */
export type Finding = {
  /** A column of the database, or the name of a journal. */
  readonly where: ColumnName | 'transactions.journal' | 'flashblocks.journal'
  /**
   * Key of the row as 0x-hex. undefined: the key is unknown, or the finding covers several rows or
   * a journal.
   */
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
  /**
   * Adds a finding. A repeated column and key is ignored if `retained` has the first finding.
   * Findings without a key are never ignored.
   */
  add(location: Location, message: string): void
  /** Returns whether `retained` has a finding with this `where` and key. The block is ignored. */
  isNamed(location: Location): boolean
  /**
   * Number of findings, including those beyond `retained`. Once `retained` is full, a repeated row
   * may count again.
   */
  readonly count: number
  /** Number of findings, as in `count`, in columns that an execution reads. */
  readonly stateCount: number
  /** The first findings, at most `MAX_FINDINGS`. */
  readonly retained: readonly Finding[]
}

/** Maximum length of `retained`. */
export const MAX_FINDINGS = 1_000

/**
 * Creates an empty list of findings for one check of a directory or a journal.
 * @param isLazy the directory has only the state that was fetched on read; this changes the advice
 */
export function createFindings(isLazy: boolean): Findings {
  const retained: Finding[] = []
  const retainedNames = new Set<string>()
  let count = 0
  let stateCount = 0
  const nameOf = ({ where, key }: Location) =>
    `${where} ${key === undefined ? '' : bytesToHex(key)}`
  return {
    add(location, message) {
      const name = nameOf(location)
      if (location.key !== undefined && retainedNames.has(name)) return
      count++
      if (STATE.includes(location.where)) stateCount++
      if (retained.length >= MAX_FINDINGS) return
      retainedNames.add(name)
      const { where, key, block } = location
      const advice = adviceOf(where, isLazy)
      retained.push({ where, key: key && bytesToHex(key), block, message, advice })
    },
    isNamed: (location) => retainedNames.has(nameOf(location)),
    get count() {
      return count
    },
    get stateCount() {
      return stateCount
    },
    retained,
  }
}

/**
 * Columns that an execution reads. A wrong result may follow from damage there. `numbers` has the
 * hashes that BLOCKHASH returns.
 */
const STATE: readonly Finding['where'][] = [
  ...(['accounts', 'slots', 'accountHistory', 'slotHistory', 'code', 'numbers'] as const),
]

/** Returns what the operator should do about a damaged row or journal, and its effect. */
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
 * Converts the damage of a journal to one finding without a key, for `flashnode verify`. An entry
 * at the end that a kill cut short is no damage, because the next start drops it.
 * @param journal undefined: there is no such journal
 * @returns empty if the journal has no damage
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

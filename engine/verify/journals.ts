/** What a look at a journal says. */
import { type CheckedJournal, describeDamage } from '../storage/directory/journal.ts'
import { createFindings, type Finding } from './findings.ts'

/** What a kill cut short at its end is not wrong: the next start drops it. */
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
  return findings.kept
}

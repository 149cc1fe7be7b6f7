/** What a look at a journal says. */
import type { CheckedJournal } from '../storage/directory/journal.ts'
import { createFindings, type Finding } from './findings.ts'

/** What a kill cut short at its end is not wrong: the next start drops it. */
export function journalFinding(
  where: 'transactions.journal' | 'flashblocks.journal',
  journal: CheckedJournal | undefined,
): readonly Finding[] {
  if (journal?.damagedAt === undefined) return []
  const { records, damagedAt, tornBytes } = journal
  const findings = createFindings(false)
  findings.add(
    { where },
    `the record at byte ${damagedAt} is not what its checksum says: ${records} stand before it, ${tornBytes} bytes from there on`,
  )
  return findings.kept
}

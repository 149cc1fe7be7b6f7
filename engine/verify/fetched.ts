/** State that was fetched, by the checksums that stand behind its values: a lazy directory has no root to hold it to. */
import { bytesToHex } from '../primitives/hex.ts'
import { checkChecksum } from '../storage/blocks/checked-row.ts'
import { hasHistory } from '../storage/keeper/fetched.ts'
import { ALL, type Verifying } from './verifying.ts'

const ADDRESS_BYTES = 20

/** Each `next` has looked at one row more. */
export function* checkFetched({
  database,
  findings,
  counts,
}: Verifying): Generator<undefined, void> {
  for (const where of ['accounts', 'slots'] as const)
    for (const { key, value } of database.scan(where, ALL)) {
      yield
      const isMark = where === 'slots' && key.length === ADDRESS_BYTES
      // Nothing can be said of what is absent: it has no bytes.
      if (isMark || value.length === 0) continue
      const found = checkChecksum(key, value)
      if (found === 'wrong')
        findings.add(
          { where, key },
          `is not what its checksum says: ${bytesToHex(value)} was not what was fetched`,
        )
      else if (found === 'right') counts.fetched++
      // What a block has written follows from its execution.
      else if (!hasHistory(database, key)) counts.unproven++
    }
}

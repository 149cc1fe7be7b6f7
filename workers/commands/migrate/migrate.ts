/** Migrates a data directory, prints the steps, and returns a status. */

import { diskAdvice } from '../../../engine/storage/database/disk.ts'
import { DatabaseError } from '../../../engine/storage/database/options.ts'
import { DirectoryError } from '../../../engine/storage/directory/marker.ts'
import { migrateDirectory } from '../../../engine/storage/directory/migrate.ts'
import { SCHEMA_VERSION } from '../../../engine/storage/directory/schema.ts'
import { lastWords } from '../../observe/reporter.ts'
import { StartError } from '../../process/context.ts'
import { checkOpenFiles } from '../../process/open-files.ts'

const EXPECTED = [DirectoryError, DatabaseError, StartError]

/** Returns the exit status. A signal ends the process at once, and the next run continues. */
export async function runMigration(path: string): Promise<number> {
  try {
    checkOpenFiles()
    const from = await migrateDirectory({
      path,
      onStep({ from, to, text, isResumed }) {
        const how = isResumed ? 'continues' : 'starts'
        process.stdout.write(`format ${from} to ${to} ${how}: ${text}\n`)
      },
    })
    process.stdout.write(
      from === SCHEMA_VERSION
        ? `${path} has format ${SCHEMA_VERSION} already: nothing to do\n`
        : `${path} has format ${SCHEMA_VERSION} now\n`,
    )
    return 0
  } catch (error) {
    if (!EXPECTED.some((kind) => error instanceof kind)) throw error
    const { message } = error as Error
    const isDisk = error instanceof DatabaseError
    const advice = isDisk ? `; ${diskAdvice(message)}, then run the command again` : ''
    lastWords(`${message}${advice}`)
    return 1
  }
}

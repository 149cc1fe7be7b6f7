/** How an older format becomes the next one: the steps there are, and what a step is. */
import type { Bytes } from '../../primitives/bytes.ts'
import { indexOlderLogs } from '../blocks/log-index.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { DirectoryError } from './marker.ts'

/** One format to the next. */
export type Migration = {
  /** What changes, in a few words for the operator. */
  readonly text: string
  /**
   * Puts the next piece of work into `batch`, some hundred rows, and returns where the one after it begins; undefined: this was the
   * last. `from` is undefined at first. What is put and what is returned are committed together: no piece is done twice, and
   * `database` holds every piece before it. A history column can be walked from its beginning only: a seek into its middle looks at
   * the files of one prefix.
   */
  slice(database: Database, batch: WriteBatch, from: Bytes | undefined): Bytes | undefined
}

/** By the version they start from. */
export type Migrations = Readonly<Record<number, Migration>>

/** Version 1 is the first that there was. */
export const MIGRATIONS: Migrations = {
  1: { text: 'an index of the logs of all blocks', slice: indexOlderLogs },
  // Rows of both forms are read, and written again in the new one when they change: an older flashnode must not open it any more.
  2: { text: 'small trie nodes in the rows of their parents', slice: () => undefined },
  // The same: what a block replaced is read in both forms, and an older flashnode would take a patch for a node.
  3: { text: 'what blocks replaced in the tries as patches', slice: () => undefined },
  // Rows of whole directories stay; an older flashnode would take what is not fetched yet for absent.
  4: { text: 'directories whose state is fetched as it is needed', slice: () => undefined },
  // A column more: an older flashnode cannot open the database any more.
  5: { text: 'a ledger of what flashblocks promised', slice: () => undefined },
  // Rows without one are read alike; an older flashnode would take the checksum for a part of the value.
  6: { text: 'checksums of state that was fetched', slice: () => undefined },
}

export type MigrationStep = { readonly from: number; readonly migration: Migration }

/** One step after the other. @throws {DirectoryError} 'older' when one is missing */
export function stepsFrom(
  path: string,
  from: number,
  { to, migrations }: { readonly to: number; readonly migrations: Migrations },
): readonly MigrationStep[] {
  const steps: MigrationStep[] = []
  for (let version = from; version < to; version++) {
    const migration = migrations[version]
    if (migration === undefined)
      throw new DirectoryError(
        'older',
        `${path} has format ${from}, which cannot be migrated to ${to}: give --datadir another directory`,
      )
    steps.push({ from: version, migration })
  }
  return steps
}

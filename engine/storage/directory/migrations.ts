/** The migrations from each format to the next. */
import type { Bytes } from '../../primitives/bytes.ts'
import { indexOlderLogs } from '../blocks/log-index.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { DirectoryError } from './marker.ts'

/** Migration from one format to the next. */
export type Migration = {
  /** Change in a few words, for the operator. */
  readonly text: string
  /**
   * Puts the next piece of work, some hundred rows, into `batch`. The batch and the returned
   * position are committed together, so that no piece is done twice. `database` has every earlier
   * piece. A history column can only be scanned from its start, because a seek reads the files of
   * one prefix.
   * @param from position of the piece, undefined at first
   * @returns position of the next piece, undefined after the last
   */
  slice(database: Database, batch: WriteBatch, from: Bytes | undefined): Bytes | undefined
}

/** Migrations by the version they start from. */
export type Migrations = Readonly<Record<number, Migration>>

/** Version 1 is the oldest. */
export const MIGRATIONS: Migrations = {
  1: { text: 'an index of the logs of all blocks', slice: indexOlderLogs },
  // Both forms are read, and a change writes the new one. An older flashnode must not open the
  // directory any more.
  2: { text: 'small trie nodes in the rows of their parents', slice: () => undefined },
  // Undo rows are read in both forms. An older flashnode would take a patch for a node.
  3: { text: 'what blocks replaced in the tries as patches', slice: () => undefined },
  // Rows of directories with full state stay. An older flashnode would take unfetched state for
  // absent.
  4: { text: 'directories whose state is fetched as it is needed', slice: () => undefined },
  // A column is added, so that an older flashnode cannot open the database any more.
  5: { text: 'a ledger of what flashblocks promised', slice: () => undefined },
  // Rows without a checksum are read too. An older flashnode would take the checksum for a part of
  // the value.
  6: { text: 'checksums of state that was fetched', slice: () => undefined },
}

export type MigrationStep = { readonly from: number; readonly migration: Migration }

/**
 * Lists the migrations from a version to another.
 * @throws {DirectoryError} 'older' when one is missing
 */
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

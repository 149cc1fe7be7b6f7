/**
 * Migrates a data directory of an older format to this one. A killed migration continues at its
 * last slice.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { concatBytes } from '../../primitives/words.ts'
import { decodeNumber, encodeNumber } from '../blocks/block-codec.ts'
import { type LogLength, openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import { DirectoryError, readMarker, writeMarker } from './marker.ts'
import { MIGRATIONS, type Migration, type Migrations, stepsFrom } from './migrations.ts'
import { openState, refuseNewer, SCHEMA_VERSION } from './schema.ts'

export type MigrateOptions = {
  readonly path: string
  readonly migrations?: Migrations
  /** Called once per step, before its first slice. */
  readonly onStep?: (step: { from: number; to: number; text: string; isResumed: boolean }) => void
}

/**
 * Migrates a directory and returns its former format. The marker names the new format before the
 * first row is written, so that no older program opens the directory. Until the end it also says
 * that the migration is unfinished.
 * @throws {DirectoryError} {DatabaseError}
 */
export async function migrateDirectory(options: MigrateOptions): Promise<number> {
  const { path, migrations = MIGRATIONS, onStep } = options
  const marker = readMarker(path)
  if (marker === undefined)
    throw new DirectoryError(
      'foreign',
      `${path} holds no chain to migrate: give --datadir a directory that a flashnode has filled`,
    )
  refuseNewer(path, marker)
  const first = marker.migratesFrom ?? marker.version
  const steps = stepsFrom(path, first, { to: SCHEMA_VERSION, migrations })
  if (steps.length === 0) return first
  // The database's lock excludes all other processes now.
  const database = await openState(path, {})
  const log = openLogLength(database)
  try {
    for (const { from, migration } of steps) {
      const to = from + 1
      const isResumed = marker.migratesFrom === from
      onStep?.({ from, to, text: migration.text, isResumed })
      if (!isResumed) writeMarker(path, { ...marker, version: to, migratesFrom: from })
      runSlices(log, migration, to)
      writeMarker(path, { ...marker, version: to, migratesFrom: undefined })
    }
  } finally {
    await database.close()
  }
  return first
}

/** Runs the slices of a step. Each one is committed with the start of the next. */
function runSlices(log: LogLength, migration: Migration, to: number): void {
  const { database } = log
  const batch = database.batch()
  for (let at = progressOf(database, to); at !== 'done'; ) {
    const next = migration.slice(database, batch, at)
    batch.put('meta', META.migration, encodeProgress(to, next))
    // The last slice must be on the disk before the marker says that the step is finished.
    batch.commit({ isSynced: next === undefined })
    at = next ?? 'done'
    for (const _ of log.shorten());
  }
}

/** Start of the next slice of the migration to this version; undefined at the first one. */
function progressOf(database: Database, to: number): Bytes | undefined | 'done' {
  const row = database.get('meta', META.migration)
  if (row === undefined || decodeNumber(row) !== to) return undefined
  return row[8] === DONE ? 'done' : row.slice(9)
}

/** Version (8) ‖ done (1) ‖ start of the next slice. */
const encodeProgress = (to: number, next: Bytes | undefined): Bytes =>
  concatBytes(
    encodeNumber(to),
    Uint8Array.of(next === undefined ? DONE : GOING_ON),
    next ?? NO_BYTES,
  )
const DONE = 1
const GOING_ON = 0

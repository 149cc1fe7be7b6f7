/**
 * The directory of a node is converted to an older format. The command that migrates it is killed
 * again and again until the migration is done.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { checksum } from '../../../engine/primitives/checksum.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { COLUMN_NAMES } from '../../../engine/storage/database/columns.ts'
import { META } from '../../../engine/storage/database/meta.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { readMarker, writeMarker } from '../../../engine/storage/directory/marker.ts'
import { openState } from '../../../engine/storage/directory/schema.ts'
import { makeOlder, OLDER_VERSION, sliceCount } from '../../fixtures/older-schema.ts'
import { ALL_KEYS } from '../../fixtures/stored-rows.ts'
import { type Edit, editedEnv, editedExecArgv } from '../../kit/edits.ts'
import { EACH_SLICE, killAt, MIGRATION_POINTS, type Point, WITH_OLDER_SCHEMA } from './points.ts'

export type MigrationKills = {
  /** The number of kills by the name of the point. */
  readonly kills: ReadonlyMap<string, number>
  readonly found: readonly string[]
  readonly rows: number
  /** Starts that were refused because a migration was incomplete. */
  readonly refused: number
}

/** Kills migrations of `datadir`, which has a chain in today's format before and after. */
export async function killMigrations(options: {
  readonly datadir: string
  readonly rounds: number
  readonly random: () => number
  readonly isInTime: () => boolean
}): Promise<MigrationKills> {
  const { datadir, rounds, random, isInTime } = options
  const kills = new Map(MIGRATION_POINTS.map(({ name }) => [name, 0]))
  const found: string[] = []
  const before = await withState(datadir, rowsOf)
  let refused = 0
  const slices = await withState(datadir, sliceCount)
  /**
   * Whether the kill happened; false: the rest of the migration did not reach the point, and is
   * done.
   */
  const isKilled = async (point: Point): Promise<boolean> => {
    const times = point.times === EACH_SLICE ? slices : 1
    const edit = killAt(point, 1 + Math.floor(random() * times))
    return (await run(['migrate', '--datadir', datadir], edit)).signal === 'SIGKILL'
  }
  for (let round = 0; round < rounds && (round === 0 || isInTime()); round++) {
    await startMigration(datadir)
    for (const point of MIGRATION_POINTS) {
      // A migration that resumes after a kill is tried first; a migration from its start reaches
      // every point.
      if (!(await isKilled(point))) {
        await startMigration(datadir)
        if (!(await isKilled(point))) continue
      }
      kills.set(point.name, kills.get(point.name)! + 1)
      const start = await run(['serve', '--datadir', datadir, '--port', '0'])
      if (start.code === 1 && start.errors.includes(`flashnode migrate --datadir ${datadir}`))
        refused++
      else found.push(`${point.name}: a start ends with ${start.code} and "${start.errors}"`)
    }
    const last = await run(['migrate', '--datadir', datadir])
    if (last.code !== 0) found.push(`the last run ends with ${last.code} and "${last.errors}"`)
    const after = await withState(datadir, rowsOf)
    for (const [row, value] of before)
      if (after.get(row) !== value) found.push(`row ${row} is another`)
    if (after.size !== before.size) found.push(`${after.size} rows, there were ${before.size}`)
  }
  return { kills, found, rows: before.size, refused }
}

async function startMigration(datadir: string): Promise<void> {
  await withState(datadir, makeOlder)
  writeMarker(datadir, { ...readMarker(datadir)!, version: OLDER_VERSION })
}

async function withState<T>(datadir: string, work: (database: Database) => T): Promise<T> {
  const database = await openState(datadir, {})
  try {
    return work(database)
  } finally {
    await database.close()
  }
}

/** Reads every row but the progress of the migration; values are checksums. */
function rowsOf(database: Database): ReadonlyMap<string, bigint> {
  const rows = new Map<string, bigint>()
  for (const column of COLUMN_NAMES)
    for (const { key, value } of database.scan(column, ALL_KEYS))
      rows.set(`${column} ${bytesToHex(key)}`, checksum(value))
  rows.delete(`meta ${bytesToHex(META.migration)}`)
  return rows
}

async function run(argv: readonly string[], ...edits: readonly Edit[]) {
  const child = spawn(process.execPath, [...editedExecArgv, 'workers/main.ts', ...argv], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: editedEnv([WITH_OLDER_SCHEMA, ...edits]),
  })
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  return { code, signal, errors }
}

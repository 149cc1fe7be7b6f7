/** The directory of a node, made older, and the command that migrates it killed until nothing is left to do. */
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
  /** By the name of the place. */
  readonly kills: ReadonlyMap<string, number>
  readonly found: readonly string[]
  readonly rows: number
  /** Starts that were refused because a migration was not done. */
  readonly refused: number
}

/** `datadir` holds a chain of today's format, and does so again when this returns. */
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
  /** False: what was left of the migration had no such place any more, and is done. */
  const isKilled = async (point: Point): Promise<boolean> => {
    const times = point.times === EACH_SLICE ? slices : 1
    const edit = killAt(point, 1 + Math.floor(random() * times))
    return (await run(['migrate', '--datadir', datadir], edit)).signal === 'SIGKILL'
  }
  for (let round = 0; round < rounds && (round === 0 || isInTime()); round++) {
    await begin(datadir)
    for (const point of MIGRATION_POINTS) {
      // One that goes on after a kill first; a migration from its beginning has every place.
      if (!(await isKilled(point))) {
        await begin(datadir)
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

async function begin(datadir: string): Promise<void> {
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

/** Every row but the progress of the migration; values as checksums. */
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

/**
 * Migrations of a data directory run step by step, resume after any cut, and are refused where none
 * exists.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { chainSpec } from '../../../../engine/chainspec/registry.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { importGenesis } from '../../../../engine/storage/blocks/genesis-import.ts'
import { COLUMN_NAMES } from '../../../../engine/storage/database/columns.ts'
import { META } from '../../../../engine/storage/database/meta.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { readMarker, writeMarker } from '../../../../engine/storage/directory/marker.ts'
import { migrateDirectory } from '../../../../engine/storage/directory/migrate.ts'
import {
  MIGRATIONS,
  type Migration,
  type Migrations,
} from '../../../../engine/storage/directory/migrations.ts'
import {
  openDirectory,
  openState,
  SCHEMA_VERSION,
} from '../../../../engine/storage/directory/schema.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'
import { makeOlder, OLDER_VERSION, olderSchema } from '../../../fixtures/older-schema.ts'
import { Bench } from '../../../fixtures/persistence-bench.ts'
import { ALL_KEYS } from '../../../fixtures/stored-rows.ts'

const chain = chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1_700_000_000 } })

/** Lists every row except the progress of the migration. */
function rowsOf(database: Database): readonly string[] {
  const progress = bytesToHex(META.migration)
  return COLUMN_NAMES.flatMap((column) =>
    [...database.scan(column, ALL_KEYS)]
      .map(({ key, value }) => [column, bytesToHex(key), bytesToHex(value)] as const)
      .filter(([, key]) => key !== progress)
      .map((row) => row.join(' ')),
  )
}

/**
 * Makes a directory of today's format with a genesis, converts it to the older format, and gives
 * its original rows.
 */
async function olderDirectory() {
  const path = temporaryDirectory()
  const database = await openDirectory({ path, chain, chainName: 'xlayer' })
  importGenesis(database, chain)
  // The rows are enough for several slices, one of them completely full.
  const batch = database.batch()
  for (let at = 0; at < 512; at++) {
    const key = new Uint8Array(52).fill(at >> 8)
    key[51] = at
    batch.put('slots', key, new Uint8Array(32).fill(at % 7, at % 32).fill(1, 31))
  }
  batch.commit()
  const rows = rowsOf(database)
  makeOlder(database)
  expect(rowsOf(database)).not.toEqual(rows)
  await database.close()
  writeMarker(path, { ...readMarker(path)!, version: OLDER_VERSION })
  return { path, rows }
}
const rowsIn = async (path: string): Promise<readonly string[]> => {
  const database = await openState(path, {})
  const rows = rowsOf(database)
  await database.close()
  return rows
}

/** Makes the step stop before its nth slice, like a crash. */
const cutAt = (migration: Migration, slices: number): Migrations => {
  let left = slices
  const slice: Migration['slice'] = (...args) => {
    if (left-- === 0) throw new Error('cut')
    return migration.slice(...args)
  }
  return { [OLDER_VERSION]: { ...migration, slice } }
}

const HALF_DONE = { version: SCHEMA_VERSION, migratesFrom: OLDER_VERSION }

test('the migration to the log index covers every persisted block, in slices', async () => {
  const path = temporaryDirectory()
  const database = await openDirectory({ path, chain, chainName: 'xlayer' })
  const bench = new Bench({ database })
  for (let at = 0; at < 280; at++) bench.append([], false)
  bench.settle()
  const rows = rowsOf(database)
  const batch = database.batch()
  for (const { key } of database.scan('logs', ALL_KEYS)) batch.delete('logs', key)
  expect(batch.length).toBeGreaterThan(500)
  batch.commit()
  await database.close()
  writeMarker(path, { ...readMarker(path)!, version: 1 })
  const real = MIGRATIONS[1]!
  let slices = 0
  const slice: Migration['slice'] = (...args) => {
    slices++
    return real.slice(...args)
  }
  await migrateDirectory({ path, migrations: { ...MIGRATIONS, 1: { ...real, slice } } })
  expect(slices).toBe(2)
  expect(await rowsIn(path)).toEqual(rows)
})

describe('a migration', () => {
  const migrations = { [OLDER_VERSION]: olderSchema }

  test('converts every row to the present format, once', async () => {
    const { path, rows } = await olderDirectory()
    const steps: unknown[] = []
    const options = { path, migrations, onStep: (step: unknown) => void steps.push(step) }
    expect(await migrateDirectory(options)).toBe(OLDER_VERSION)
    expect(steps).toEqual([
      { from: OLDER_VERSION, to: SCHEMA_VERSION, text: olderSchema.text, isResumed: false },
    ])
    expect(await rowsIn(path)).toEqual(rows)
    expect(readMarker(path)).toMatchObject({ version: SCHEMA_VERSION, chainId: 196 })
    expect(readFileSync(join(path, 'flashnode.json'), 'utf8')).not.toContain('migratesFrom')
    expect(await migrateDirectory(options)).toBe(SCHEMA_VERSION)
    expect(steps).toHaveLength(1)
    await (await openDirectory({ path, chain, chainName: 'xlayer' })).close()
  })

  test('continues after a cut before any of its slices', async () => {
    const { path, rows } = await olderDirectory()
    const full = await rowsIn(path)
    for (let slices = 0; ; slices++) {
      const cut = migrateDirectory({ path, migrations: cutAt(olderSchema, slices === 0 ? 0 : 1) })
      if ((await cut.catch(() => 'cut')) !== 'cut') break
      expect(readMarker(path)).toMatchObject(HALF_DONE)
      const open = openDirectory({ path, chain, chainName: 'xlayer', migrations })
      await expect(open).rejects.toThrow('run `flashnode migrate')
      const half = await rowsIn(path)
      if (slices === 0) expect(half).toEqual(full)
      else expect(half).not.toEqual(full)
      expect(slices).toBeLessThan(20)
    }
    expect(await rowsIn(path)).toEqual(rows)
  })

  test('writes only the marker after a cut between its last slice and the marker', async () => {
    const { path, rows } = await olderDirectory()
    await migrateDirectory({ path, migrations })
    writeMarker(path, { ...readMarker(path)!, migratesFrom: OLDER_VERSION })
    const never = cutAt(olderSchema, 0)
    expect(await migrateDirectory({ path, migrations: never })).toBe(OLDER_VERSION)
    expect(await rowsIn(path)).toEqual(rows)
    expect(readMarker(path)?.migratesFrom).toBeUndefined()
  })

  test('of several steps runs them in order, and continues with the one that was cut', async () => {
    const { path, rows } = await olderDirectory()
    writeMarker(path, { ...readMarker(path)!, version: OLDER_VERSION - 1 })
    const seen: string[] = []
    const record: Migration = {
      text: 'a note',
      slice(_, batch, from) {
        seen.push(`note ${from?.[0] ?? 0}`)
        batch.put('meta', Uint8Array.of(1), Uint8Array.of(from?.[0] ?? 0))
        return from === undefined ? Uint8Array.of(1) : undefined
      },
    }
    const cut = { [OLDER_VERSION - 1]: record, ...cutAt(olderSchema, 1) }
    await expect(migrateDirectory({ path, migrations: cut })).rejects.toThrow('cut')
    expect(seen).toEqual(['note 0', 'note 1'])
    expect(readMarker(path)).toMatchObject(HALF_DONE)
    const steps: number[] = []
    const all = { [OLDER_VERSION - 1]: record, ...migrations }
    await migrateDirectory({ path, migrations: all, onStep: ({ from }) => void steps.push(from) })
    expect([steps, seen.length]).toEqual([[OLDER_VERSION], 2])
    const left = (await rowsIn(path)).filter((row) => !row.startsWith('meta 0x01 '))
    expect(left).toEqual(rows)
  })

  test('is refused with advice when it is impossible', async () => {
    const { path } = await olderDirectory()
    await expect(migrateDirectory({ path, migrations: {} })).rejects.toThrow(
      `${path} has format ${OLDER_VERSION}, which cannot be migrated to ${SCHEMA_VERSION}: give --datadir another directory`,
    )
    const database = await openState(path, {})
    await expect(migrateDirectory({ path, migrations })).rejects.toThrow(
      `is open in this process already (pid ${process.pid})`,
    )
    await database.close()
    expect(readMarker(path)?.version).toBe(OLDER_VERSION)
    const empty = temporaryDirectory()
    await expect(migrateDirectory({ path: empty, migrations })).rejects.toThrow(
      'no chain to migrate',
    )
    writeFileSync(join(empty, 'letter'), '')
    await expect(migrateDirectory({ path: empty, migrations })).rejects.toThrow('no data directory')
    writeMarker(path, { ...readMarker(path)!, version: SCHEMA_VERSION + 1 })
    await expect(migrateDirectory({ path, migrations })).rejects.toThrow('newer flashnode')
  })
})

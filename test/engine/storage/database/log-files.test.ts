/** The write-ahead log is read from outside of RocksDB, while its files appear and disappear. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openLogFiles } from '../../../../engine/storage/database/log-files.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'

test('only log files count, and one that disappears is no error', async () => {
  const folder = temporaryDirectory()
  const file = (name: string, bytes: number) =>
    writeFileSync(join(folder, name), new Uint8Array(bytes))
  file('000009.log', 10)
  file('000010.log', 20)
  file('000011.sst', 40)
  file('1000000.log', 5)
  const files = openLogFiles(folder)
  expect(await files.bytes()).toBe(35)
  await files.sync()
  const [synced, bytes] = [files.sync(), files.bytes()]
  rmSync(join(folder, '1000000.log'))
  await synced
  expect([30, 35]).toContain(await bytes)
  file('1000001.log', 7)
  await files.sync()
  expect(await files.bytes()).toBe(37)
})

test('a missing folder is a disk error', async () => {
  const files = openLogFiles(join(temporaryDirectory(), 'gone'))
  await expect(files.sync()).rejects.toMatchObject({ reason: 'io' })
  await expect(files.bytes()).rejects.toMatchObject({ reason: 'io' })
})

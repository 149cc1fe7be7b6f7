/**
 * Files of RocksDB's write-ahead log. They are synced in another thread, so that the thread that
 * commits never waits.
 */
import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseError } from './options.ts'

export type LogFiles = {
  /**
   * Makes every commit before the call survive a power loss once it resolves. A commit has reached
   * the system's memory, so that another handle of the file can sync it. RocksDB's own synced
   * commit makes every commit wait for the disk.
   */
  sync(): Promise<void>
  bytes(): Promise<number>
}

/**
 * Opens the log of a database. Both calls reject with a {DatabaseError} `io`.
 * @param path of the database
 */
export function openLogFiles(path: string): LogFiles {
  /** Number of the newest file at the last sync. Older files are not written any more. */
  let newest = 0
  const fileOf = (number: number) => join(path, `${String(number).padStart(6, '0')}.log`)
  const numbers = async () =>
    (await readdir(path))
      .filter((name) => name.endsWith('.log'))
      .map((name) => Number.parseInt(name, 10))
      .sort((a, b) => a - b)
  return {
    sync: () =>
      onDisk(async () => {
        const found = await numbers()
        // The oldest file is synced first, so that a power loss leaves no hole in the log.
        for (const number of found)
          if (number >= newest) await using(fileOf(number), (file) => file.datasync())
        const last = found.at(-1) ?? newest
        if (last === newest) return
        await using(path, (folder) => folder.sync())
        newest = last
      }),
    bytes: () =>
      onDisk(async () => {
        const sizes = (await numbers()).map((number) => sizeOf(fileOf(number)))
        return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
      }),
  }
}

/**
 * Skips a file that RocksDB has deleted meanwhile: its rows are in other files then, which are
 * synced.
 */
async function using(path: string, work: (handle: FileHandle) => Promise<void>): Promise<void> {
  const handle = await open(path, 'r').catch(unlessGone)
  if (handle === undefined) return
  try {
    await work(handle)
  } finally {
    await handle.close()
  }
}

const sizeOf = async (path: string): Promise<number> =>
  (await stat(path).catch(unlessGone))?.size ?? 0

function unlessGone(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw new DatabaseError('io', (error as Error).message)
  }
}

/** The files of RocksDB's write-ahead log, from beside it: what takes long, the thread that commits does not wait for. */
import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseError } from './options.ts'

export type LogFiles = {
  /**
   * Every commit before the call survives a power loss when it resolves: each has reached the system's memory, where another handle of
   * the file finds it. RocksDB's own way, a synced commit, keeps all that commit waiting for the disk.
   */
  sync(): Promise<void>
  bytes(): Promise<number>
}

/** `path`: of the database. Both calls reject with a {DatabaseError} `io`. */
export function openLogFiles(path: string): LogFiles {
  /** Number of the newest file when it was synced last: those before it are not written any more. */
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
        // The oldest first: what is there after a loss of power has no hole.
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

/** RocksDB may have deleted the file meanwhile: what was in it is in others then, and those are synced. */
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

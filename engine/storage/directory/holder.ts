/** Finds the process that has a file open, by Linux's /proc. On other systems none is found. */
import { readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Finds the process that has RocksDB's lock file open, as long as the directory is in use.
 * Processes of other users are invisible.
 * @returns the pid, or undefined if none is found
 */
export function holderOf(file: string): number | undefined {
  try {
    const path = realpathSync(file)
    const pids = readdirSync(PROCESSES).filter((name) => /^\d+$/.test(name))
    const holders = pids.filter((pid) => hasOpen(pid, path)).map(Number)
    // This process has the file open too, to request the lock, or is the only one.
    return holders.find((pid) => pid !== process.pid) ?? holders[0]
  } catch {
    return undefined
  }
}

const PROCESSES = '/proc'

function hasOpen(pid: string, path: string): boolean {
  const folder = join(PROCESSES, pid, 'fd')
  try {
    return readdirSync(folder).some((name) => isLinkTo(join(folder, name), path))
  } catch {
    return false
  }
}

/** Whether a descriptor is a link to the file. The process may have closed it meanwhile. */
function isLinkTo(link: string, path: string): boolean {
  try {
    return readlinkSync(link) === path
  } catch {
    return false
  }
}

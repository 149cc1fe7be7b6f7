/** Finds a process that has a file open, in Linux's /proc. Other systems give no result. */
import { readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Finds a process that has a file open, for the error text after RocksDB's lock was refused.
 * RocksDB keeps its lock file open while the database is open. Processes of other users are
 * invisible. Another process is preferred to this one.
 * @returns the pid; undefined if there is no such process or file, or no /proc
 */
export function holderOf(file: string): number | undefined {
  try {
    const path = realpathSync(file)
    const pids = readdirSync(PROCESSES).filter((name) => /^\d+$/.test(name))
    const holders = pids.filter((pid) => hasOpen(pid, path)).map(Number)
    // This process may have the file open only because it requested the lock.
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

/** Which process has a file open, from what Linux tells of processes; elsewhere nothing is known. */
import { readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { join } from 'node:path'

/**
 * RocksDB keeps its lock file open for as long as it has the directory. Processes of other users are not seen.
 * @returns the pid, or undefined where none is known
 */
export function holderOf(file: string): number | undefined {
  try {
    const path = realpathSync(file)
    const pids = readdirSync(PROCESSES).filter((name) => /^\d+$/.test(name))
    const holders = pids.filter((pid) => hasOpen(pid, path)).map(Number)
    // This process has opened the file as well, to ask for the lock, or has it alone.
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

/** The process may have closed it meanwhile. */
function isLinkTo(link: string, path: string): boolean {
  try {
    return readlinkSync(link) === path
  } catch {
    return false
  }
}

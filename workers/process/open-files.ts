/**
 * Checks how many files the process may open. Too few would break a start in the database or in a
 * thread.
 */
import { readFileSync } from 'node:fs'
import { OPEN_FILES_ADVICE } from '../../engine/storage/database/disk.ts'
import { StartError } from './context.ts'

/**
 * A node that had just started had 68 open files, and 5 for each pool thread (2026-11). The rest is
 * for modules that load and for first clients.
 */
const OPEN_FILES = 100
const OPEN_FILES_PER_POOL_THREAD = 5

/**
 * Applies to all commands, because each loads as many modules and opens the same database.
 * @throws {StartError}
 */
export function checkOpenFiles(poolThreads = 0): void {
  const needed = OPEN_FILES + OPEN_FILES_PER_POOL_THREAD * poolThreads
  const allowed = openFilesAllowed()
  if (allowed !== undefined && allowed < needed)
    throw new StartError(
      `only ${allowed} files may be open at once, flashnode needs at least ${needed}: ${OPEN_FILES_ADVICE}`,
    )
}

/**
 * Returns undefined without a limit, or if the system does not report one. Node has already raised
 * the limit to its maximum.
 */
function openFilesAllowed(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))
    return found === null ? undefined : Number(found[1])
  } catch {
    return undefined
  }
}

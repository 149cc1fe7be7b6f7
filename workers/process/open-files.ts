/** How many files the system lets this process open: too few would end a start somewhere in the middle, in the database or in a thread. */
import { readFileSync } from 'node:fs'
import { OPEN_FILES_ADVICE } from '../../engine/storage/database/disk-advice.ts'
import { StartError } from './context.ts'

/** 68 and 5 for each pool thread were open in a node that had just started (2026-11); the rest is for modules that load and first clients. */
const OPEN_FILES = 100
const OPEN_FILES_PER_POOL_THREAD = 5

/** A command that is no node loads as many modules, and opens the same database. @throws {StartError} */
export function checkOpenFiles(poolThreads = 0): void {
  const needed = OPEN_FILES + OPEN_FILES_PER_POOL_THREAD * poolThreads
  const allowed = openFilesAllowed()
  if (allowed !== undefined && allowed < needed)
    throw new StartError(
      `only ${allowed} files may be open at once, flashnode needs at least ${needed}: ${OPEN_FILES_ADVICE}`,
    )
}

/** undefined: no limit, or a system that does not say. Node has raised it as far as it may be by itself. */
function openFilesAllowed(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))
    return found === null ? undefined : Number(found[1])
  } catch {
    return undefined
  }
}

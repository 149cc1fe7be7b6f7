/** Makes a directory. */
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * With those above it. Node's own recursive form tries for ever where the system says that a directory cannot be made because it is not
 * there, as /proc does (24.21). @throws the system's error
 */
export function makeDirectory(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  const above = dirname(path)
  if (!existsSync(above)) makeDirectory(above)
  mkdirSync(path)
}

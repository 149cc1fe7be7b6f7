/**
 * Chooses the Node, flags and variables for a process of the node. It imports little, because Node
 * 20 and later load it.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isEnough, MIN_NODE } from '../process/node-version.ts'

/** A third of the young generation of a pool thread. */
export const NODE_FLAGS = ['--max-semi-space-size=16'] as const
/**
 * Settings of glibc's allocator, read at the start of a process, which make it return free memory.
 */
export const VARIABLES = {
  MALLOC_ARENA_MAX: '4',
  MALLOC_MMAP_THRESHOLD_: '65536',
  MALLOC_TRIM_THRESHOLD_: '131072',
} as const

export type Launch = {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The machine's Node is too old, and the Node that npm installs with the package is missing. */
export class NodeMissingError extends Error {
  override name = 'NodeMissingError'
}

/**
 * @param argv command and flags
 * @param environment variables of the caller, which have precedence
 * @throws {NodeMissingError}
 */
export function launch(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Launch {
  const main = fileURLToPath(new URL('../main.ts', import.meta.url))
  const given = Object.entries(environment).filter(
    (one): one is [string, string] => one[1] !== undefined,
  )
  return {
    file: nodeFile(),
    args: [...NODE_FLAGS, main, ...argv],
    env: { NODE_COMPILE_CACHE: compiledFolder(), ...VARIABLES, ...Object.fromEntries(given) },
  }
}

/** Returns the current Node, or the package's own. @throws {NodeMissingError} */
function nodeFile(): string {
  const { node } = process.versions
  if (isEnough(node)) return process.execPath
  const own = ownNode()
  if (own !== undefined && existsSync(own)) return own
  throw new NodeMissingError(
    `Node ${MIN_NODE} or later is needed, this is ${node}, and the Node that comes with flashnode is missing, because npm ran no install scripts or could not download it. Run "npm rebuild node --ignore-scripts=false" in this folder, or start flashnode with a newer Node`,
  )
}

function ownNode(): string | undefined {
  try {
    const found = createRequire(import.meta.url).resolve('node/package.json')
    return join(dirname(found), 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
  } catch {
    return undefined
  }
}

/**
 * Folder for compiled code beside the package, as tools use it (`node_modules/.cache`). Node
 * ignores a folder that is not writable.
 */
function compiledFolder(): string {
  const own = dirname(createRequire(import.meta.url).resolve('#package'))
  const around = dirname(own)
  return /[\\/]node_modules$/.test(around)
    ? join(around, '.cache', 'flashnode')
    : join(own, 'node_modules', '.cache', 'compile')
}

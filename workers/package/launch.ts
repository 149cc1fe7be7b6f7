/**
 * How a process of the node is started: which Node runs it, with which flags and variables. Loaded by whatever Node the machine has, back to
 * 20: it imports little.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isEnough, LEAST_NODE } from '../process/node-version.ts'

/** A third of what a thread of the pool has as its young generation. */
export const NODE_FLAGS = ['--max-semi-space-size=16'] as const
/** Of glibc's allocator, which reads them when a process begins: memory that is free goes back. */
export const VARIABLES = {
  MALLOC_ARENA_MAX: '4',
  MALLOC_MMAP_THRESHOLD_: '32768',
  MALLOC_TRIM_THRESHOLD_: '131072',
} as const

export type Launch = {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The machine's Node is too old, and the one that npm installs with the package is not there. */
export class NodeMissingError extends Error {
  override name = 'NodeMissingError'
}

/**
 * @param argv command and flags
 * @param environment of the caller, which has precedence
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

/** The Node that runs this, or the package's own. @throws {NodeMissingError} */
function nodeFile(): string {
  const { node } = process.versions
  if (isEnough(node)) return process.execPath
  const own = ownNode()
  if (own !== undefined && existsSync(own)) return own
  throw new NodeMissingError(
    `Node ${LEAST_NODE} or later is needed, this is ${node}, and the one that comes with flashnode is not there: npm was told to run no install scripts, or could not fetch it. Run "npm rebuild node --ignore-scripts=false" in this folder, or start flashnode with a newer Node`,
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

/** Beside the package, where tools keep such things (`node_modules/.cache`); a folder that cannot be written is passed over by Node. */
function compiledFolder(): string {
  const own = dirname(createRequire(import.meta.url).resolve('#package'))
  const around = dirname(own)
  return /[\\/]node_modules$/.test(around)
    ? join(around, '.cache', 'flashnode')
    : join(own, 'node_modules', '.cache', 'compile')
}

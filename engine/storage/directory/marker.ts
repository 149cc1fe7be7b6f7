/**
 * Marker file of a data directory. It is written completely or not at all, and read before anything
 * else in the directory is touched.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { areForkTimes, type ForkTimes } from '../../chainspec/fork-times.ts'
import { diskAdvice, diskFault, makeDirectory } from '../database/disk.ts'

export type Marker = {
  /** Version of the stored format. */
  readonly version: number
  /** Present during a migration to `version`, or after an interrupted one: the format before it. */
  readonly migratesFrom?: number | undefined
  /**
   * Present during a copy from another node, or after an interrupted one. `from` is the source,
   * `by` the name of this copy at the source.
   */
  readonly bootstraps?: Bootstrapping | undefined
  readonly chainId: number
  /** Hash of the genesis, hex. */
  readonly genesis: string
  /** `--chain` as given, for commands that take the chain from the directory. */
  readonly chain: string
  /** Seconds, and gas. A development chain is recreated from them. */
  readonly genesisTimestamp: number
  readonly genesisGasLimit?: number
  /** Fork times of its blocks (`--fork-time`), instead of the chain's own. */
  readonly forkTimes?: ForkTimes | undefined
}

export type Bootstrapping = { readonly from: string; readonly by: string }

/**
 * Refuses an unfinished copy, which only the command that made it can use.
 * @throws {DirectoryError} 'cut'
 */
export function refuseCut(path: string, { bootstraps }: Marker): void {
  if (bootstraps === undefined) return
  throw new DirectoryError(
    'cut',
    `${path} is an unfinished copy of ${bootstraps.from}: run \`flashnode bootstrap --from ${bootstraps.from} --datadir ${path} --token-file FILE\` again, it goes on where it was`,
  )
}

/**
 * Reads the marker of a directory; undefined when the directory is absent or empty.
 * @throws {DirectoryError} 'foreign' when the directory has other files, 'io' when it cannot be
 * read
 */
export function readMarker(path: string): Marker | undefined {
  try {
    return read(path)
  } catch (error) {
    throw error instanceof DirectoryError ? error : ioFault(path, error)
  }
}

function read(path: string): Marker | undefined {
  if (!existsSync(path)) return undefined
  const file = join(path, MARKER)
  if (!existsSync(file)) {
    const entries = readdirSync(path).filter((name) => !UNFINISHED.includes(name))
    if (entries.length === 0) return undefined
    throw new DirectoryError(
      'foreign',
      `${path} is no data directory of flashnode (it holds "${entries[0]}"): give --datadir an empty or another directory`,
    )
  }
  const marker = decodeMarker(readFileSync(file, 'utf8'))
  if (marker === undefined)
    throw new DirectoryError('foreign', `${file} cannot be read: give --datadir another directory`)
  return marker
}

/**
 * Writes the marker, which is on the disk when the call returns.
 * @throws {DirectoryError} 'io'
 */
export function writeMarker(path: string, marker: Marker): void {
  writeDurable(path, MARKER, `${JSON.stringify({ format: 'flashnode', ...marker }, null, 2)}\n`)
}

/**
 * Writes a file of a new directory, completely or not at all; the marker comes last. The file is on
 * the disk when the call returns.
 * @throws {DirectoryError} 'io'
 */
export function writeDurable(path: string, name: string, text: string): void {
  try {
    write(path, name, text)
  } catch (error) {
    throw ioFault(path, error)
  }
}

/** Describes an error of the system or RocksDB in the use of a directory. */
export function ioFault(path: string, error: unknown): DirectoryError {
  const { message } = error as Error
  const isPathError = /\b(ENOTDIR|EEXIST|ENOENT|ENAMETOOLONG|ELOOP)\b/.test(message)
  const advice = `${isPathError ? '' : `${diskAdvice(message)}, or `}give another --datadir`
  return new DirectoryError('io', `${path} cannot be used: ${diskFault(message, path)}; ${advice}`)
}

function write(path: string, name: string, text: string): void {
  makeDirectory(path)
  const next = join(path, `${name}.next`)
  const file = openSync(next, 'w')
  try {
    writeSync(file, text)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(next, join(path, name))
  // The rename survives a power loss only after a sync of the directory.
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

const MARKER = 'flashnode.json'
/**
 * JSON `alloc` with contracts in the genesis of a development chain. Every start makes the chain
 * from it again.
 */
export const PREDEPLOYS = 'predeploys.json'
/** Files that an interrupted start may leave in a directory without a marker. */
const UNFINISHED = [`${MARKER}.next`, PREDEPLOYS, `${PREDEPLOYS}.next`]

function decodeMarker(text: string): Marker | undefined {
  let value: Record<string, unknown>
  try {
    value = JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
  const { format, version, migratesFrom, chainId, genesis, chain } = value ?? {}
  const { genesisTimestamp, genesisGasLimit, bootstraps, forkTimes } = value ?? {}
  if (format !== 'flashnode' || !Number.isSafeInteger(version)) return undefined
  // A newer format may have other fields; its version suffices to refuse the directory.
  return {
    version: version as number,
    ...(Number.isSafeInteger(migratesFrom) ? { migratesFrom: migratesFrom as number } : {}),
    ...(isBootstrapping(bootstraps) ? { bootstraps } : {}),
    chainId: Number(chainId),
    genesis: String(genesis),
    chain: String(chain),
    genesisTimestamp: Number(genesisTimestamp),
    ...(Number.isSafeInteger(genesisGasLimit)
      ? { genesisGasLimit: genesisGasLimit as number }
      : {}),
    ...(areForkTimes(forkTimes) ? { forkTimes } : {}),
  }
}

const isBootstrapping = (value: unknown): value is Bootstrapping => {
  const { from, by } = (value ?? {}) as Readonly<Record<string, unknown>>
  return typeof from === 'string' && typeof by === 'string'
}

/** The start is refused; `message` is one line for a person. */
export class DirectoryError extends Error {
  override name = 'DirectoryError'
  readonly reason: 'foreign' | 'newer' | 'older' | 'cut' | 'chain' | 'open' | 'corrupt' | 'io'
  constructor(reason: DirectoryError['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

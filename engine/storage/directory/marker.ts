/** The file that says what a data directory is: written whole or not at all, read before anything else in the directory is touched. */
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
import { diskAdvice, diskFault } from '../database/disk-advice.ts'
import { makeDirectory } from '../database/make-directory.ts'

/** What the marker file says of a directory. */
export type Marker = {
  /** Of the format. */
  readonly version: number
  /** Present while a migration to `version` is in progress, or was cut off: the format before it. */
  readonly migratesFrom?: number | undefined
  /** Present while it is copied from another node, or was cut off: from where, and the name that it has there. */
  readonly bootstraps?: Bootstrapping | undefined
  readonly chainId: number
  /** Hash of the genesis, hex. */
  readonly genesis: string
  /** `--chain` as it was given, for commands that take the chain from the directory. */
  readonly chain: string
  /** Seconds, and gas; a development chain is made again with them. */
  readonly genesisTimestamp: number
  readonly genesisGasLimit?: number
  /** Times of forks that its blocks have in place of the chain's own (`--fork-time`). */
  readonly forkTimes?: ForkTimes | undefined
}

export type Bootstrapping = { readonly from: string; readonly by: string }

/** What a copy that is not finished is good for: nothing else. @throws {DirectoryError} 'cut' */
export function refuseCut(path: string, { bootstraps }: Marker): void {
  if (bootstraps === undefined) return
  throw new DirectoryError(
    'cut',
    `${path} is an unfinished copy of ${bootstraps.from}: run \`flashnode bootstrap --from ${bootstraps.from} --datadir ${path} --token-file FILE\` again, it goes on where it was`,
  )
}

/**
 * The marker of a directory; undefined when the directory is absent or empty.
 * @throws {DirectoryError} 'foreign' when something else is in it, 'io' where it cannot be read or is no directory
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

/** On the disk when it returns. @throws {DirectoryError} 'io' */
export function writeMarker(path: string, marker: Marker): void {
  writeDurable(path, MARKER, `${JSON.stringify({ format: 'flashnode', ...marker }, null, 2)}\n`)
}

/** A file of a directory that is being made; the marker comes last. Whole or not at all, on the disk when it returns. @throws {DirectoryError} 'io' */
export function writeDurable(path: string, name: string, text: string): void {
  try {
    write(path, name, text)
  } catch (error) {
    throw ioFault(path, error)
  }
}

/** For whatever the system or RocksDB has against using a directory. */
export function ioFault(path: string, error: unknown): DirectoryError {
  const { message } = error as Error
  const isNoPlace = /\b(ENOTDIR|EEXIST|ENOENT|ENAMETOOLONG|ELOOP)\b/.test(message)
  const advice = `${isNoPlace ? '' : `${diskAdvice(message)}, or `}give another --datadir`
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
  // The new name is safe with the directory only.
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

const MARKER = 'flashnode.json'
/** Contracts in the genesis of a development chain: an `alloc`, as JSON. The chain is made from it again at every start. */
export const PREDEPLOYS = 'predeploys.json'
/** What a start that was cut off may leave in a directory without a marker. */
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
  // A newer format may have other fields: its version is enough to refuse it.
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

/** The start is refused; `message` is the one line a person reads. */
export class DirectoryError extends Error {
  override name = 'DirectoryError'
  readonly reason: 'foreign' | 'newer' | 'older' | 'cut' | 'chain' | 'open' | 'corrupt' | 'io'
  constructor(reason: DirectoryError['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

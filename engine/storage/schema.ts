/** A data directory belongs to one chain and one format; whatever is not ours is refused before anything in it is touched. */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import type { ChainSpec } from '../chainspec/types.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { columnOptions } from './columns.ts'
import { type Database, openDatabase } from './database.ts'
import { DatabaseError } from './database-options.ts'

export const SCHEMA_VERSION = 1

/** What the marker file says of a directory. */
export type Marker = {
  readonly version: number
  readonly chainId: number
  /** Hash of the genesis, hex. */
  readonly genesis: string
  /** `--chain` as it was given, for commands that take the chain from the directory. */
  readonly chain: string
  /** Seconds; a development chain is made again with it. */
  readonly genesisTimestamp: number
}

export type DirectoryOptions = {
  readonly path: string
  readonly chain: Pick<ChainSpec, 'chainId' | 'genesisHash' | 'genesisHeader'>
  /** `--chain` as given. */
  readonly chainName: string
  /** Bytes of all block caches. */
  readonly cacheBytes?: number
  readonly maxThreads?: number
  readonly migrations?: Migrations
}

/** Step from this version to the next, or why there is none. */
export type Migrations = Readonly<Record<number, { readonly command: string }>>
/** Version 1 is the first, so nothing older exists. */
export const MIGRATIONS: Migrations = {}

/**
 * Opens the database of a data directory (`<path>/state`); an absent or empty directory is made ours. Journals lie beside it.
 * @throws {DirectoryError} with one line that says what is wrong and what to do
 */
export async function openDirectory(options: DirectoryOptions): Promise<Database> {
  const { path, cacheBytes, maxThreads, migrations = MIGRATIONS } = options
  const marker = readMarker(path)
  const ours = markerOf(options)
  if (marker === undefined) writeMarker(path, ours)
  else checkMarker(path, marker, { ours, migrations })
  const columns = columnOptions(cacheBytes)
  try {
    const more = maxThreads === undefined ? {} : { maxThreads }
    return await openDatabase(join(path, STATE), columns, { createIfMissing: true, ...more })
  } catch (error) {
    throw openFault(path, error)
  }
}

/**
 * The marker of a directory; undefined when the directory is absent or empty.
 * @throws {DirectoryError} 'foreign' when something else is in it
 */
export function readMarker(path: string): Marker | undefined {
  if (!existsSync(path)) return undefined
  const file = join(path, MARKER)
  if (!existsSync(file)) {
    const entries = readdirSync(path).filter((name) => name !== `${MARKER}.next`)
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

function checkMarker(
  path: string,
  marker: Marker,
  { ours, migrations }: { readonly ours: Marker; readonly migrations: Migrations },
): void {
  if (marker.version > SCHEMA_VERSION)
    throw new DirectoryError(
      'newer',
      `${path} was written by a newer flashnode (format ${marker.version}, this one reads ${SCHEMA_VERSION}): update flashnode, or give --datadir another directory`,
    )
  if (marker.version < SCHEMA_VERSION) {
    const step = migrations[marker.version]
    throw new DirectoryError(
      'older',
      step === undefined
        ? `${path} has format ${marker.version}, which cannot be migrated to ${SCHEMA_VERSION}: give --datadir another directory`
        : `${path} has format ${marker.version}, this flashnode needs ${SCHEMA_VERSION}: run \`${step.command}\` first`,
    )
  }
  if (marker.chainId !== ours.chainId || marker.genesis !== ours.genesis)
    throw new DirectoryError(
      'chain',
      `${path} holds chain ${marker.chainId} with genesis ${marker.genesis}, not chain ${ours.chainId} with genesis ${ours.genesis}: give --datadir another directory, or --chain ${marker.chain}`,
    )
}

const MARKER = 'flashnode.json'
const STATE = 'state'

const markerOf = ({ chain, chainName }: DirectoryOptions): Marker => ({
  version: SCHEMA_VERSION,
  chainId: Number(chain.chainId),
  genesis: bytesToHex(chain.genesisHash),
  chain: chainName,
  genesisTimestamp: Number(chain.genesisHeader.timestamp),
})

/** Whole or not at all: written beside and renamed. */
function writeMarker(path: string, marker: Marker): void {
  mkdirSync(path, { recursive: true })
  const next = join(path, `${MARKER}.next`)
  const file = openSync(next, 'w')
  try {
    writeSync(file, `${JSON.stringify({ format: 'flashnode', ...marker }, null, 2)}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(next, join(path, MARKER))
}

function decodeMarker(text: string): Marker | undefined {
  let value: Record<string, unknown>
  try {
    value = JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
  const { format, version, chainId, genesis, chain, genesisTimestamp } = value ?? {}
  if (format !== 'flashnode' || !Number.isSafeInteger(version)) return undefined
  // A newer format may have other fields: its version is enough to refuse it.
  return {
    version: version as number,
    chainId: Number(chainId),
    genesis: String(genesis),
    chain: String(chain),
    genesisTimestamp: Number(genesisTimestamp),
  }
}

function openFault(path: string, error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return error
  if (error.reason === 'locked')
    return new DirectoryError(
      'open',
      `${path} is open in another process: stop that flashnode, or give --datadir another directory`,
    )
  if (error.reason === 'corrupt')
    return new DirectoryError(
      'corrupt',
      `${path} is damaged (${error.message}): give --datadir another directory`,
    )
  return new DirectoryError('io', `${path} cannot be opened: ${error.message}`)
}

/** The start is refused; `message` is the one line a person reads. */
export class DirectoryError extends Error {
  override name = 'DirectoryError'
  readonly reason: 'foreign' | 'newer' | 'older' | 'chain' | 'open' | 'corrupt' | 'io'
  constructor(reason: DirectoryError['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

/**
 * A data directory belongs to one chain and one format. Any other directory is refused before
 * anything in it is touched.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { ChainSpec } from '../../chainspec/types.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { columnOptions } from '../database/columns.ts'
import { DatabaseError } from '../database/options.ts'
import { openDatabase } from '../database/rocksdb.ts'
import type { Database } from '../database/types.ts'
import { holderOf } from './holder.ts'
import {
  DirectoryError,
  ioFault,
  type Marker,
  readMarker,
  refuseCut,
  writeMarker,
} from './marker.ts'
import { MIGRATIONS, type Migrations, stepsFrom } from './migrations.ts'

/**
 * Version of the stored format: columns, keys, values. A change raises it by one, and adds a
 * migration from the version before. Columns are never removed, because RocksDB opens a database
 * only when every column is named.
 */
export const SCHEMA_VERSION = 7

export type DirectoryOptions = {
  readonly path: string
  readonly chain: Pick<ChainSpec, 'chainId' | 'genesisHash' | 'genesisHeader'>
  /** `--chain` as given. */
  readonly chainName: string
  /**
   * Advice about a directory of another chain, by the given flags. By default the advice names the
   * chain.
   */
  readonly advice?: ((stored: Marker) => string) | undefined
  /** Bytes of all block caches. */
  readonly cacheBytes?: number
  readonly maxThreads?: number
  readonly migrations?: Migrations
}

/**
 * Opens the database of a data directory (`<path>/state`); an absent or empty directory is
 * initialised. Journals lie beside the database.
 * @throws {DirectoryError} with one line that says what is wrong and what to do
 */
export async function openDirectory(options: DirectoryOptions): Promise<Database> {
  const { path, cacheBytes, maxThreads, migrations = MIGRATIONS } = options
  const marker = readMarker(path)
  const ours = markerOf(options)
  if (marker === undefined) writeMarker(path, ours)
  else {
    checkVersion(path, marker, migrations)
    refuseCut(path, marker)
    checkChain(path, marker, { ours, advice: options.advice })
  }
  return openState(path, { cacheBytes, maxThreads })
}

/**
 * Opens the database in a directory whose marker has been checked.
 * @throws {DirectoryError}
 */
export async function openState(
  path: string,
  options: { readonly cacheBytes?: number | undefined; readonly maxThreads?: number | undefined },
): Promise<Database> {
  const { cacheBytes, maxThreads } = options
  try {
    const more = maxThreads === undefined ? {} : { maxThreads }
    return await openDatabase(join(path, STATE), columnOptions(cacheBytes), {
      createIfMissing: true,
      ...more,
    })
  } catch (error) {
    throw openFault(path, error)
  }
}

/** Deletes the database of a directory, which must be closed. The marker stays. */
export function removeState(path: string): void {
  rmSync(join(path, STATE), { recursive: true, force: true })
}

/** @throws {DirectoryError} 'newer' */
export function refuseNewer(path: string, { version }: Marker): void {
  if (version <= SCHEMA_VERSION) return
  throw new DirectoryError(
    'newer',
    `${path} was written by a newer flashnode (format ${version}, this one reads ${SCHEMA_VERSION}): update flashnode, or give --datadir another directory`,
  )
}

function checkVersion(path: string, marker: Marker, migrations: Migrations): void {
  refuseNewer(path, marker)
  const { version, migratesFrom } = marker
  const from = migratesFrom ?? version
  if (from === SCHEMA_VERSION) return
  // Throws if there is no migration to this version.
  stepsFrom(path, from, { to: SCHEMA_VERSION, migrations })
  const command = `flashnode migrate --datadir ${path}`
  throw new DirectoryError(
    'older',
    migratesFrom === undefined
      ? `${path} has format ${version}, this flashnode needs ${SCHEMA_VERSION}: run \`${command}\` first`
      : `the migration of ${path} from format ${migratesFrom} to ${version} was cut off: run \`${command}\` again, it goes on where it was`,
  )
}

function checkChain(
  path: string,
  marker: Marker,
  { ours, advice }: { readonly ours: Marker; readonly advice: DirectoryOptions['advice'] },
): void {
  if (marker.chainId === ours.chainId && marker.genesis === ours.genesis) return
  const another = 'give --datadir another directory'
  const what =
    advice?.(marker) ?? (marker.chain === ours.chain ? '' : `say --chain ${marker.chain}`)
  throw new DirectoryError(
    'chain',
    `${path} holds chain ${marker.chainId} with genesis ${marker.genesis}, not chain ${ours.chainId} with genesis ${ours.genesis}: ${what === '' ? another : `${what}, or ${another}`}`,
  )
}

const STATE = 'state'

const markerOf = ({ chain, chainName }: DirectoryOptions): Marker => ({
  version: SCHEMA_VERSION,
  chainId: Number(chain.chainId),
  genesis: bytesToHex(chain.genesisHash),
  chain: chainName,
  genesisTimestamp: Number(chain.genesisHeader.timestamp),
  genesisGasLimit: Number(chain.genesisHeader.gasLimit),
})

function openElsewhere(path: string): string {
  const pid = holderOf(join(path, STATE, 'LOCK'))
  if (pid === process.pid)
    return `${path} is open in this process already (pid ${pid}): close it first, or give --datadir another directory`
  const who = pid === undefined ? '' : ` (pid ${pid})`
  return `${path} is open in another process${who}: stop that flashnode, or give --datadir another directory`
}

function openFault(path: string, error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return ioFault(path, error)
  if (error.reason === 'locked') return new DirectoryError('open', openElsewhere(path))
  if (error.reason === 'corrupt')
    return new DirectoryError(
      'corrupt',
      `${path} is damaged (${error.message}): give --datadir another directory`,
    )
  return ioFault(path, error)
}

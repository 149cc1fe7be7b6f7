/** The data directory of a node, and the choice of its chain. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ChainError } from '../../engine/chainspec/error.ts'
import type { ForkTimes } from '../../engine/chainspec/fork-times.ts'
import { type ChainOption, chainSpec } from '../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import {
  DirectoryError,
  type Marker,
  PREDEPLOYS,
  readMarker,
  refuseCut,
} from '../../engine/storage/directory/marker.ts'
import { StartError } from '../process/context.ts'

export type DataDirectory = {
  readonly path: string
  /** Path of the journal of accepted transactions that are not final. */
  readonly transactions: string
  /** Path of the journal of the sequencer's packets that are not durable as blocks. */
  readonly flashblocks: string
  /** Removes an ephemeral directory. */
  release(): void
}

/** The directory's own copy of an imported chain's genesis; the marker has this name. */
export const GENESIS_FILE = 'genesis.json'

/**
 * @param path undefined makes a temporary directory
 * @throws {StartError}
 */
export function openDataDirectory(path: string | undefined): DataDirectory {
  const directory = path ?? makeTemporary()
  return {
    path: directory,
    transactions: join(directory, 'transactions.journal'),
    flashblocks: join(directory, 'flashblocks.journal'),
    release() {
      if (path === undefined) rmSync(directory, { recursive: true, force: true })
    },
  }
}

function makeTemporary(): string {
  try {
    return mkdtempSync(join(tmpdir(), 'flashnode-'))
  } catch (error) {
    throw new StartError(
      `the temporary directory cannot be created: ${(error as Error).message}; set TMPDIR to a writable directory, or give --datadir instead of --ephemeral`,
    )
  }
}

export type ChainChoice = {
  /** @throws {DirectoryError} {ChainError} */
  readonly choose: (chainDirectory: ChainDirectory) => ChainOption
  /**
   * An empty directory gets a development chain with the contracts of this network; undefined
   * leaves it empty.
   */
  readonly made: { readonly chain: string; readonly chainId: number | undefined } | undefined
  /**
   * The genesis.json of the chain; the directory gets a copy, which makes it independent of the
   * file.
   */
  readonly file?: string | undefined
  /** Advice for a directory of another chain; empty if only another directory helps. */
  readonly advice?: ((stored: Marker) => string) | undefined
  /** @throws {StartError} if the command's flags do not fit the chain */
  readonly check: (chain: ChainSpec) => void
}

/** A directory's stored choice of a chain, and the time for the genesis of a new one. */
export type ChainDirectory = {
  readonly path: string
  readonly marker: Marker | undefined
  readonly predeploysFile: string | undefined
  readonly nowSeconds: number
}

/**
 * @param nowSeconds genesis time of a new development chain
 * @throws {DirectoryError} {ChainError}
 */
export function chainOption(
  { choose }: Pick<ChainChoice, 'choose'>,
  path: string,
  nowSeconds: number,
  predeploysFile: string | undefined = predeploysOf(path),
): ChainOption {
  return choose({ path, nowSeconds, predeploysFile, marker: readMarker(path) })
}

/** Returns undefined if the directory has none, like those of older versions. */
function predeploysOf(path: string): string | undefined {
  const file = join(path, PREDEPLOYS)
  return existsSync(file) ? file : undefined
}

/** A newer format may lack the value; the directory is then refused for its version. */
export const given = (value: number | undefined): number | undefined =>
  Number.isSafeInteger(value) ? value : undefined

/**
 * Returns the chain of a directory: a known one, or a development chain with its rules.
 * @param own fork times that replace the stored ones
 * @throws {DirectoryError} {ChainError}
 */
export function storedChain(
  requested: string | undefined,
  { path, marker, predeploysFile }: Omit<ChainDirectory, 'nowSeconds'>,
  own?: { readonly forkTimes: ForkTimes | undefined },
): ChainOption {
  if (marker === undefined)
    throw new DirectoryError(
      'foreign',
      `${path} has no chain: give --datadir a directory that flashnode has created`,
    )
  refuseCut(path, marker)
  const name =
    requested ?? (marker.chain === GENESIS_FILE ? join(path, GENESIS_FILE) : marker.chain)
  const dev = {
    chainId: marker.chainId,
    predeploysFile,
    genesisTimestamp: given(marker.genesisTimestamp) ?? 0,
    gasLimit: given(marker.genesisGasLimit),
  }
  const { forkTimes } = own ?? marker
  const options: readonly ChainOption[] = [
    { name, forkTimes },
    { name, forkTimes, dev },
  ]
  const found = options.find((option) => isMarked(option, marker))
  // Without a match, the directory's own check describes the problem.
  return found ?? options[0]!
}

/** Fork times may fit only one of the chains with the same name. */
function isMarked(option: ChainOption, marker: Marker): boolean {
  try {
    return bytesToHex(chainSpec(option).genesisHash) === marker.genesis
  } catch (error) {
    if (error instanceof ChainError) return false
    throw error
  }
}

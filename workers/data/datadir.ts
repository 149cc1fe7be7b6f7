/** The directory a node keeps its data in, and the chain that is in it. */
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
  /** Accepted transactions that are not final. */
  readonly transactions: string
  /** Packets of the sequencer that are not durable as blocks. */
  readonly flashblocks: string
  /** Removes an ephemeral one. */
  release(): void
}

/** Of an imported chain: the directory has its own copy, and its marker names it so. */
export const GENESIS_FILE = 'genesis.json'

/** @param path undefined: a temporary directory. @throws {StartError} */
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
      `no temporary directory can be made: ${(error as Error).message}; set TMPDIR to one that is writable, or give --datadir instead of --ephemeral`,
    )
  }
}

/** Which chain a node works on. */
export type ChainChoice = {
  /** @throws {DirectoryError} {ChainError} */
  readonly choose: (place: ChainPlace) => ChainOption
  /** A directory that holds none gets a development chain, with the contracts of this network; undefined: it gets nothing. */
  readonly made: { readonly chain: string; readonly chainId: number | undefined } | undefined
  /** The genesis.json that the chain is made from: the directory gets a copy, and is complete without it. */
  readonly file?: string | undefined
  /** Advice for a directory of another chain; empty if only another directory helps. */
  readonly advice?: ((held: Marker) => string) | undefined
  /** @throws {StartError} where the command's flags do not fit the chain */
  readonly check: (chain: ChainSpec) => void
}

/** What a directory says of its chain, and when a new one begins. */
export type ChainPlace = {
  readonly path: string
  readonly marker: Marker | undefined
  readonly predeploysFile: string | undefined
  readonly nowSeconds: number
}

/** @param nowSeconds genesis of a development chain that is made now. @throws {DirectoryError} {ChainError} */
export function chainOption(
  { choose }: Pick<ChainChoice, 'choose'>,
  path: string,
  nowSeconds: number,
  predeploysFile: string | undefined = predeploysOf(path),
): ChainOption {
  return choose({ path, nowSeconds, predeploysFile, marker: readMarker(path) })
}

/** undefined: the directory has none, as those of older versions. */
function predeploysOf(path: string): string | undefined {
  const file = join(path, PREDEPLOYS)
  return existsSync(file) ? file : undefined
}

/** A newer format may lack it: then the directory is refused for its version. */
export const given = (value: number | undefined): number | undefined =>
  Number.isSafeInteger(value) ? value : undefined

/**
 * The chain that a directory holds: a known one, or a development chain with its rules.
 * @param own times of forks in place of those that the directory was written with
 * @throws {DirectoryError} {ChainError}
 */
export function heldChain(
  asked: string | undefined,
  { path, marker, predeploysFile }: Omit<ChainPlace, 'nowSeconds'>,
  own?: { readonly forkTimes: ForkTimes | undefined },
): ChainOption {
  if (marker === undefined)
    throw new DirectoryError(
      'foreign',
      `${path} holds no chain: give --datadir a directory that a flashnode has filled`,
    )
  refuseCut(path, marker)
  const name = asked ?? (marker.chain === GENESIS_FILE ? join(path, GENESIS_FILE) : marker.chain)
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
  // Without a match the directory's own check says what is in it.
  return found ?? options[0]!
}

/** Times of forks may fit the one chain of a name and not the other. */
function isMarked(option: ChainOption, marker: Marker): boolean {
  try {
    return bytesToHex(chainSpec(option).genesisHash) === marker.genesis
  } catch (error) {
    if (error instanceof ChainError) return false
    throw error
  }
}

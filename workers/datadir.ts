/** The directory a node keeps its data in, and the chain that is in it. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { predeployAlloc } from '../engine/chainspec/predeploys.ts'
import { type ChainOption, chainSpec } from '../engine/chainspec/registry.ts'
import { bytesToHex } from '../engine/primitives/hex.ts'
import {
  DirectoryError,
  type Marker,
  PREDEPLOYS,
  readMarker,
  writeDurable,
} from '../engine/storage/marker.ts'
import type { Config } from './config.ts'
import { contractCode } from './contracts.ts'

export type DataDirectory = {
  readonly path: string
  /** Accepted transactions that are not final. */
  readonly transactions: string
  /** Frames of the sequencer that are not durable as blocks. */
  readonly flashblocks: string
  /** Removes an ephemeral one. */
  release(): void
}

/** Of an imported chain: the directory has its own copy, and its marker names it so. */
export const GENESIS_FILE = 'genesis.json'

/** @param path undefined: a temporary directory. */
export function openDataDirectory(path: string | undefined): DataDirectory {
  const directory = path ?? mkdtempSync(join(tmpdir(), 'flashnode-'))
  return {
    path: directory,
    transactions: join(directory, 'transactions.journal'),
    flashblocks: join(directory, 'flashblocks.journal'),
    release() {
      if (path === undefined) rmSync(directory, { recursive: true, force: true })
    },
  }
}

/**
 * Writes the contracts of a development chain that is about to be made into its directory. A directory that has a chain keeps what that
 * was made from, be it nothing.
 * @param onCompile called before it takes seconds. @throws {DirectoryError} {ChainError}
 */
export async function providePredeploys(
  config: Config,
  path: string,
  onCompile: () => void,
): Promise<void> {
  if (config.command !== 'dev' || readMarker(path) !== undefined) return
  const bare = chainSpec(chainOption(config, path, 0))
  const { gaslessContract } = bare.rulesAt(0n, bare.genesisHeader.timestamp)
  const alloc = predeployAlloc(await contractCode(onCompile), gaslessContract)
  writeDurable(path, PREDEPLOYS, `${JSON.stringify(alloc, null, 2)}\n`)
}

/** @param nowSeconds genesis of a development chain that is made now. @throws {DirectoryError} {ChainError} */
export function chainOption(config: Config, path: string, nowSeconds: number): ChainOption {
  const marker = readMarker(path)
  if (config.command === 'serve') return servedChain(config.chain, path, marker)
  return {
    name: config.chain ?? 'xlayer',
    dev: {
      chainId: config.chainId,
      predeploysFile: predeploysOf(path),
      allocFile: config.genesisAlloc,
      genesisTimestamp: given(marker?.genesisTimestamp) ?? nowSeconds,
      gasLimit: config.gasLimit ?? given(marker?.genesisGasLimit),
      blockTime: config.blockTimeMs / 1_000,
    },
  }
}

/** undefined: the directory has none, as those of older versions. */
function predeploysOf(path: string): string | undefined {
  const file = join(path, PREDEPLOYS)
  return existsSync(file) ? file : undefined
}

/** A newer format may lack it: then the directory is refused for its version. */
const given = (value: number | undefined): number | undefined =>
  Number.isSafeInteger(value) ? value : undefined

/** The chain of a directory: a known one, or a development chain with its rules. */
function servedChain(
  asked: string | undefined,
  path: string,
  marker: Marker | undefined,
): ChainOption {
  if (marker === undefined)
    throw new DirectoryError(
      'foreign',
      `${path} holds no chain to serve: give --datadir a directory that a flashnode has filled`,
    )
  const name = asked ?? (marker.chain === GENESIS_FILE ? join(path, GENESIS_FILE) : marker.chain)
  const dev = {
    chainId: marker.chainId,
    predeploysFile: predeploysOf(path),
    genesisTimestamp: given(marker.genesisTimestamp) ?? 0,
    gasLimit: given(marker.genesisGasLimit),
  }
  const options: readonly ChainOption[] = [{ name }, { name, dev }]
  const found = options.find(
    (option) => bytesToHex(chainSpec(option).genesisHash) === marker.genesis,
  )
  // Without a match the directory's own check says what is in it.
  return found ?? options[0]!
}

/**
 * The chain of a data directory. A file in the directory has the contracts of a development chain;
 * it is made once, and repaired if damaged.
 */
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ChainError } from '../../engine/chainspec/error.ts'
import { genesisFileOf } from '../../engine/chainspec/genesis-writer.ts'
import { contractCode, predeployAlloc } from '../../engine/chainspec/predeploys.ts'
import { type ChainOption, chainSpec } from '../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import {
  DirectoryError,
  type Marker,
  PREDEPLOYS,
  readMarker,
  writeDurable,
} from '../../engine/storage/directory/marker.ts'
import { type ChainChoice, chainOption, GENESIS_FILE } from './datadir.ts'

export type OwnChain = { readonly option: ChainOption; readonly chain: ChainSpec }

/**
 * @param nowSeconds genesis time of a new development chain
 * @param onRepair called after a damaged file of contracts was repaired
 * @throws {DirectoryError} {ChainError}
 */
export function openChain(
  choice: Pick<ChainChoice, 'choose' | 'made'>,
  { path, nowSeconds }: { readonly path: string; readonly nowSeconds: number },
  onRepair: (file: string) => void,
): OwnChain {
  providePredeploys(choice, path)
  const make = (file?: string) => madeOf(() => chainOption(choice, path, nowSeconds, file))
  const made = make()
  const marker = readMarker(path)
  if (marker === undefined || isOf(made, marker)) return orThrow(made)
  const file = join(path, PREDEPLOYS)
  if (!existsSync(file)) return orThrow(made)
  const repaired = repair(path, marker, make)
  if (repaired !== undefined) {
    onRepair(file)
    return repaired
  }
  // Otherwise the directory's own check describes its chain.
  if (made instanceof ChainError && made.message.startsWith(file))
    throw new DirectoryError(
      'corrupt',
      `${made.message}; the file cannot be made again: restore it from a backup, or give another --datadir`,
    )
  return orThrow(made)
}

/**
 * Writes the contracts of a new development chain into its directory. A directory with a chain
 * retains its contracts, or their absence.
 * @throws {DirectoryError} {ChainError}
 */
export function providePredeploys({ made }: Pick<ChainChoice, 'made'>, path: string): void {
  if (made === undefined || readMarker(path) !== undefined) return
  writeDurable(path, PREDEPLOYS, contractsOf(made.chain, made.chainId))
}

/**
 * Writes the genesis.json of a development chain into its directory, for `follow --chain
 * DIR/genesis.json`.
 * @throws {DirectoryError}
 */
export function provideGenesis(path: string, chain: ChainSpec): void {
  const file = join(path, GENESIS_FILE)
  const text = genesisFileOf(chain)
  // A later start may have changed fork times.
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return
  writeDurable(path, GENESIS_FILE, text)
}

type Made = OwnChain | ChainError

function madeOf(choose: () => ChainOption): Made {
  try {
    const option = choose()
    return { option, chain: chainSpec(option) }
  } catch (error) {
    if (error instanceof ChainError) return error
    throw error
  }
}

function orThrow(made: Made): OwnChain {
  if (made instanceof ChainError) throw made
  return made
}

const isOf = (made: Made, { genesis }: Marker): boolean =>
  !(made instanceof ChainError) && bytesToHex(made.chain.genesisHash) === genesis

/** Makes the text of the file: an `alloc`. */
function contractsOf(name: string, chainId: number | undefined): string {
  const bare = chainSpec({ name, dev: { chainId, genesisTimestamp: 0 } })
  const { gaslessContract } = bare.rulesAt(0n, bare.genesisHeader.timestamp)
  const alloc = predeployAlloc(contractCode(), gaslessContract)
  return `${JSON.stringify(alloc, null, 2)}\n`
}

/**
 * Rewrites the file if today's contracts give the chain that the marker names; otherwise returns
 * undefined.
 */
function repair(path: string, marker: Marker, make: (file?: string) => Made): OwnChain | undefined {
  if (marker.chain === GENESIS_FILE) return undefined
  writeDurable(path, REWRITTEN, contractsOf(marker.chain, marker.chainId))
  const rewritten = join(path, REWRITTEN)
  if (!isOf(make(rewritten), marker)) {
    rmSync(rewritten)
    return undefined
  }
  renameSync(rewritten, join(path, PREDEPLOYS))
  return orThrow(make())
}
const REWRITTEN = `${PREDEPLOYS}.again`

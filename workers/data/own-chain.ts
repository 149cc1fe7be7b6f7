/** The chain of a data directory; the contracts of a development chain lie in a file there, which is made once, and again if it was damaged. */
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
 * @param nowSeconds genesis of a development chain that is made now
 * @param onRepair the file of the contracts was damaged and is as it was again
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
  // Otherwise the directory's own check says what chain is in it.
  if (made instanceof ChainError && made.message.startsWith(file))
    throw new DirectoryError(
      'corrupt',
      `${made.message}; it cannot be made again: put back a copy of it, or give another --datadir`,
    )
  return orThrow(made)
}

/**
 * Writes the contracts of a development chain that is about to be made into its directory. A directory that has a chain keeps what that
 * was made from, be it nothing.
 * @throws {DirectoryError} {ChainError}
 */
export function providePredeploys({ made }: Pick<ChainChoice, 'made'>, path: string): void {
  if (made === undefined || readMarker(path) !== undefined) return
  writeDurable(path, PREDEPLOYS, contractsOf(made.chain, made.chainId))
}

/** The genesis.json of a development chain lies in its directory: `follow --chain DIR/genesis.json`. @throws {DirectoryError} */
export function provideGenesis(path: string, chain: ChainSpec): void {
  const file = join(path, GENESIS_FILE)
  const text = genesisFileOf(chain)
  // A later start may have given times of forks.
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

/** The file's text: an `alloc`. */
function contractsOf(name: string, chainId: number | undefined): string {
  const bare = chainSpec({ name, dev: { chainId, genesisTimestamp: 0 } })
  const { gaslessContract } = bare.rulesAt(0n, bare.genesisHeader.timestamp)
  const alloc = predeployAlloc(contractCode(), gaslessContract)
  return `${JSON.stringify(alloc, null, 2)}\n`
}

/** Writes the file again if that makes the chain which the marker names; undefined: today's contracts do not. */
function repair(path: string, marker: Marker, make: (file?: string) => Made): OwnChain | undefined {
  if (marker.chain === GENESIS_FILE) return undefined
  writeDurable(path, AGAIN, contractsOf(marker.chain, marker.chainId))
  const again = join(path, AGAIN)
  if (!isOf(make(again), marker)) {
    rmSync(again)
    return undefined
  }
  renameSync(again, join(path, PREDEPLOYS))
  return orThrow(make())
}
const AGAIN = `${PREDEPLOYS}.again`

/**
 * Directory of a copy: checks the source before anything is written, and marks the copy as
 * incomplete until the end.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ChainError } from '../../../engine/chainspec/error.ts'
import type { ForkTimes } from '../../../engine/chainspec/fork-times.ts'
import { NETWORKS } from '../../../engine/chainspec/networks.ts'
import { chainOfGenesis, chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { About } from '../../../engine/storage/bootstrap/about.ts'
import { ChunkError } from '../../../engine/storage/bootstrap/chunk.ts'
import { BootstrapError } from '../../../engine/storage/bootstrap/progress.ts'
import {
  DirectoryError,
  type Marker,
  readMarker,
  writeDurable,
  writeMarker,
} from '../../../engine/storage/directory/marker.ts'
import { SCHEMA_VERSION } from '../../../engine/storage/directory/schema.ts'
import { GENESIS_FILE } from '../../data/datadir.ts'
import type { SourceClient } from './source-client.ts'

const MAX_GENESIS_BYTES = 256 * 2 ** 20

/**
 * Returns the name of this copy at the source; an interrupted copy retains its name.
 * @throws {DirectoryError} if the directory has other contents
 */
export function copyName(path: string): string {
  const marker = readMarker(path)
  if (marker === undefined) return randomBytes(16).toString('hex')
  if (marker.bootstraps === undefined)
    throw new DirectoryError(
      'foreign',
      `${path} already has a chain: give --datadir an empty directory`,
    )
  if (marker.version !== SCHEMA_VERSION)
    throw new DirectoryError(
      'older',
      `${path} is a copy that another version of flashnode started (format ${marker.version}): remove it, and run the same command again`,
    )
  return marker.bootstraps.by
}

/**
 * @param requested value of `--chain`
 * @throws {BootstrapError} with the mismatch
 */
export function checkAbout(about: About, name: string, requested: string | undefined): void {
  if (about.schema !== SCHEMA_VERSION)
    throw new BootstrapError(
      `${name} has data format ${about.schema}, this version of flashnode has ${SCHEMA_VERSION}: run the same version on both sides`,
    )
  if (!about.isWhole)
    throw new BootstrapError(
      `${name} has only a part of the state, because it runs with --state lazy: copy a node with --state whole`,
    )
  if (requested === undefined) return
  const wanted = bytesToHex(chainSpec({ name: requested }).genesisHash)
  if (wanted !== about.genesis)
    throw new BootstrapError(
      `${name} has chain ${about.chainId} with genesis ${about.genesis}, but --chain ${requested} has genesis ${wanted}: give another --from or --chain`,
    )
}

/**
 * Binds an empty directory to this chain, or checks that it is bound.
 * @throws {BootstrapError} {DirectoryError}
 */
export async function claimDirectory(
  path: string,
  { node, about, by }: { readonly node: SourceClient; readonly about: About; readonly by: string },
): Promise<ChainSpec> {
  const marker = readMarker(path)
  if (
    marker !== undefined &&
    (marker.genesis !== about.genesis || marker.chainId !== about.chainId)
  )
    throw new BootstrapError(
      `${path} is a copy of chain ${marker.chainId} with genesis ${marker.genesis}, but ${node.name} has chain ${about.chainId} with genesis ${about.genesis}: give another --datadir or --from`,
    )
  const file = join(path, GENESIS_FILE)
  if (marker !== undefined && (marker.chain !== GENESIS_FILE || existsSync(file)))
    return chainSpec({
      name: marker.chain === GENESIS_FILE ? file : marker.chain,
      forkTimes: marker.forkTimes,
    })
  const text = about.chain === undefined ? await genesisOf(node) : undefined
  const chain = text === undefined ? namedChain(about.chain!, about.forkTimes) : chainOfText(text)
  if (bytesToHex(chain.genesisHash) !== about.genesis || Number(chain.chainId) !== about.chainId)
    throw new BootstrapError(
      `the genesis.json of ${node.name} gives the hash ${bytesToHex(chain.genesisHash)}, expected the genesis of its chain, ${about.genesis}: copy another node`,
    )
  writeMarker(path, markerOf(chain, about, { from: node.name, by }))
  if (text !== undefined) writeDurable(path, GENESIS_FILE, text)
  return chain
}

export function releaseDirectory(path: string): void {
  const marker = readMarker(path)
  if (marker !== undefined) writeMarker(path, { ...marker, bootstraps: undefined })
}

const markerOf = (
  chain: ChainSpec,
  about: About,
  bootstraps: NonNullable<Marker['bootstraps']>,
): Marker => ({
  version: SCHEMA_VERSION,
  bootstraps,
  chainId: about.chainId,
  genesis: about.genesis,
  chain: about.chain ?? GENESIS_FILE,
  genesisTimestamp: Number(chain.genesisHeader.timestamp),
  genesisGasLimit: Number(chain.genesisHeader.gasLimit),
  forkTimes: about.forkTimes,
})

function namedChain(name: string, forkTimes: ForkTimes | undefined): ChainSpec {
  if (NETWORKS.has(name)) return chainSpec({ name, forkTimes })
  throw new BootstrapError(
    `the chain of the node, "${name.slice(0, 64)}", is unknown to this version: run the same version of flashnode on both sides`,
  )
}

async function genesisOf(node: SourceClient): Promise<string> {
  const pieces: Uint8Array[] = []
  let at = 0
  for (let size = Number.POSITIVE_INFINITY; at < size; ) {
    size = await node.request({ part: 'genesis', at }, ({ head, rows }) => {
      const said = head['size']
      const piece = rows[0]?.value
      if (!Number.isSafeInteger(said) || (said as number) > MAX_GENESIS_BYTES)
        throw new ChunkError(`its genesis.json is longer than ${MAX_GENESIS_BYTES} bytes`)
      if (piece === undefined || piece.length === 0 || at + piece.length > (said as number))
        throw new ChunkError('the pieces of its genesis.json do not match its size')
      pieces.push(piece)
      at += piece.length
      return said as number
    })
  }
  return Buffer.concat(pieces).toString('utf8')
}

function chainOfText(text: string): ChainSpec {
  try {
    return chainOfGenesis(JSON.parse(text))
  } catch (error) {
    if (error instanceof ChainError)
      throw new BootstrapError(`the genesis.json of the node: ${error.message}`)
    throw new BootstrapError('the genesis.json of the node is not valid JSON')
  }
}

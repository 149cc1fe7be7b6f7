/** The directory of a copy: what node it is of, checked before anything is written, and the marker that says until the end that it is half done. */
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
import { BootstrapError } from '../../../engine/storage/bootstrap/fault.ts'
import {
  DirectoryError,
  type Marker,
  readMarker,
  writeDurable,
  writeMarker,
} from '../../../engine/storage/directory/marker.ts'
import { SCHEMA_VERSION } from '../../../engine/storage/directory/schema.ts'
import { GENESIS_FILE } from '../../data/datadir.ts'
import type { AskedNode } from './asking.ts'

/** Of the longest genesis.json that is read. */
const MOST_GENESIS_BYTES = 256 * 2 ** 20

/** Which copy this is at the node: the same after a cut. @throws {DirectoryError} for a directory that holds something else */
export function copyName(path: string): string {
  const marker = readMarker(path)
  if (marker === undefined) return randomBytes(16).toString('hex')
  if (marker.bootstraps === undefined)
    throw new DirectoryError(
      'foreign',
      `${path} holds a chain already: give --datadir an empty or another directory`,
    )
  if (marker.version !== SCHEMA_VERSION)
    throw new DirectoryError(
      'older',
      `${path} was begun by another flashnode (format ${marker.version}): remove it, and run the same command again`,
    )
  return marker.bootstraps.by
}

/** @param asked `--chain` @throws {BootstrapError} saying what does not fit */
export function checkAbout(about: About, name: string, asked: string | undefined): void {
  if (about.schema !== SCHEMA_VERSION)
    throw new BootstrapError(
      `${name} has format ${about.schema}, this flashnode writes ${SCHEMA_VERSION}: run the same flashnode on both sides`,
    )
  if (!about.isWhole)
    throw new BootstrapError(
      `${name} fetches its state, and has a part of it only: copy a node with --state whole`,
    )
  if (asked === undefined) return
  const wanted = bytesToHex(chainSpec({ name: asked }).genesisHash)
  if (wanted !== about.genesis)
    throw new BootstrapError(
      `${name} has chain ${about.chainId} with genesis ${about.genesis}, --chain ${asked} has ${wanted}: give another --from or --chain`,
    )
}

/** Makes the directory that of this chain, or finds it so. @throws {BootstrapError} {DirectoryError} */
export async function claimDirectory(
  path: string,
  { node, about, by }: { readonly node: AskedNode; readonly about: About; readonly by: string },
): Promise<ChainSpec> {
  const marker = readMarker(path)
  if (
    marker !== undefined &&
    (marker.genesis !== about.genesis || marker.chainId !== about.chainId)
  )
    throw new BootstrapError(
      `${path} is a copy of chain ${marker.chainId} with genesis ${marker.genesis}, ${node.name} has chain ${about.chainId} with ${about.genesis}: give another --datadir or --from`,
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
      `the genesis.json of ${node.name} has the hash ${bytesToHex(chain.genesisHash)}, its chain ${about.genesis}: copy another node`,
    )
  writeMarker(path, markerOf(chain, about, { from: node.name, by }))
  if (text !== undefined) writeDurable(path, GENESIS_FILE, text)
  return chain
}

/** It is a directory like any other. */
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
    `its chain "${name.slice(0, 64)}" is not known here: run the same flashnode on both sides`,
  )
}

async function genesisOf(node: AskedNode): Promise<string> {
  const pieces: Uint8Array[] = []
  let at = 0
  for (let size = Number.POSITIVE_INFINITY; at < size; ) {
    size = await node.ask({ part: 'genesis', at }, ({ head, rows }) => {
      const said = head['size']
      const piece = rows[0]?.value
      if (!Number.isSafeInteger(said) || (said as number) > MOST_GENESIS_BYTES)
        throw new ChunkError(`its genesis.json is longer than ${MOST_GENESIS_BYTES} bytes`)
      if (piece === undefined || piece.length === 0 || at + piece.length > (said as number))
        throw new ChunkError('its genesis.json comes in pieces that do not fit')
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
    if (error instanceof ChainError) throw new BootstrapError(`its genesis.json: ${error.message}`)
    throw new BootstrapError('its genesis.json is no JSON')
  }
}

/**
 * Reads for new replicas in a thread of its own, one request at a time. Neither clients nor the
 * chain wait for it.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { NETWORKS } from '../../engine/chainspec/networks.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { CopyRequestError, readCopyRequest } from '../../engine/storage/bootstrap/copy-request.ts'
import { type BootstrapSource, openBootstrapSource } from '../../engine/storage/bootstrap/source.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { DirectoryError, readMarker } from '../../engine/storage/directory/marker.ts'
import { GENESIS_FILE } from '../data/datadir.ts'
import type { FromReader, Read, ReaderData, ToReader } from './messages.ts'

if (parentPort !== null) run(parentPort, workerData as ReaderData)

function run(main: MessagePort, data: ReaderData): void {
  const source = openSource(data)
  main.on('message', (message: ToReader) => {
    if (message.type === 'stop') return main.close()
    const response = responseOf(source, message.query)
    const said: FromReader = { type: 'answer', request: message.request, response }
    main.postMessage(said, 'bytes' in response ? [response.bytes.buffer] : [])
  })
}

function responseOf(source: BootstrapSource, query: string): Read {
  try {
    // The bytes are copied into a buffer that can be transferred to the main thread.
    return { bytes: new Uint8Array(source.respond(readCopyRequest(new URLSearchParams(query)))) }
  } catch (error) {
    if (error instanceof CopyRequestError) return { wrong: error.message }
    throw error
  }
}

function openSource({ database, path, chunkBytes, keepsDiffs }: ReaderData): BootstrapSource {
  const attached = attachDatabase(database)
  const marker = readMarker(path)
  if (marker === undefined) throw new DirectoryError('foreign', `${path} has no chain`)
  const { chainId, genesis, chain, forkTimes } = marker
  return openBootstrapSource({
    database: attached,
    chainId,
    genesis,
    forkTimes,
    chunkBytes,
    keepsDiffs,
    chain: isNetwork(chain, genesis) ? chain : undefined,
    genesisFile: () => new Uint8Array(readFileSync(join(path, GENESIS_FILE))),
  })
}

/** A development chain has the name of a network, but a genesis of its own. */
function isNetwork(name: string, genesis: string): boolean {
  return NETWORKS.has(name) && bytesToHex(chainSpec({ name }).genesisHash) === genesis
}

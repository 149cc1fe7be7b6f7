/** Checks a data directory: its chain, its format, its lock, and a sample of its contents. */
import { randomInt } from 'node:crypto'
import { ChainError } from '../../../engine/chainspec/error.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { ENGINE_NAMES } from '../../../engine/evm/engines/names.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { StoredChainError } from '../../../engine/storage/blocks/recover.ts'
import { EmptyStoreError } from '../../../engine/storage/blocks/store.ts'
import { DatabaseError } from '../../../engine/storage/database/options.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { DirectoryError, readMarker } from '../../../engine/storage/directory/marker.ts'
import { openDirectory } from '../../../engine/storage/directory/schema.ts'
import { verify } from '../../../engine/verify/verify.ts'
import { chainOption, GENESIS_FILE, storedChain } from '../../data/datadir.ts'
import { error, type Line, ok, warning } from './line.ts'

const CACHE_BYTES = 64 * 2 ** 20
const CLOSE_MS = 3_000
/** The message of each of these errors ends with advice. */
const EXPECTED = [DirectoryError, ChainError, DatabaseError, StoredChainError, EmptyStoreError]

export type DirectoryReport = {
  readonly lines: readonly Line[]
  /** The chain in the directory; undefined if none could be read. */
  readonly chain: ChainSpec | undefined
}

/** @param requested the chain that --chain names; undefined if it is absent */
export async function directoryLines(
  path: string,
  { requested, sample }: { readonly requested: ChainSpec | undefined; readonly sample: number },
): Promise<DirectoryReport> {
  const about = 'directory'
  try {
    if (readMarker(path) === undefined)
      return { lines: [ok(about, `${path} is empty: a node can start in it`)], chain: undefined }
    const option = chainOption(
      { choose: (chainDirectory) => storedChain(undefined, chainDirectory) },
      path,
      0,
    )
    const chain = chainSpec(option)
    const database = await openDirectory({
      path,
      chain,
      chainName: GENESIS_FILE,
      cacheBytes: CACHE_BYTES,
    })
    try {
      const lines = [
        ...chainLines(chain, requested),
        ...(await sampleLines(database, chain, sample)),
      ]
      return { lines: [ok(about, `${path} has the format of this version`), ...lines], chain }
    } finally {
      await database.close(CLOSE_MS)
    }
  } catch (fault) {
    if (!EXPECTED.some((kind) => fault instanceof kind)) throw fault
    const { message } = fault as Error
    const at = Math.max(message.lastIndexOf(': '), message.lastIndexOf('; '))
    const [says, advice] = at < 0 ? [message, ''] : [message.slice(0, at), message.slice(at + 2)]
    return { lines: [error(about, says, advice)], chain: undefined }
  }
}

function chainLines(chain: ChainSpec, requested: ChainSpec | undefined): readonly Line[] {
  const about = 'directory chain'
  if (
    requested === undefined ||
    bytesToHex(requested.genesisHash) === bytesToHex(chain.genesisHash)
  )
    return [ok(about, `${chain.chainId}, ${chain.name}`)]
  return [
    error(
      about,
      `has chain ${chain.chainId} with genesis ${bytesToHex(chain.genesisHash)}, but --chain is ${requested.chainId} with genesis ${bytesToHex(requested.genesisHash)}`,
      'give another --datadir, or another --chain',
    ),
  ]
}

async function sampleLines(
  database: Database,
  chain: ChainSpec,
  sample: number,
): Promise<readonly Line[]> {
  if (sample === 0) return []
  const { findings, counts, head } = await verify({
    database,
    chain,
    engine: engineByName(ENGINE_NAMES[0]),
    sample,
    random: () => randomInt(2 ** 47) / 2 ** 47,
    onStep: () => true,
  })
  const about = 'directory sample'
  const [first] = findings.retained
  if (first !== undefined) {
    const { where, key, message, advice } = first
    const says = `${findings.count} findings, such as ${where} ${key ?? ''} ${message}`
    return [error(about, says, `${advice}; \`flashnode verify\` checks all of it`)]
  }
  const says = `head ${head}: ${counts.blocks} blocks, ${counts.executed} executed again, ${counts.accounts} accounts`
  if (counts.notExecuted > 0)
    return [
      warning(
        about,
        `${says}; ${counts.notExecuted} blocks cannot be executed, because they read state that is not in the directory`,
        'this is usual for a lazy node, which deletes fetched state: a larger --lazy-cache retains more',
      ),
    ]
  return [ok(about, says)]
}

/** `flashnode import`: executes and verifies the blocks of a file into a data directory. */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { decodeBlock } from '../../../engine/primitives/block-codec.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { RlpError } from '../../../engine/primitives/rlp.ts'
import { rlpItems } from '../../../engine/primitives/rlp-stream.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import { ImportError, type Imported, openImport } from '../../../engine/sources/import.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openDirectory } from '../../../engine/storage/directory/schema.ts'
import { forkTimesOf } from '../../config/fork-time.ts'
import type { WorkingConfig } from '../../config/options.ts'
import { GENESIS_FILE } from '../../data/datadir.ts'
import { settleForkTimes } from '../../data/fork-times.ts'
import { createReporter } from '../../observe/reporter.ts'
import { StartError } from '../../process/context.ts'
import { openInputFile } from '../shared/input-file.ts'
import type { JobContext } from '../shared/job.ts'
import { startProgress } from '../shared/progress.ts'

/** Maximum for one block in the file; Ethereum's own limit is 10 MiB (EIP-7934). */
const MAX_BLOCK_BYTES = 64 * 1024 * 1024
const CLOSE_MS = 3_000

type ImportConfig = Pick<WorkingConfig, 'historyBlocks' | 'dbCache' | 'engine'> & {
  readonly genesis: string
  readonly chain: string
  readonly datadir: string
  /** Hash of the last block to import; undefined imports the whole file. */
  readonly head: `0x${string}` | undefined
  /** Entries have the form `NAME=TIME` or `NAME=off`. */
  readonly forkTime: readonly string[]
}

/** Messages of these errors name the cause and the remedy. */
export const FAILS = [ImportError, StartError]

/**
 * Continues after the last imported block and returns the exit status. A stop waits for the current
 * block.
 * @throws {ImportError} {StartError} {ChainError} {DirectoryError} with a text of one line; earlier
 * blocks stay imported
 */
export async function runImport(config: ImportConfig, context: JobContext): Promise<number> {
  const option = { name: config.genesis, forkTimes: forkTimesOf(config.forkTime) }
  const chain = chainSpec(option)
  const path = config.datadir
  const database = await openDirectory({
    path,
    chain,
    chainName: GENESIS_FILE,
    cacheBytes: config.dbCache * 2 ** 20,
  })
  try {
    settleForkTimes(database, { path, option, chain })
    // A copy of the genesis makes the directory independent of the original file.
    copyFileSync(config.genesis, join(path, GENESIS_FILE))
    importGenesis(database, chain)
    const last = await importFile(config, { ...context, chain, database })
    process.stdout.write(`${last}\n`)
    return 0
  } finally {
    await database.close(CLOSE_MS)
  }
}

async function importFile(
  config: ImportConfig,
  context: JobContext & { readonly chain: ChainSpec; readonly database: Database },
): Promise<string> {
  const { historyBlocks } = config
  const { report } = createReporter(context.log)
  const target = openImport({
    ...context,
    engine: engineByName(config.engine, {
      onTrap: (reason) => report('engine_trapped', { reason }),
    }),
    limits: { undoWindow: 256, historyBlocks: historyBlocks === 'all' ? undefined : historyBlocks },
  })
  const wanted = config.head === undefined ? undefined : hexToBytes(config.head)
  const file = openInputFile(config.chain)
  const count = createCount(() => performance.now())
  const progress = startProgress(file.bytes, { ...context, now: () => performance.now() })
  let last: Imported | undefined
  try {
    for await (const raw of rlpItems(file.chunks, MAX_BLOCK_BYTES)) {
      const block = decoded(raw, last)
      last = await target.add(block)
      count.add(last)
      progress.update(file.read(), count.text())
      if (isWanted(last, wanted) || context.isStopped()) break
    }
    if (wanted !== undefined && !context.isStopped() && !(last && isWanted(last, wanted)))
      throw new ImportError(`${config.chain} has no block ${config.head}`)
  } finally {
    progress.stop()
    target.finish()
  }
  if (last === undefined) return `imported nothing: ${config.chain} has no blocks`
  const stopped = context.isStopped() ? 'stopped; run the same command again to continue. ' : ''
  return `${stopped}imported ${count.text()}: head ${last.number} ${bytesToHex(last.hash)}`
}

const isWanted = ({ hash }: Imported, wanted: Bytes | undefined): boolean =>
  wanted !== undefined && equalBytes(hash, wanted)

function decoded(raw: Bytes, last: Imported | undefined) {
  try {
    return decodeBlock(raw)
  } catch (error) {
    if (!(error instanceof RlpError)) throw error
    const after = last === undefined ? 'the first block' : `the block after ${last.number}`
    throw new ImportError(`${after} cannot be read: ${error.message}`)
  }
}

function createCount(now: () => number) {
  const started = now()
  let blocks = 0
  let known = 0
  let transactions = 0
  let gas = 0n
  return {
    add(block: Imported): void {
      if (block.isKnown) known++
      else {
        blocks++
        transactions += block.transactions
        gas += block.gasUsed
      }
    },
    text(): string {
      const seconds = Math.max(0.001, (now() - started) / 1_000)
      const speed = `${(Number(gas) / 1e6 / seconds).toFixed(1)} Mgas/s`
      const skipped = known === 0 ? '' : ` (${known} existed already)`
      return `${blocks} blocks${skipped}, ${transactions} transactions, ${speed}`
    },
  }
}

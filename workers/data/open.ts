/**
 * Opens the data that all threads of a node share: the directory, its chain, and the arena of the
 * views.
 */
import { randomInt } from 'node:crypto'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { importGenesis } from '../../engine/storage/blocks/genesis-import.ts'
import type { Database } from '../../engine/storage/database/types.ts'
import { type Journal, openJournal, tornCopy } from '../../engine/storage/directory/journal.ts'
import { openDirectory } from '../../engine/storage/directory/schema.ts'
import { lazyDirectory } from '../../engine/storage/lazy/directory.ts'
import { cacheEntriesIn, createViews } from '../../engine/views/arena.ts'
import { chosenMemory, viewMemory } from '../../engine/views/memory.ts'
import { type Deadlines, longestMs } from '../../rpc/core/queue-class.ts'
import type { NodeConfig } from '../config/serving-options.ts'
import { type NodeContext, StartError } from '../process/context.ts'
import type { SharedCalling } from '../thread/messages.ts'
import { allRows, divide } from '../thread/rows.ts'
import { createClockMemory } from '../thread/running-clock.ts'
import { type ChainChoice, type DataDirectory, GENESIS_FILE, openDataDirectory } from './datadir.ts'
import { settleForkTimes } from './fork-times.ts'
import { openChain, provideGenesis } from './own-chain.ts'

export type OpenedData = {
  readonly database: Database
  readonly shared: Omit<SharedCalling, 'thread'>
  readonly chain: ChainSpec
  readonly directory: DataDirectory
  /** Journal of accepted transactions. */
  readonly journal: Journal
}

/**
 * Prepares an open directory, which may be empty.
 * @throws {StartError} and errors of reading the directory
 */
export type Prepare = (
  opened: Opened,
  context: Pick<NodeContext, 'log' | 'reporter' | 'lifecycle'>,
) => Promise<void>
export type Opened = {
  readonly database: Database
  readonly chain: ChainSpec
  readonly path: string
}

/**
 * Maximum number of simultaneous threads of one process, including those that are being replaced.
 */
const MAX_THREADS = 256
/** Time that is reserved for closing, however long earlier parts take. */
const CLOSE_MS = 200
const MEGABYTE = 1024 * 1024
/** The journal has everything in the pool, and included transactions that are not final yet. */
const JOURNAL_BYTES = 512 * MEGABYTE

/** @throws {DirectoryError} {ChainError} {GenesisError} {StartError} */
export async function openData(
  { config, log, reporter, lifecycle }: NodeContext,
  {
    chain: choice,
    prepare,
  }: { readonly chain: ChainChoice; readonly prepare?: Prepare | undefined },
): Promise<OpenedData> {
  const directory = openDataDirectory(config.datadir)
  /*
   * The directory is released however the process ends, because a second signal skips all stop
   * handlers.
   */
  process.once('exit', directory.release)
  lifecycle.onStop('the data directory', () => {
    process.off('exit', directory.release)
    directory.release()
  })
  const chainDirectory = { path: directory.path, nowSeconds: Math.floor(Date.now() / 1_000) }
  const { option, chain } = openChain(choice, chainDirectory, (file) =>
    reporter.report('contracts_damaged', { file }),
  )
  choice.check(chain)
  const database = await openDirectory({
    path: directory.path,
    chain,
    chainName: choice.file === undefined ? option.name : GENESIS_FILE,
    cacheBytes: config.dbCache * MEGABYTE,
    maxThreads: MAX_THREADS,
    advice: choice.advice,
  })
  lifecycle.onStop('the database', (withinMs) => database.close(withinMs), { minMs: CLOSE_MS })
  if (option.forkTimes !== undefined)
    log.info(
      { forkTimes: option.forkTimes },
      'forks start at the times of --fork-time, not at those of the chain',
    )
  settleForkTimes(database, { path: directory.path, option, chain })
  if (choice.made !== undefined) provideGenesis(directory.path, chain)
  if (choice.file !== undefined) copyFileSync(choice.file, join(directory.path, GENESIS_FILE))
  if (prepare !== undefined) {
    const opened = { database, chain, path: directory.path }
    await prepare(opened, { log, reporter, lifecycle })
  } else {
    refuseLazy(database, directory.path)
    if (importGenesis(database, chain))
      log.info({ path: directory.path }, 'wrote the genesis block')
  }
  const views = createViews({
    bytes: arenaBytes(config, chain),
    threads: allRows(divide(config.poolThreads, config.frontThreads)),
    seed: randomInt(2 ** 32 - 1),
    cacheEntries: cacheEntriesIn(config.stateCache * MEGABYTE),
  })
  // The journal closes after the writer, whose publishes may rewrite it.
  const journal = openTransactions(directory.transactions, { log, reporter })
  lifecycle.onStop('the journal of transactions', journal.close)
  const shared = {
    database: database.share(),
    views,
    chain: option,
    engine: config.engine,
    clock: createClockMemory(),
  }
  return { database, shared, chain, directory, journal }
}

/**
 * A damaged entry costs only its transaction, because no other depends on it.
 * @throws {JournalError}
 */
function openTransactions(
  path: string,
  { log, reporter }: Pick<NodeContext, 'log' | 'reporter'>,
): Journal {
  const journal = openJournal(path, { limitBytes: JOURNAL_BYTES, ifDamaged: 'skip' })
  const { damage, tornBytes } = journal
  if (damage !== undefined)
    reporter.report('journal_damaged', { reason: damage.message, copy: damage.copy })
  if (tornBytes > 0)
    log.info(
      { path, bytes: tornBytes, copy: tornCopy(path) },
      'removed an incomplete record at the end of the journal, which a kill had left',
    )
  return journal
}

/**
 * Refuses lazy state, because a node that does not fetch cannot distinguish missing values from
 * empty ones.
 * @throws {StartError}
 */
function refuseLazy(database: Database, path: string): void {
  const { status } = lazyDirectory(database)
  if (status === 'begun' || status === 'cut')
    throw new StartError(
      `${path} has lazy state, which is only the part that \`follow\` has fetched: run \`follow\` with it, or give --datadir another directory`,
    )
}

type ViewConfig = Pick<NodeConfig, 'viewMemory' | 'heldFlashblocks'> & {
  readonly limits: Deadlines & { readonly graceMs: number }
}

function arenaBytes(config: ViewConfig, chain: ChainSpec): number {
  const { viewMemory: requested, heldFlashblocks, limits } = config
  const memory = viewMemory({
    foldDepth: heldFlashblocks,
    gasLimit: Number(chain.genesisHeader.gasLimit),
    blockTimeMs: chain.blockTime * 1_000,
    deadlineMs: longestMs(limits) + limits.graceMs,
  })
  if (requested !== undefined && requested * MEGABYTE < memory.minimum)
    throw new StartError(
      `--view-memory ${requested} is too small: the chain's gas limit and --held-flashblocks ${heldFlashblocks} need at least ${Math.ceil(memory.minimum / MEGABYTE)} MB`,
    )
  return chosenMemory(requested === undefined ? undefined : requested * MEGABYTE, memory)
}

/** What every thread of a node works on: the data directory, its chain, and the arena of the views. */
import { randomInt } from 'node:crypto'
import { chainSpec } from '../engine/chainspec/registry.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Database } from '../engine/storage/database.ts'
import { importGenesis } from '../engine/storage/genesis-import.ts'
import { type Journal, openJournal } from '../engine/storage/journal.ts'
import { openDirectory } from '../engine/storage/schema.ts'
import { createViews } from '../engine/views/arena.ts'
import { chosenMemory, viewMemory } from '../engine/views/memory.ts'
import type { Config } from './config.ts'
import { type NodeContext, StartError } from './context.ts'
import { chainOption, type DataDirectory, openDataDirectory, providePredeploys } from './datadir.ts'
import type { SharedNode } from './messages.ts'
import { allRows } from './threads.ts'

export type OpenedData = {
  readonly database: Database
  readonly shared: Omit<SharedNode, 'thread'>
  readonly chain: ChainSpec
  readonly directory: DataDirectory
  /** Of accepted transactions. */
  readonly journal: Journal
}

/** Threads of one process at a time, those that are being replaced included. */
const MAX_THREADS = 256
const CLOSE_MS = 3_000
const MEGABYTE = 1024 * 1024
/** It also has what is included and not yet final, beside all that the pool may hold. */
const JOURNAL_BYTES = 512 * MEGABYTE

/** @throws {DirectoryError} {ChainError} {GenesisError} {StartError} */
export async function openData({ config, log, lifecycle }: NodeContext): Promise<OpenedData> {
  const directory = openDataDirectory(config.datadir)
  // However it ends, short of a kill: a second signal closes nothing.
  process.once('exit', directory.release)
  await providePredeploys(config, directory.path, () =>
    log.info('compiling the contracts of the development chain, which is done once'),
  )
  const option = chainOption(config, directory.path, Math.floor(Date.now() / 1_000))
  const chain = chainSpec(option)
  if (config.legacyRpc !== undefined && chain.genesisNumber === 0n)
    throw new StartError(
      `--legacy-rpc is for a chain that goes on from an older one: ${chain.name} begins at block 0, leave it out`,
    )
  const database = await openDirectory({
    path: directory.path,
    chain,
    chainName: option.name,
    cacheBytes: config.dbCache * MEGABYTE,
    maxThreads: MAX_THREADS,
  })
  lifecycle.onStop('the database', () => database.close(CLOSE_MS), CLOSE_MS + 1_000)
  if (importGenesis(database, chain)) log.info({ path: directory.path }, 'wrote the genesis')
  const views = createViews({
    bytes: arenaBytes(config, chain),
    threads: allRows(config.poolThreads),
    seed: randomInt(2 ** 32 - 1),
  })
  // Closed after the writer, whose publishes may rewrite it.
  const journal = openJournal(directory.transactions, JOURNAL_BYTES)
  lifecycle.onStop('the journal of transactions', journal.close)
  const shared = { database: database.share(), views, chain: option, engine: config.engine }
  return { database, shared, chain, directory, journal }
}

function arenaBytes(config: Config, chain: ChainSpec): number {
  const { callMs, traceMs, logsMs, graceMs } = config.limits
  const memory = viewMemory({
    gasLimit: Number(chain.genesisHeader.gasLimit),
    blockTimeMs: chain.blockTime * 1_000,
    deadlineMs: Math.max(callMs, traceMs, logsMs) + graceMs,
  })
  const asked = config.viewMemory
  if (asked !== undefined && asked * MEGABYTE < memory.minimum)
    throw new StartError(
      `--view-memory ${asked} is too little: this chain's gas limit needs at least ${Math.ceil(memory.minimum / MEGABYTE)}`,
    )
  return chosenMemory(asked === undefined ? undefined : asked * MEGABYTE, memory)
}

/**
 * `flashnode bootstrap`: copies rows and blocks of a running node, builds the state, and persists
 * newer blocks.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { About } from '../../../engine/storage/bootstrap/about.ts'
import { openCatchUp } from '../../../engine/storage/bootstrap/catch-up.ts'
import { type Copy, openCopy } from '../../../engine/storage/bootstrap/copy.ts'
import { makeState, StateRootError } from '../../../engine/storage/bootstrap/made-state.ts'
import { BootstrapError, newProgress } from '../../../engine/storage/bootstrap/progress.ts'
import { columnOptions } from '../../../engine/storage/database/columns.ts'
import { openDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openState } from '../../../engine/storage/directory/schema.ts'
import { lazyDirectory } from '../../../engine/storage/lazy/directory.ts'
import type { WorkingConfig } from '../../config/options.ts'
import { readToken } from '../../config/token-file.ts'
import { StartError } from '../../process/context.ts'
import type { JobContext } from '../shared/job.ts'
import { print } from '../shared/print.ts'
import { type CopyProgress, startCopyProgress } from './copy-progress.ts'
import { checkAbout, claimDirectory, copyName, releaseDirectory } from './directory.ts'
import { type Fetching, fetchAll, fetchTip, requestAbout } from './fetching.ts'
import { openSourceClient, type SourceClient, StoppedError } from './source-client.ts'

const CLOSE_MS = 3_000
const SORTING = 'sorting'
const SORTER_CACHE_BYTES = 64 * 2 ** 20
/**
 * Share of transactions whose sender is recovered again, at 50 µs each; `verify` checks all of
 * them.
 */
const SENDER_SHARE = 1 / 16
/** The copy ends when the node is at most this many blocks ahead; `follow` fetches the rest. */
const CAUGHT_UP_BLOCKS = 8
const MAX_ATTEMPTS = 2
const STOPPED = 'stopped: the copied data is retained, and the same command continues the copy\n'

export type BootstrapConfig = Pick<WorkingConfig, 'dbCache'> & {
  readonly from: string
  readonly datadir: string
  readonly tokenFile: string
  readonly chain: string | undefined
  readonly retryMs: number
}

/** Messages of these errors name the cause and the remedy. */
export const FAILS = [BootstrapError]

/**
 * Returns the exit status: 0 if the directory is ready.
 * @throws {BootstrapError} {DirectoryError} {ChainError} {StartError} with a text of one line
 */
export async function runBootstrap(config: BootstrapConfig, context: JobContext): Promise<number> {
  const { datadir } = config
  const { isStopped, log } = context
  const by = copyName(datadir)
  const node = openSourceClient({
    url: new URL(config.from),
    token: tokenOf(config.tokenFile),
    by,
    isStopped,
    retryMs: config.retryMs,
    report: (text) => log.info(text),
  })
  try {
    const about = await requestAbout(node)
    checkAbout(about, node.name, config.chain)
    const chain = await claimDirectory(datadir, { node, about, by })
    const database = await openState(datadir, { cacheBytes: config.dbCache * 2 ** 20 })
    const copyProgress = startCopyProgress(context)
    try {
      const said = await copyAll(config, { database, chain, node, about, isStopped, copyProgress })
      copyProgress.stop()
      await print(said ?? STOPPED)
      if (said !== undefined) releaseDirectory(datadir)
      return said === undefined ? 1 : 0
    } finally {
      copyProgress.stop()
      await database.close(CLOSE_MS)
    }
  } catch (error) {
    if (!(error instanceof StoppedError)) throw error
    await print(STOPPED)
    return 1
  }
}

function tokenOf(path: string): string {
  const read = readToken(path)
  if ('problem' in read) throw new StartError(read.problem)
  return read.token
}

type Around = {
  readonly database: Database
  readonly chain: ChainSpec
  readonly node: SourceClient
  readonly about: About
  readonly isStopped: () => boolean
  readonly copyProgress: CopyProgress
}

/** Returns the closing text, or undefined if it was stopped. */
async function copyAll(config: BootstrapConfig, around: Around): Promise<string | undefined> {
  const { database, chain, node, about, isStopped, copyProgress } = around
  const copy = openCopy(database, chain, {
    hasWithdrawals: ({ number, timestamp }) => !chain.rulesAt(number, timestamp).isOptimism,
    random: Math.random,
    senderShare: SENDER_SHARE,
  })
  // An earlier run was killed just before it wrote the marker.
  if (copy.progress() === undefined && lazyDirectory(database).status === 'whole')
    return summaryOf(node, database)
  if (copy.progress() === undefined) {
    const { start, first, oldestState, keepsDiffs } = about
    copy.start(newProgress({ start, first, oldest: oldestState, keepsDiffs }))
  }
  const fetching: Fetching = { node, copy, isStopped, report: copyProgress.fetched }
  /*
   * A short reorg of the source between two requests leaves rows of an abandoned block. The state
   * is then fetched again.
   */
  for (let attempt = 1; !copy.progress()!.isMade; attempt++) {
    if (!(await fetchAll(fetching))) return undefined
    const made = await make(config.datadir, copy, around)
    if (made === 'stopped') return undefined
    if (made instanceof StateRootError && attempt === MAX_ATTEMPTS) throw refused(node, made)
  }
  if (!(await catchUp(config, fetching, around))) return undefined
  return summaryOf(node, database)
}

function summaryOf(node: SourceClient, database: Database): string {
  const { number, hash } = openStore(database).persistedHead()
  const { bytes, responses } = node.came()
  return `copied from ${node.name} in ${responses} answers, ${bytes} bytes: head ${number} ${bytesToHex(hash)}\n`
}

const refused = ({ name }: SourceClient, { message }: StateRootError) =>
  new BootstrapError(
    `${name} sent twice a state that does not match its block: ${message}; check that node (\`flashnode verify\`), or copy another one`,
  )

/** Builds the state; a state that differs from its header's root is deleted. */
async function make(
  datadir: string,
  copy: Copy,
  { database, isStopped, copyProgress }: Around,
): Promise<'made' | 'stopped' | StateRootError> {
  const sorting = join(datadir, SORTING)
  rmSync(sorting, { recursive: true, force: true })
  mkdirSync(sorting, { recursive: true })
  const sorter = await openDatabase(sorting, columnOptions(SORTER_CACHE_BYTES), {
    createIfMissing: true,
  })
  try {
    for (const steps = makeState(database, sorter, copy.progress()!); ; ) {
      const step = steps.next()
      if (step.done === true) {
        copy.made(step.value)
        return 'made'
      }
      copyProgress.made(step.value.done)
      // The event loop runs between steps so that signals arrive.
      await new Promise(setImmediate)
      if (isStopped()) return 'stopped'
    }
  } catch (error) {
    if (!(error instanceof StateRootError)) throw error
    copy.forgetState()
    return error
  } finally {
    await sorter.close(CLOSE_MS)
    rmSync(sorting, { recursive: true, force: true })
  }
}

/** Persists newer blocks until the node is only a few blocks ahead. */
async function catchUp(
  { dbCache }: BootstrapConfig,
  fetching: Fetching,
  { database, copyProgress, isStopped }: Around,
): Promise<boolean> {
  const { copy } = fetching
  const catching = openCatchUp(database, (dbCache * 2 ** 20) / 4)
  for (;;) {
    await fetchTip(fetching)
    const from = openStore(database).persistedHead().number
    for (const { number } of catching.persist(copy.progress()!)) {
      copyProgress.persisted(number, copy.progress()!.tip.number)
      await new Promise(setImmediate)
      if (isStopped()) return false
    }
    if (isStopped()) return false
    if (openStore(database).persistedHead().number - from <= CAUGHT_UP_BLOCKS) break
  }
  catching.finish()
  return true
}

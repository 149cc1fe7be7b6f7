/** `flashnode bootstrap`: fetches rows and blocks of a running node, makes its state of them, and folds what came meanwhile. */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { About } from '../../../engine/storage/bootstrap/about.ts'
import { openCatchUp } from '../../../engine/storage/bootstrap/catch-up.ts'
import { type Copy, openCopy } from '../../../engine/storage/bootstrap/copy.ts'
import { BootstrapError } from '../../../engine/storage/bootstrap/fault.ts'
import { makeState, StateRootError } from '../../../engine/storage/bootstrap/made-state.ts'
import { newProgress } from '../../../engine/storage/bootstrap/progress.ts'
import { columnOptions } from '../../../engine/storage/database/columns.ts'
import { openDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openState } from '../../../engine/storage/directory/schema.ts'
import { lazyDirectory } from '../../../engine/storage/lazy/begin.ts'
import type { WorkingConfig } from '../../config/options.ts'
import { readToken } from '../../config/token-file.ts'
import { StartError } from '../../process/context.ts'
import type { JobContext } from '../shared/job.ts'
import { say } from '../shared/said.ts'
import { type AskedNode, openAskedNode, StoppedError } from './asking.ts'
import { checkAbout, claimDirectory, copyName, releaseDirectory } from './directory.ts'
import { askAbout, type Fetching, fetchAll, fetchTip } from './fetching.ts'
import { type Shown, startShown } from './shown.ts'

const CLOSE_MS = 3_000
const SORTING = 'sorting'
const SORTER_CACHE_BYTES = 64 * 2 ** 20
/** Of the senders of transactions that are recovered again: 50 µs each. `verify` looks at all. */
const SENDER_SHARE = 1 / 16
/** Blocks that the node is ahead: the rest is for `follow`. */
const NEAR_BLOCKS = 8
/** Times that a state is fetched. */
const MOST_ATTEMPTS = 2
const STOPPED = 'stopped: what is here stays, the same command goes on where it was\n'

export type BootstrapConfig = Pick<WorkingConfig, 'dbCache'> & {
  readonly from: string
  readonly datadir: string
  readonly tokenFile: string
  readonly chain: string | undefined
  readonly retryMs: number
}

/** Their messages say what is wrong and what to do. */
export const FAILS = [BootstrapError]

/** Returns the exit status: 0 when the directory is ready. @throws {BootstrapError} {DirectoryError} {ChainError} {StartError} with one line */
export async function runBootstrap(config: BootstrapConfig, context: JobContext): Promise<number> {
  const { datadir } = config
  const { isStopped, log } = context
  const by = copyName(datadir)
  const node = openAskedNode({
    ...{ url: new URL(config.from), token: tokenOf(config.tokenFile), by, isStopped },
    retryMs: config.retryMs,
    tell: (text) => log.info(text),
  })
  try {
    const about = await askAbout(node)
    checkAbout(about, node.name, config.chain)
    const chain = await claimDirectory(datadir, { node, about, by })
    const database = await openState(datadir, { cacheBytes: config.dbCache * 2 ** 20 })
    const shown = startShown(context)
    try {
      const said = await copyAll(config, { database, chain, node, about, isStopped, shown })
      shown.stop()
      await say(said ?? STOPPED)
      if (said !== undefined) releaseDirectory(datadir)
      return said === undefined ? 1 : 0
    } finally {
      shown.stop()
      await database.close(CLOSE_MS)
    }
  } catch (error) {
    if (!(error instanceof StoppedError)) throw error
    await say(STOPPED)
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
  readonly node: AskedNode
  readonly about: About
  readonly isStopped: () => boolean
  readonly shown: Shown
}

/** What is said at the end; undefined: it was stopped. */
async function copyAll(config: BootstrapConfig, around: Around): Promise<string | undefined> {
  const { database, chain, node, about, isStopped, shown } = around
  const copy = openCopy(database, chain, {
    hasWithdrawals: ({ number, timestamp }) => !chain.rulesAt(number, timestamp).isOptimism,
    random: Math.random,
    senderShare: SENDER_SHARE,
  })
  // A kill came right before the marker was written.
  if (copy.progress() === undefined && lazyDirectory(database).status === 'whole')
    return toldOf(node, database)
  if (copy.progress() === undefined) {
    const { start, first, oldestState, keepsDiffs } = about
    copy.begin(newProgress({ start, first, oldest: oldestState, keepsDiffs }))
  }
  const fetching: Fetching = { node, copy, isStopped, tell: shown.fetched }
  // A reorg of the source that came and went between two questions leaves rows of a block that nobody told.
  for (let attempt = 1; !copy.progress()!.isMade; attempt++) {
    if (!(await fetchAll(fetching))) return undefined
    const made = await make(config.datadir, copy, around)
    if (made === 'stopped') return undefined
    if (made instanceof StateRootError && attempt === MOST_ATTEMPTS) throw refused(node, made)
  }
  if (!(await catchUp(config, fetching, around))) return undefined
  return toldOf(node, database)
}

function toldOf(node: AskedNode, database: Database): string {
  const { number, hash } = openStore(database).foldHead()
  const { bytes, answers } = node.came()
  return `copied from ${node.name} in ${answers} answers, ${bytes} bytes: head ${number} ${bytesToHex(hash)}\n`
}

const refused = ({ name }: AskedNode, { message }: StateRootError) =>
  new BootstrapError(
    `what ${name} sent is not the state of its block, twice: ${message}; look at that node (\`flashnode verify\`), or copy another one`,
  )

/** A state that is not what its header says is forgotten. */
async function make(
  datadir: string,
  copy: Copy,
  { database, isStopped, shown }: Around,
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
      shown.made(step.value.done)
      // A signal is heard in between.
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

/** Until the node is a few blocks ahead at most. */
async function catchUp(
  { dbCache }: BootstrapConfig,
  fetching: Fetching,
  { database, shown, isStopped }: Around,
): Promise<boolean> {
  const { copy } = fetching
  const catching = openCatchUp(database, (dbCache * 2 ** 20) / 4)
  for (;;) {
    await fetchTip(fetching)
    const from = openStore(database).foldHead().number
    for (const { number } of catching.fold(copy.progress()!)) {
      shown.folded(number, copy.progress()!.tip.number)
      await new Promise(setImmediate)
      if (isStopped()) return false
    }
    if (isStopped()) return false
    if (openStore(database).foldHead().number - from <= NEAR_BLOCKS) break
  }
  catching.finish()
  return true
}

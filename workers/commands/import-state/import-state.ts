/**
 * `flashnode import-state`: loads an account dump as the state of one block into a new data
 * directory.
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ChainError } from '../../../engine/chainspec/error.ts'
import { NETWORKS } from '../../../engine/chainspec/networks.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import {
  decodeDumpAccount,
  decodeDumpRoot,
  decodeHeaderFile,
} from '../../../engine/chainspec/state-dump.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Header } from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { LineError, textLines } from '../../../engine/primitives/line-stream.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import {
  isStateImportCut,
  openStateImport,
  StateImportError,
} from '../../../engine/storage/blocks/state-import.ts'
import { columnOptions } from '../../../engine/storage/database/columns.ts'
import { openDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openDirectory, removeState } from '../../../engine/storage/directory/schema.ts'
import type { WorkingConfig } from '../../config/options.ts'
import { GENESIS_FILE } from '../../data/datadir.ts'
import { StartError } from '../../process/context.ts'
import { openInputFile } from '../shared/input-file.ts'
import type { JobContext } from '../shared/job.ts'
import { type Progress, startProgress } from '../shared/progress.ts'

/** Maximum for one account with all its storage; V8's longest string is twice as long. */
const MAX_LINE_BYTES = 256 * 2 ** 20
const CLOSE_MS = 3_000
const ACCOUNTS_PER_REPORT = 1_024

type StateConfig = Pick<WorkingConfig, 'dbCache'> & {
  /** A network's name, or the path of a genesis.json. */
  readonly chain: string
  /** These three are paths. */
  readonly state: string
  readonly block: string
  readonly datadir: string
}

/** Messages of this error name the cause and the remedy. */
export const FAILS = [StateImportError]

/**
 * Returns the exit status. An interrupted run leaves nothing usable; the next run removes its rest.
 * @throws {StateImportError} {ChainError} {DirectoryError} {StartError} with a text of one line
 */
export async function runStateImport(config: StateConfig, context: JobContext): Promise<number> {
  const { chain: name, datadir } = config
  const chain = chainSpec({ name })
  const header = readHeader(config.block)
  // A value that is no network's name is a path.
  const isFile = !NETWORKS.has(name)
  const directory = {
    path: datadir,
    chain,
    chainName: isFile ? GENESIS_FILE : name,
    cacheBytes: config.dbCache * 2 ** 20,
  }
  let database = await openDirectory(directory)
  if (isStateImportCut(database)) {
    context.log.info({ path: datadir }, 'deletes the data of an interrupted load')
    await database.close(CLOSE_MS)
    removeState(datadir)
    database = await openDirectory(directory)
  }
  const sorting = join(datadir, SORTING)
  rmSync(sorting, { recursive: true, force: true })
  mkdirSync(sorting, { recursive: true })
  const sorter = await openDatabase(sorting, columnOptions(SORTER_CACHE_BYTES), {
    createIfMissing: true,
  })
  try {
    if (isFile) copyFileSync(name, join(datadir, GENESIS_FILE))
    const said = await load(config, { ...context, chain, header, database, sorter })
    process.stdout.write(`${said}\n`)
    return 0
  } finally {
    await sorter.close(CLOSE_MS)
    rmSync(sorting, { recursive: true, force: true })
    await database.close(CLOSE_MS)
  }
}

const SORTING = 'sorting'
const SORTER_CACHE_BYTES = 64 * 2 ** 20

function readHeader(path: string): Header {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new StartError(`${path} cannot be read: ${(error as Error).message}`)
  }
  return decodeHeaderFile(text, path)
}

async function load(
  { state, block }: StateConfig,
  context: JobContext & {
    readonly chain: ChainSpec
    readonly header: Header
    readonly database: Database
    readonly sorter: Database
  },
): Promise<string> {
  const { chain, header, isStopped } = context
  if (header.number < chain.genesisNumber)
    throw new ChainError(
      `${block}: number is ${header.number}, expected ${chain.genesisNumber} (the first block of ${chain.name}) or more`,
    )
  const target = openStateImport(context.database, context.sorter)
  const file = openInputFile(state)
  const now = () => performance.now()
  // Reading takes two thirds of the time, the trie one third.
  const progress = startProgress(file.bytes * 1.5, { ...context, now })
  let accounts = 0
  let slots = 0
  const progressText = () => `${accounts} accounts, ${slots} slots`
  try {
    let line = 0
    for await (const text of textLines(file.chunks, MAX_LINE_BYTES)) {
      line++
      const where = `${state}, line ${line}`
      if (line === 1) checkRoot(decodeDumpRoot(text, where), header, where)
      else if (text !== '') {
        const dumped = decodeDumpAccount(text, where)
        add(dumped, where)
        accounts++
        slots += dumped.account.storage?.length ?? 0
        if (accounts % ACCOUNTS_PER_REPORT === 0) progress.update(file.read(), progressText())
      }
      if (isStopped()) return 'stopped: nothing was loaded; run the same command again'
    }
    if (line === 0)
      throw new StateImportError(`${state} is empty, expected {"root": "0x…"} in its first line`)
    const hash = await finish(progress)
    if (hash === undefined) return 'stopped: nothing was loaded; run the same command again'
    return `loaded ${progressText()}: head ${header.number} ${bytesToHex(hash)}`
  } catch (error) {
    if (error instanceof LineError) throw new StateImportError(`${state}: ${error.message}`)
    throw error
  } finally {
    progress.stop()
  }

  function add(dumped: ReturnType<typeof decodeDumpAccount>, where: string): void {
    try {
      target.add(dumped)
    } catch (error) {
      if (!(error instanceof StateImportError)) throw error
      throw new StateImportError(`${where}: ${error.message}`)
    }
  }

  async function finish(bar: Progress) {
    for (const steps = target.finish(header); ; ) {
      const step = steps.next()
      if (step.done === true) return step.value
      const share = step.value.accounts / Math.max(1, accounts)
      bar.update(file.bytes * (1 + share / 2), `${progressText()}, trie`)
      // The event loop runs between steps so that signals arrive.
      await new Promise(setImmediate)
      if (isStopped()) return undefined
    }
  }
}

function checkRoot(root: Bytes, { stateRoot, number }: Header, where: string): void {
  if (!equalBytes(root, stateRoot))
    throw new StateImportError(
      `${where}: root is ${bytesToHex(root)}, expected ${bytesToHex(stateRoot)} from the header of block ${number}`,
    )
}

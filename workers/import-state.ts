/** `flashnode import-state`: loads an account dump as the state of one block into a new data directory. */
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ChainError } from '../engine/chainspec/error.ts'
import { NETWORKS } from '../engine/chainspec/networks.ts'
import { chainSpec } from '../engine/chainspec/registry.ts'
import {
  decodeDumpAccount,
  decodeDumpRoot,
  decodeHeaderFile,
} from '../engine/chainspec/state-dump.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Bytes } from '../engine/primitives/bytes.ts'
import type { Header } from '../engine/primitives/header.ts'
import { bytesToHex } from '../engine/primitives/hex.ts'
import { LineError, textLines } from '../engine/primitives/line-stream.ts'
import { equalBytes } from '../engine/primitives/words.ts'
import { columnOptions } from '../engine/storage/columns.ts'
import { type Database, openDatabase } from '../engine/storage/database.ts'
import { openDirectory, removeState } from '../engine/storage/schema.ts'
import {
  isStateImportCut,
  openStateImport,
  StateImportError,
} from '../engine/storage/state-import.ts'
import type { Config } from './config.ts'
import { StartError } from './context.ts'
import { GENESIS_FILE } from './datadir.ts'
import { openInputFile } from './input-file.ts'
import type { Log } from './log.ts'
import { type Progress, startProgress } from './progress.ts'

/** One account with all its storage; V8's longest string is twice that. */
const MAX_LINE_BYTES = 256 * 2 ** 20
const CLOSE_MS = 3_000
/** Accounts between two looks at the clock. */
const TOLD_ACCOUNTS = 1_024

type Context = {
  readonly log: Log
  readonly isTerminal: boolean
  readonly isStopped: () => boolean
}
type Files = Config & { readonly state: string; readonly block: string; readonly datadir: string }

/**
 * All or nothing: what a run that was cut off left is thrown away by the next one.
 * @throws {StateImportError} {ChainError} {DirectoryError} {StartError} with one line
 */
export async function runStateImport(config: Config, context: Context): Promise<void> {
  const files = checked(config)
  const name = config.chain ?? 'xlayer'
  const chain = chainSpec({ name })
  const header = readHeader(files.block)
  // Whatever is no network's name is a file.
  const isFile = !NETWORKS.has(name)
  const directory = {
    path: files.datadir,
    chain,
    chainName: isFile ? GENESIS_FILE : name,
    cacheBytes: config.dbCache * 2 ** 20,
  }
  let database = await openDirectory(directory)
  if (isStateImportCut(database)) {
    context.log.info({ path: files.datadir }, 'throws away what a load that was cut off left')
    await database.close(CLOSE_MS)
    removeState(files.datadir)
    database = await openDirectory(directory)
  }
  const sorting = join(files.datadir, SORTING)
  rmSync(sorting, { recursive: true, force: true })
  mkdirSync(sorting, { recursive: true })
  const sorter = await openDatabase(sorting, columnOptions(SORTER_CACHE_BYTES), {
    createIfMissing: true,
  })
  try {
    if (isFile) copyFileSync(name, join(files.datadir, GENESIS_FILE))
    const said = await load(files, { ...context, chain, header, database, sorter })
    process.stdout.write(`${said}\n`)
  } finally {
    await sorter.close(CLOSE_MS)
    rmSync(sorting, { recursive: true, force: true })
    await database.close(CLOSE_MS)
  }
}

const SORTING = 'sorting'
const SORTER_CACHE_BYTES = 64 * 2 ** 20

function checked(config: Config): Files {
  const { state, block, datadir } = config
  if (state === undefined || block === undefined || datadir === undefined)
    throw new StartError('import-state needs --state FILE, --block FILE and a data directory')
  return { ...config, state, block, datadir }
}

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
  { state, block }: Files,
  context: Context & {
    readonly chain: ChainSpec
    readonly header: Header
    readonly database: Database
    readonly sorter: Database
  },
): Promise<string> {
  const { chain, header, isStopped } = context
  if (header.number < chain.genesisNumber)
    throw new ChainError(
      `${block}: number is ${header.number}, expected ${chain.genesisNumber}, the first block of ${chain.name}, or more`,
    )
  const target = openStateImport(context.database, context.sorter)
  const file = openInputFile(state)
  const now = () => performance.now()
  // Reading is two thirds of it.
  const progress = startProgress(file.bytes * 1.5, { ...context, now })
  let accounts = 0
  let slots = 0
  const told = () => `${accounts} accounts, ${slots} slots`
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
        if (accounts % TOLD_ACCOUNTS === 0) progress.update(file.read(), told())
      }
      if (isStopped()) return 'stopped: nothing was loaded, the same command begins again'
    }
    if (line === 0)
      throw new StateImportError(`${state} is empty, expected {"root": "0x…"} in its first line`)
    const hash = await finish(progress)
    if (hash === undefined) return 'stopped: nothing was loaded, the same command begins again'
    return `loaded ${told()}: head ${header.number} ${bytesToHex(hash)}`
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
      bar.update(file.bytes * (1 + share / 2), `${told()}, trie`)
      // A signal is heard between two steps.
      await new Promise(setImmediate)
      if (isStopped()) return undefined
    }
  }
}

function checkRoot(root: Bytes, { stateRoot, number }: Header, where: string): void {
  if (!equalBytes(root, stateRoot))
    throw new StateImportError(
      `${where}: root is ${bytesToHex(root)}, the header of block ${number} says ${bytesToHex(stateRoot)}`,
    )
}

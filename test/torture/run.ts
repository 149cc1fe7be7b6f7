/**
 * One run: creates arena, database and threads, reads as a front, kills readers, and returns the
 * counts and the fault.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel, Worker } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import { importGenesis } from '../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { createViews } from '../../engine/views/arena.ts'
import type { PersistenceData } from '../../workers/persistence/persistence.ts'
import type { FromPersistence } from '../../workers/thread/messages.ts'
import { allRows, createClaims, divide, FRONT_ROW, SOURCE_ROW } from '../../workers/thread/rows.ts'
import { openSmall } from '../fixtures/databases-open.ts'
import { mulberry32 } from '../kit/run-options.ts'
import { tortureChain } from './content.ts'
import { type Counts, createCounters, openCounters, sumCounters } from './counters.ts'
import { Front } from './front.ts'
import type { FromFront, FrontData, ToFront } from './front-thread.ts'
import { createLedger } from './ledger.ts'
import { READERS, READERS_OF, type TortureOptions } from './options.ts'
import { Readers } from './readers.ts'
import type { FromTortureWriter, ToTortureWriter, WriterData } from './writer.ts'

export type TortureResult = {
  readonly fault: string | undefined
  readonly counts: Counts
  readonly seconds: number
  /** Fault text when not every page came back after all threads released their snapshots. */
  readonly lost: string | undefined
}

const FIRST_READER = 2
const SECOND_FRONT = FIRST_READER + READERS
const LINES = SECOND_FRONT + 1
/** The row of the source is free here, and it comes before those of the readers. */
const SECOND_FRONT_ROW = SOURCE_ROW
const isOfSecond = (reader: number) => READERS_OF[1]!.includes(reader)
const CHECK_MS = 5

/** `isEnough` reads the counts so far and ends the run. */
export async function torture(
  options: TortureOptions,
  isEnough: (counts: Counts, seconds: number) => boolean,
): Promise<TortureResult> {
  const directory = mkdtempSync(join(tmpdir(), 'flashnode-torture-'))
  const database = await openSmall(join(directory, 'state'))
  importGenesis(database, tortureChain())
  const { seed, bytes, pageBytes, cacheEntries } = options
  const claims = createClaims(READERS)
  const views = createViews({
    bytes,
    pageBytes,
    seed,
    threads: allRows(divide(READERS, 1)),
    cacheEntries,
  })
  const ledger = createLedger(options)
  const counters = createCounters(LINES)
  const control = new Int32Array(new SharedArrayBuffer(8))
  let fault: string | undefined
  const onFault = (message: string) => {
    fault ??= message
  }

  const { port1, port2 } = new MessageChannel()
  const persistence = new Worker(
    new URL('../../workers/persistence/persistence.ts', import.meta.url),
    {
      workerData: {
        database: database.share(),
        views,
        writer: port2,
        sequencer: undefined,
        foldDepth: options.foldDepth,
        undoWindow: options.undoWindow,
        historyBlocks: options.historyBlocks,
      } satisfies PersistenceData,
      transferList: [port2],
    },
  )
  persistence.on('message', (message: FromPersistence) => {
    if (message.type === 'failed') onFault(`the persistence thread: ${message.message}`)
  })
  persistence.on('error', (error) => onFault(`the persistence thread: ${error.stack}`))
  const writer = new Worker(new URL('./writer.ts', import.meta.url), {
    workerData: {
      views,
      ledger,
      counters,
      control,
      seed,
      persistence: port1,
      habits: options.driver,
      foldDepth: options.foldDepth,
      graceSeconds: options.graceSeconds,
      stepsPerSecond: options.stepsPerSecond,
    } satisfies WriterData,
    transferList: [port1],
  })
  const said = new Set<string>()
  let lost: string | undefined = 'not looked at'
  writer.on('message', (message: FromTortureWriter) => {
    said.add(message.type)
    if (message.type === 'fault') onFault(message.message)
    if (message.type === 'drained') lost = message.lost
  })
  writer.on('error', (error) => onFault(`the writer: ${error.stack}`))
  const hasSaid = async (what: FromTortureWriter['type']) => {
    while (!said.has(what) && fault === undefined) await sleep(CHECK_MS)
  }
  await hasSaid('ready')

  const count = openCounters(counters, FRONT_ROW)
  const shared = { views, ledger, control }
  const habitsOf = (front: number) => ({
    // The second front reads little beyond its loans, to leave the processor to the writer.
    sessions:
      front === 0 ? options.front : { ...options.front, leases: Math.min(1, options.front.leases) },
    loans: options.loans,
    pinnedLoans: options.pinnedLoans,
    readers: READERS_OF[front]!,
  })
  const second = startFront(
    {
      ...shared,
      counters,
      database: database.share(),
      habits: habitsOf(1),
      line: SECOND_FRONT,
      row: SECOND_FRONT_ROW,
      seed: seed + 2,
    },
    onFault,
  )
  const readers = new Readers({
    ...shared,
    options,
    database,
    counters,
    claims,
    onFault,
    count,
    firstLine: FIRST_READER,
    frontOf: (index) => (isOfSecond(index) ? SECOND_FRONT_ROW : FRONT_ROW),
    onStarted(index, offer) {
      if (isOfSecond(index)) second.worker.postMessage({ index, offer } satisfies ToFront)
    },
  })
  const front = new Front({
    chain: openChainReader({
      views,
      store: openStore(database),
      chain: tortureChain(),
      thread: FRONT_ROW,
    }),
    ...shared,
    habits: habitsOf(0),
    lend: readers.lend,
    count,
    onFault,
    random: mulberry32(seed + 1),
  })
  const startedMs = performance.now()
  const seconds = () => (performance.now() - startedMs) / 1000
  while (fault === undefined && !isEnough(sumCounters(counters), seconds())) {
    await front.turn()
    await readers.check()
  }
  const ranSeconds = seconds()
  const counts = sumCounters(counters)
  if (fault === undefined) {
    writer.postMessage('stop' satisfies ToTortureWriter)
    await hasSaid('stopped')
    front.releaseAll()
    await readers.stop()
    await second.stopped
    writer.postMessage('drain' satisfies ToTortureWriter)
    await hasSaid('drained')
  }
  await readers.end()
  for (const worker of [writer, persistence, second.worker]) {
    const { threadId } = worker
    const ended = once(worker, 'exit')
    void worker.terminate()
    await ended
    database.threadEnded(threadId)
  }
  await database.close()
  rmSync(directory, { recursive: true, force: true })
  return { fault, counts, seconds: ranSeconds, lost }
}

/** `stopped` resolves when the front holds no snapshot any more, or at a fault. */
function startFront(data: FrontData, onFault: (message: string) => void) {
  const worker = new Worker(new URL('./front-thread.ts', import.meta.url), { workerData: data })
  const stopped = Promise.withResolvers<void>()
  worker.on('message', (message: FromFront) => {
    if (message.type === 'fault') onFault(message.message)
    stopped.resolve()
  })
  worker.on('error', (error) => {
    onFault(`the second front: ${error.stack}`)
    stopped.resolve()
  })
  return { worker, stopped: stopped.promise }
}

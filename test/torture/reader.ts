/**
 * A reading thread claims a row, then reads without end. Its pace lets persist passes come between
 * its reads.
 */
import { type MessagePort, parentPort, threadId, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import { type Arena, openArena, PERSISTED_ID } from '../../engine/views/arena.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import { type Claims, claimRow } from '../../workers/thread/rows.ts'
import { mulberry32 } from '../kit/run-options.ts'
import { tortureChain } from './content.ts'
import { openCounters, type SharedCounters } from './counters.ts'
import type { SharedLedger } from './ledger.ts'
import { type Offer, takeOver } from './offers.ts'
import type { Reader } from './reading.ts'
import { type SessionHabits, Sessions } from './sessions.ts'
import { openTruth } from './truth.ts'
import { watchStore } from './watched-store.ts'

export type ReaderData = {
  readonly views: SharedViews
  readonly database: SharedDatabase
  readonly ledger: SharedLedger
  readonly counters: SharedCounters
  /** Line of the counters; the front has line 0. */
  readonly line: number
  readonly claims: Claims
  /** Row of the front that offers snapshots to it. */
  readonly front: number
  readonly offer: Offer
  /** [newest snapshot whose readers must release; 1: stop]. */
  readonly control: Int32Array<SharedArrayBuffer>
  readonly habits: SessionHabits
  readonly seed: number
}
export type FromReader =
  | { readonly type: 'reading' }
  | { readonly type: 'stopped' }
  | { readonly type: 'fault'; readonly message: string }

const WORK_MS = 4
const PAUSE_MS = 2
/** Time for which a database read may wait for a persist pass. */
const PERSIST_WAIT_MS = 30

const sleep = (milliseconds: number) =>
  void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)

// The reader starts after the module is evaluated. V8 aborts the process when a thread is
// terminated during the evaluation of a module that awaits an import.
if (parentPort !== null)
  setImmediate((main: MessagePort) => run(main, workerData as ReaderData), parentPort)

function run(main: MessagePort, data: ReaderData): void {
  const notify = (message: FromReader) => main.postMessage(message)
  try {
    const sessions = open(data)
    const { control } = data
    notify({ type: 'reading' })
    for (let pauseAt = performance.now() + WORK_MS; Atomics.load(control, 1) === 0; ) {
      takeOver(data.offer, (snapshot) => sessions.adopt(snapshot))
      sessions.turn()
      if (sessions.isBusy && performance.now() < pauseAt) continue
      sleep(sessions.isBusy ? PAUSE_MS : 1)
      pauseAt = performance.now() + WORK_MS
    }
    sessions.releaseAll()
    notify({ type: 'stopped' })
  } catch (error) {
    notify({ type: 'fault', message: `reader ${data.line}: ${(error as Error).stack}` })
  }
}

function open(data: ReaderData): Sessions {
  const { views, ledger } = data
  const arena = openArena(views)
  const random = mulberry32(data.seed)
  const watched = watchStore(openStore(attachDatabase(data.database)), () => stall(arena, random))
  const chain = openChainReader({
    views,
    store: watched.store,
    chain: tortureChain(),
    thread: claimRow(data.claims, threadId),
    front: data.front,
  })
  const reader: Reader = {
    arena,
    truth: openTruth(ledger),
    random,
    count: openCounters(data.counters, data.line),
    flatReads: watched.flatReads,
  }
  return new Sessions({ reader, chain, habits: data.habits, cancel: data.control })
}

/** Now and then delays a database read, so that a persist pass starts or ends during it. */
function stall({ words }: Arena, random: () => number): void {
  const dice = random()
  if (dice < 0.004) {
    const persistedId = Atomics.load(words, PERSISTED_ID)
    for (
      let ms = 0;
      ms < PERSIST_WAIT_MS && Atomics.load(words, PERSISTED_ID) === persistedId;
      ms++
    )
      sleep(1)
  } else if (dice < 0.01) sleep(random() * 2)
}

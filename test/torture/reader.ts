/** A reading thread: claims a row, then reads without end, as slowly or quickly as folds need to come between. */
import { type MessagePort, parentPort, threadId, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import { type Arena, FOLD, openArena } from '../../engine/views/arena.ts'
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
  /** Line of the counters, from 0 for the front. */
  readonly line: number
  readonly claims: Claims
  /** Row of the front that offers it records. */
  readonly front: number
  readonly offer: Offer
  /** [readers of this record and older ones let go; 1: stop]. */
  readonly control: Int32Array<SharedArrayBuffer>
  readonly habits: SessionHabits
  readonly seed: number
}
export type FromReader =
  | { readonly type: 'reading' }
  | { readonly type: 'stopped' }
  | { readonly type: 'fault'; readonly message: string }

const WORK_MS = 4
const REST_MS = 2
/** How long a database read may be held up until a fold comes by. */
const FOLD_WAIT_MS = 30

const sleep = (milliseconds: number) =>
  void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)

// Not while this module is being evaluated: V8 aborts the process when a thread is terminated in there, where an import awaits.
if (parentPort !== null)
  setImmediate((main: MessagePort) => run(main, workerData as ReaderData), parentPort)

function run(main: MessagePort, data: ReaderData): void {
  const tell = (message: FromReader) => main.postMessage(message)
  try {
    const sessions = open(data)
    const { control } = data
    tell({ type: 'reading' })
    for (let restAt = performance.now() + WORK_MS; Atomics.load(control, 1) === 0; ) {
      takeOver(data.offer, (record) => sessions.adopt(record))
      sessions.turn()
      if (sessions.isBusy && performance.now() < restAt) continue
      sleep(sessions.isBusy ? REST_MS : 1)
      restAt = performance.now() + WORK_MS
    }
    sessions.releaseAll()
    tell({ type: 'stopped' })
  } catch (error) {
    tell({ type: 'fault', message: `reader ${data.line}: ${(error as Error).stack}` })
  }
}

function open(data: ReaderData): Sessions {
  const { views, ledger } = data
  const arena = openArena(views)
  const random = mulberry32(data.seed)
  const watched = watchStore(openStore(attachDatabase(data.database)), () => holdUp(arena, random))
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

/** Now and then a database read takes so long that a fold begins, or ends, beside it. */
function holdUp({ words }: Arena, random: () => number): void {
  const dice = random()
  if (dice < 0.004) {
    const fold = Atomics.load(words, FOLD)
    for (let ms = 0; ms < FOLD_WAIT_MS && Atomics.load(words, FOLD) === fold; ms++) sleep(1)
  } else if (dice < 0.01) sleep(random() * 2)
}

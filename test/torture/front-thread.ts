/**
 * A second front in a thread of its own. It reads and lends as the front of the main thread does,
 * with its own row and readers.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import { mulberry32 } from '../kit/run-options.ts'
import { tortureChain } from './content.ts'
import { openCounters, type SharedCounters } from './counters.ts'
import { Front, type FrontHabits } from './front.ts'
import type { SharedLedger } from './ledger.ts'
import { lendTo, type Offer } from './offers.ts'

export type FrontData = {
  readonly views: SharedViews
  readonly database: SharedDatabase
  readonly ledger: SharedLedger
  readonly counters: SharedCounters
  readonly line: number
  readonly row: number
  readonly control: Int32Array<SharedArrayBuffer>
  readonly habits: FrontHabits
  readonly seed: number
}
/** A reader of this front has started. */
export type ToFront = { readonly index: number; readonly offer: Offer }
export type FromFront =
  | { readonly type: 'stopped' }
  | { readonly type: 'fault'; readonly message: string }

// The front starts after the module is evaluated, as the readers do.
if (parentPort !== null)
  setImmediate((main: MessagePort) => void run(main, workerData as FrontData), parentPort)

async function run(main: MessagePort, data: FrontData): Promise<void> {
  const { views, ledger, control, seed, habits } = data
  const notify = (message: FromFront) => main.postMessage(message)
  const offers = new Map<number, Offer>()
  main.on('message', ({ index, offer }: ToFront) => offers.set(index, offer))
  const store = openStore(attachDatabase(data.database))
  const front = new Front({
    chain: openChainReader({
      views,
      store,
      chain: tortureChain(),
      thread: data.row,
      front: data.row,
    }),
    habits,
    views,
    ledger,
    control,
    lend(snapshot, index) {
      const offer = offers.get(index)
      return offer && lendTo(offer, snapshot)
    },
    random: mulberry32(seed),
    count: openCounters(data.counters, data.line),
    onFault: (message) => notify({ type: 'fault', message: `the second front: ${message}` }),
  })
  while (Atomics.load(control, 1) === 0) await front.turn()
  front.releaseAll()
  notify({ type: 'stopped' })
}

/**
 * The only writer of the database while the node runs: append, roots, fold, unfold, prune; without threads or clocks of its own.
 *
 * The thread around it calls, in this order:
 * 1. `createKeeper` once: finishes what a crash interrupted; tell the writer `keeper.opened`. The writer opens its publisher on
 *    `opened.foldHead`, makes a table for each unfolded block and sends an 'adopt' for each.
 * 2. `send(keeper.handle(request))` for each message. Appends, marks and names are done at once, roots, fetched state and beginnings are queued.
 * 3. while `keeper.hasWork()`: `send(keeper.step())` from a `setImmediate`, so that an append never waits longer than one slice.
 * 4. `send(await keeper.sync())` each second: what is committed survives a kill anyway, a power loss only after it.
 * A 'failed' answer is the last one: nothing is written any more, the process ends. A young generation of 12 MB keeps the pauses of
 * the thread's garbage collection within a slice.
 */

import type { Database } from '../database/types.ts'
import { type CheckedBeginning, checkBeginning, putStart } from '../lazy/begin.ts'
import { LazyStartError } from '../lazy/start.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Beginning, KeeperAnswer, KeeperRequest, OpenedChain } from '../types.ts'
import { isFinished } from './slices.ts'
import { type KeeperOptions, KeeperState, MAX_QUEUED, SLICE_MS } from './state.ts'
import type { KeeperStats } from './stats.ts'

export interface Keeper {
  readonly opened: OpenedChain
  /** @throws {Error} on a request that breaks the protocol. */
  handle(request: KeeperRequest): readonly KeeperAnswer[]
  /** One slice of the most urgent work that waits: unfold, roots, a shorter log, fold, prune. */
  step(): readonly KeeperAnswer[]
  hasWork(): boolean
  /** Also looks for errors of RocksDB's own threads. Everything else may go on meanwhile. */
  sync(): Promise<readonly KeeperAnswer[]>
  /** The same at once, for the end. */
  flush(): readonly KeeperAnswer[]
  stats(): KeeperStats
  readonly ledger: Pick<Ledger, 'stats' | 'taken'>
  /** Of the database. */
  logBytes(): Promise<number>
}

export function createKeeper(options: KeeperOptions): Keeper {
  let state = new KeeperState(options)
  let beginning: Begin | undefined
  const { database, words, now, sliceMs = SLICE_MS } = options

  /** Of the old state nothing is left: what it had in hand goes with it. */
  function begin({ id, genesisNumber, start }: BeginRequest): readonly KeeperAnswer[] {
    const checked = checkedBeginning(database, genesisNumber, start)
    if (typeof checked === 'string') return [{ type: 'notBegun', id, reason: checked }]
    const givenUp = state.giveUp()
    // From here on every older view is void.
    const unfolds = words.raiseUnfolds()
    const { number, hash } = checked.head
    const begun = { type: 'begun', id, head: { number, hash }, unfolds } as const
    beginning = { begun, pieces: putStart(database, checked), waiting: [] }
    return givenUp
  }

  function stepBegin({ begun, pieces, waiting }: Begin): readonly KeeperAnswer[] {
    if (!isFinished(pieces, { sliceMs, now })) return []
    beginning = undefined
    state = new KeeperState(options)
    state.nameBase(begun.id)
    words.setFold(begun.id)
    return [begun, ...waiting.flatMap(handle)]
  }

  function handle(request: KeeperRequest): readonly KeeperAnswer[] {
    if (beginning === undefined)
      return request.type === 'begin' ? begin(request) : state.handle(request)
    if (request.type === 'begin') throw new Error('keeper: begin, while a lazy state begins anew')
    if (beginning.waiting.length < MAX_QUEUED) {
      beginning.waiting.push(request)
      return []
    }
    const answers: KeeperAnswer[] = []
    while (beginning !== undefined) answers.push(...stepBegin(beginning))
    return [...answers, ...handle(request)]
  }

  return {
    opened: state.opened,
    handle: (request) => state.guard(() => handle(request)),
    step: () =>
      state.isFailed
        ? []
        : state.guard(() => (beginning === undefined ? state.step() : stepBegin(beginning))),
    hasWork: () => !state.isFailed && (beginning !== undefined || state.hasWork()),
    sync: async () => (state.isFailed ? [] : state.sync()),
    flush: () => (state.isFailed ? [] : state.guard(() => state.flush())),
    stats: () => state.stats(),
    get ledger() {
      return state.ledger
    },
    logBytes: () => database.logBytes(),
  }
}

/** A lazy state that begins anew; `waiting`: what it was asked meanwhile, for when it has begun. */
type Begin = {
  readonly begun: Extract<KeeperAnswer, { readonly type: 'begun' }>
  readonly pieces: Iterator<undefined, void>
  readonly waiting: KeeperRequest[]
}
type BeginRequest = Extract<KeeperRequest, { readonly type: 'begin' }>

/** Or why it is none. @throws {DatabaseError} */
function checkedBeginning(
  database: Database,
  genesisNumber: number,
  start: Beginning,
): CheckedBeginning | string {
  try {
    return checkBeginning(database, genesisNumber, start)
  } catch (error) {
    if (error instanceof LazyStartError) return error.message
    throw error
  }
}

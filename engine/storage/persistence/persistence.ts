/**
 * The only writer of the database while the node runs: append, roots, persist, unwind, prune. It
 * has no thread or clock of its own.
 *
 * The thread around it makes these calls, in this order:
 * 1. `createPersistence` once finishes what a crash interrupted. The thread sends
 *    `persistence.opened` to the writer. The writer opens its publisher on `opened.persistedHead`.
 *    It makes a diff layer and sends an 'adopt' for each unpersisted block.
 * 2. `send(persistence.handle(request))` for each message. Appends, labelled heads and ids are
 *    handled at once. Roots and fetched state are queued, and a resync runs in steps.
 * 3. `send(persistence.step())` from a `setImmediate` while `persistence.hasWork()`, so that an
 *    append waits for one slice at most.
 * 4. `send(await persistence.sync())` each second. A commit survives a kill anyway, and a power
 *    loss after the sync.
 *
 * A 'failed' response is the last one: nothing is written any more, and the process ends. A young
 * generation of 12 MB limits the thread's garbage collection pauses to a slice.
 */

import type { Database } from '../database/types.ts'
import { type CheckedResync, checkResync, putStart } from '../lazy/directory.ts'
import { LazyStartError } from '../lazy/start.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { OpenedChain, PersistenceRequest, PersistenceResponse, ResyncStart } from '../types.ts'
import { isFinished } from './chores.ts'
import type { PersistenceOptions, PersistenceStats } from './options.ts'
import { MAX_QUEUED, PersistenceState, SLICE_MS } from './persistence-state.ts'

export interface Persistence {
  readonly opened: OpenedChain
  /** @throws {Error} on a request that breaks the protocol */
  handle(request: PersistenceRequest): readonly PersistenceResponse[]
  /**
   * Runs one slice of the most urgent waiting work: unwind, roots, a shorter log, persist, prune.
   */
  step(): readonly PersistenceResponse[]
  hasWork(): boolean
  /**
   * Syncs the log and checks for errors of RocksDB's own threads. Other calls may run meanwhile.
   */
  sync(): Promise<readonly PersistenceResponse[]>
  /** Syncs synchronously, for the shutdown. */
  flush(): readonly PersistenceResponse[]
  stats(): PersistenceStats
  readonly ledger: Pick<Ledger, 'stats' | 'taken'>
  logBytes(): Promise<number>
}

export function createPersistence(options: PersistenceOptions): Persistence {
  let state = new PersistenceState(options)
  let resync: Resync | undefined
  const { database, words, now, sliceMs = SLICE_MS } = options

  /** Starts a resync. The old state is dropped, after responses to its waiting requests. */
  function startResync({
    id,
    genesisNumber,
    start,
  }: ResyncRequest): readonly PersistenceResponse[] {
    const checked = checkedResync(database, genesisNumber, start)
    if (typeof checked === 'string') return [{ type: 'notBegun', id, reason: checked }]
    const givenUp = state.giveUp()
    // Every older view is void now.
    const unwinds = words.raiseUnwinds()
    const { number, hash } = checked.head
    const resynced = { type: 'begun', id, head: { number, hash }, unwinds } as const
    resync = { resynced, pieces: putStart(database, checked), waiting: [] }
    return givenUp
  }

  function stepResync({ resynced, pieces, waiting }: Resync): readonly PersistenceResponse[] {
    if (!isFinished(pieces, { sliceMs, now })) return []
    resync = undefined
    state = new PersistenceState(options)
    state.nameBase(resynced.id)
    words.setPersistedId(resynced.id)
    return [resynced, ...waiting.flatMap(handle)]
  }

  function handle(request: PersistenceRequest): readonly PersistenceResponse[] {
    if (resync === undefined)
      return request.type === 'begin' ? startResync(request) : state.handle(request)
    if (request.type === 'begin')
      throw new Error('persistence: begin, while a lazy state begins anew')
    if (resync.waiting.length < MAX_QUEUED) {
      resync.waiting.push(request)
      return []
    }
    const responses: PersistenceResponse[] = []
    while (resync !== undefined) responses.push(...stepResync(resync))
    return [...responses, ...handle(request)]
  }

  return {
    opened: state.opened,
    handle: (request) => state.guard(() => handle(request)),
    step: () =>
      state.isFailed
        ? []
        : state.guard(() => (resync === undefined ? state.step() : stepResync(resync))),
    hasWork: () => !state.isFailed && (resync !== undefined || state.hasWork()),
    sync: async () => (state.isFailed ? [] : state.sync()),
    flush: () => (state.isFailed ? [] : state.guard(() => state.flush())),
    stats: () => state.stats(),
    get ledger() {
      return state.ledger
    },
    logBytes: () => database.logBytes(),
  }
}

/**
 * Restart of a lazy state. `waiting`: requests that arrived meanwhile, handled after the restart.
 */
type Resync = {
  readonly resynced: Extract<PersistenceResponse, { readonly type: 'begun' }>
  readonly pieces: Iterator<undefined, void>
  readonly waiting: PersistenceRequest[]
}
type ResyncRequest = Extract<PersistenceRequest, { readonly type: 'begin' }>

/**
 * Checks a resync; returns the reason if it is invalid.
 * @throws {DatabaseError}
 */
function checkedResync(
  database: Database,
  genesisNumber: number,
  start: ResyncStart,
): CheckedResync | string {
  try {
    return checkResync(database, genesisNumber, start)
  } catch (error) {
    if (error instanceof LazyStartError) return error.message
    throw error
  }
}

/**
 * The state machine under test, on one thread. Diff layers, snapshots, leases, publisher,
 * persistence thread, database and the writer's handling of blocks and responses are real.
 * Executions are invented. Messages between writer and persistence thread wait until a step moves
 * them.
 */
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainReader, Endpoint, LeasedView } from '../../../engine/chain/types.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import { recoverBlocks, storedBlock } from '../../../engine/sources/writer/recover.ts'
import { onResponse } from '../../../engine/sources/writer/responses.ts'
import type { WriterOptions } from '../../../engine/sources/writer/types.ts'
import { tryUpstreamBlock } from '../../../engine/sources/writer/upstream-block.ts'
import {
  createState,
  publish,
  submitLabels,
  type WriterState,
} from '../../../engine/sources/writer/writer-state.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { META } from '../../../engine/storage/database/meta.ts'
import {
  createPersistence,
  type Persistence,
} from '../../../engine/storage/persistence/persistence.ts'
import type {
  PersistenceRequest,
  PersistenceResponse,
  StoreReader,
} from '../../../engine/storage/types.ts'
import {
  type Arena,
  createViews,
  OLDEST,
  openArena,
  persistenceWords,
} from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import type { Publisher, SharedViews } from '../../../engine/views/types.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { EMPTY_WORLD, stateRootOf } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import type { Counts } from './counts.ts'
import type { Directory } from './directory.ts'
import type { Setup } from './steps.ts'
import { Chain, type Node, type VisibleState, worldOf } from './truth.ts'

export const GENESIS = 1000
export const CHAIN = plainChain(GENESIS)
const PAGE_BYTES = 2048
export const FRONT = 0
export const WRITER = 1
/**
 * Lease rows, each with the row that lends to it: one front with two workers, one with one worker,
 * and the writer.
 */
export const FRONT_OF: readonly number[] = [FRONT, FRONT, FRONT, FRONT, 4, 4]
export const WORKERS = [2, 3, 5] as const
/** Threads that lease the newest snapshot by themselves. */
export const READERS = [FRONT, 2, 3, 4, 5] as const
const THREADS = FRONT_OF.length

/**
 * Blocks that the persistence thread can unwind. It may persist some more between the writer's
 * choice of a branch and the branch itself.
 */
export const undoWindowOf = ({ undoBlocks, backlog }: Setup): number => undoBlocks + backlog + 1

/** A leased view; `visible` has the answers that it must give. */
export type Pinned = {
  readonly leased: LeasedView
  readonly endpoint: Endpoint
  readonly visible: VisibleState
  readonly thread: number
}

export class Machine {
  readonly setup: Setup
  readonly directory: Directory
  readonly counts: Counts
  readonly truth = new Chain()
  /** By snapshot of this run of the process. */
  visible = new Map<number, VisibleState>()
  readonly clock = { ms: 0 }
  pages: number
  views!: SharedViews
  arena!: Arena
  store!: StoreReader
  persistence!: Persistence
  state!: WriterState
  readers: ChainReader[] = []
  requests: PersistenceRequest[] = []
  responses: PersistenceResponse[] = []
  pinned: Pinned[] = []
  /**
   * Unwinds that the persistence thread raised, named in its responses, and reported to the writer.
   */
  unwinds = { raised: 0, responded: 0, reported: 0 }
  /** Called before each database read of a view's reader. */
  onRead: (() => void) | undefined
  /** Readers of this snapshot and of older ones must stop. */
  cancelled = 0
  salt = 1
  /** Highest persisted block in all runs of the process. */
  highestPersisted = GENESIS
  #persistenceMs = 0

  private constructor(setup: Setup, directory: Directory, counts: Counts) {
    this.setup = setup
    this.pages = setup.pages
    this.directory = directory
    this.counts = counts
  }

  static async open(setup: Setup, directory: Directory, counts: Counts): Promise<Machine> {
    await directory.empty()
    const machine = new Machine(setup, directory, counts)
    importGenesis(directory.database, CHAIN)
    const { genesisHeader: header, genesisHash: hash } = CHAIN
    const first: Node = {
      number: GENESIS,
      parent: undefined,
      prefixes: [{ world: EMPTY_WORLD, executed: [], hash }],
      final: undefined,
      isPartialRetained: false,
    }
    machine.truth.finish(first, header, hash)
    machine.start()
    return machine
  }

  /**
   * Starts as a process does: only the database survives.
   * @throws {Died}
   */
  start(): void {
    const { foldDepth, backlog, undoBlocks, historyBlocks, rowsInPiece, cacheEntries } = this.setup
    const { database } = this.directory
    this.views = createViews({
      bytes: this.pages * PAGE_BYTES,
      threads: THREADS,
      seed: 99,
      cacheEntries,
      pageBytes: PAGE_BYTES,
    })
    this.arena = openArena(this.views)
    this.visible = new Map()
    this.truth.restart()
    this.requests = []
    this.responses = []
    this.pinned = []
    this.unwinds = { raised: 0, responded: 0, reported: 0 }
    this.cancelled = 0
    const words = persistenceWords(this.views)
    this.persistence = createPersistence({
      database,
      words: {
        ...words,
        raiseUnwinds: () => {
          this.unwinds.raised++
          return words.raiseUnwinds()
        },
        setOldest: (number) => {
          if (number > Atomics.load(this.arena.words, OLDEST)) this.#countPruned(number)
          words.setOldest(number)
        },
      },
      now: () => this.#persistenceMs++,
      foldDepth,
      undoWindow: undoWindowOf(this.setup),
      historyBlocks,
      rowsInPiece,
      sliceMs: 2,
    })
    this.store = openStore(database)
    const raced = racedStore(this.store, () => this.onRead?.())
    this.readers = Array.from({ length: THREADS }, (_, thread) => this.openReader(thread, raced))
    const { persistedHead } = this.persistence.opened
    const publisher = this.#watch(openPublisher(this.views, persistedHead))
    this.truth.name(publisher.base.id, this.truth.byHash(persistedHead.hash))
    const options: WriterOptions = {
      chain: CHAIN,
      engine: referenceEngine,
      store: this.store,
      reader: this.readers[WRITER]!,
      publisher,
      now: () => this.clock.ms,
      limits: { foldDepth, backlog, undoBlocks, safeLag: 2, finalizedLag: 5 },
    }
    this.state = createState(options, storedBlock(options, publisher.base, persistedHead.hash))
    recoverBlocks(this.state, this.persistence.opened)
    publish(this.state)
    this.take()
  }

  #countPruned(number: number): void {
    this.counts.add('history pruned')
    if (this.pinned.some(({ visible }) => visible.base.number < number))
      this.counts.add('pruned under a lease')
  }

  openReader(thread: number, store = racedStore(this.store, () => this.onRead?.())): ChainReader {
    return openChainReader({
      views: this.views,
      store,
      chain: CHAIN,
      thread,
      front: FRONT_OF[thread]!,
    })
  }

  get publisher(): Publisher {
    return this.state.options.publisher
  }
  nodeOf(block: { readonly handle: { readonly id: number } }): Node {
    return this.truth.byId(block.handle.id)
  }
  /** Heads of the newest snapshot. */
  get newest(): VisibleState {
    return this.visible.get(this.readers[FRONT]!.newestSnapshot())!
  }

  /**
   * The persistence thread handles one request or one slice; `isLate`: the writer's messages are
   * still on their way. Returns false when there is nothing to do.
   * @throws {Died}
   */
  persistenceTurn(isLate = false): boolean {
    const request = isLate ? undefined : this.requests.shift()
    if (request === undefined && !this.persistence.hasWork()) return false
    const isAppend = request?.type === 'append'
    if (isAppend) this.counts.add(this.isPersisting() ? 'append between slices' : 'append')
    const isUnwinding = this.unwinds.raised > this.unwinds.responded
    if (request === undefined) this.counts.add(isUnwinding ? 'unwind slice' : 'slice')
    const responses =
      request === undefined ? this.persistence.step() : this.persistence.handle(request)
    for (const response of responses) {
      if (response.type === 'failed') throw new Error(`persistence: ${response.message}`)
      if (response.type === 'unfolded') this.unwinds.responded = response.unwinds
      if (response.type === 'folded') this.counts.add('persisted')
      this.responses.push(response)
    }
    return true
  }
  isPersisting(): boolean {
    return (
      this.persistence.hasWork() &&
      this.directory.database.get('meta', META.persisting) !== undefined
    )
  }

  /** The writer takes one response. */
  responseTurn(): boolean {
    const response = this.responses.shift()
    if (response === undefined) return false
    const { canonical } = this.state.chain
    onResponse(this.state, response)
    if (this.state.chain.canonical !== canonical) submitLabels(this.state)
    this.take()
    return true
  }

  /** Takes the waiting upstream blocks in order, as far as that is possible now. */
  async decide(): Promise<void> {
    const { state } = this
    while (state.upstreamBlocks.length > 0 && state.fullBlock === undefined) {
      const { block } = state.upstreamBlocks[0]!
      const candidate = state.chain.speculative(block.number)
      // The candidate was dropped, so its upstream blocks are dropped with it.
      if (candidate === undefined || !equalBytes(candidate.header.mixHash, block.prevRandao)) {
        if (state.submitted === undefined || candidate !== undefined)
          state.upstreamBlocks.length = 0
        state.fullSinceMs = undefined
        return
      }
      if (!(await tryUpstreamBlock(state))) break
    }
    this.take()
  }

  /**
   * Runs until no thread has anything to do, or until `isEnough`.
   * @throws {Died}
   */
  async settle(
    isEnough: () => boolean = () => false,
    between: () => void = () => {},
  ): Promise<void> {
    for (let turns = 0; !isEnough(); turns++) {
      if (turns > 100_000) throw new Error('writer and persistence thread never come to rest')
      this.clock.ms += 5
      if (!this.responseTurn() && !this.persistenceTurn()) {
        await this.decide()
        if (this.requests.length > 0) continue
        this.#checkNobodyWaits()
        return
      }
      await this.decide()
      between()
    }
  }

  /** No block may wait for a response that never comes. */
  #checkNobodyWaits(): void {
    const { submitted, fullBlock, chain } = this.state
    const waiting =
      submitted ?? fullBlock ?? (chain.pending.state === 'ended' ? chain.pending : undefined)
    if (waiting !== undefined)
      throw new Error(`block ${waiting.handle.number} is ${waiting.state} for ever`)
  }

  /** Leases the newest snapshot. */
  lease(thread: number, endpoint: Endpoint): Pinned {
    const leased = this.readers[thread]!.lease(endpoint)
    return { leased, endpoint, thread, visible: this.visible.get(leased.snapshot)! }
  }

  /** Takes the effects of the writer. */
  take(): void {
    const { effects } = this.state
    this.state.effects = []
    for (const effect of effects) {
      if (effect.type === 'persistence') this.requests.push(effect.request)
      else if (effect.type === 'halted') throw new Error(`writer: ${effect.message}`)
      else if (effect.type === 'cancel') this.cancelled = effect.snapshot
      else if (effect.type === 'count') this.counts.add(`writer: ${effect.what}`, effect.by)
    }
  }

  /** Wraps the publisher, and records everything that it publishes. */
  #watch(inner: Publisher): Publisher {
    const { truth } = this
    return {
      get base() {
        return inner.base
      },
      visibility: inner.visibility,
      stored: (block) => {
        const handle = inner.stored(block)
        truth.name(handle.id, truth.byHash(block.hash))
        return handle
      },
      start: (parent, payloadId) => inner.start(parent, payloadId),
      add: (block, increment) => this.#cleanly(inner, () => inner.add(block, increment)),
      finish: (block, header, hash) => {
        const verdict = this.#cleanly(inner, () => inner.finish(block, header, hash))
        if (verdict === 'full') return verdict
        const node = truth.find(block.id)
        // A block without a name comes from the store, after a restart.
        if (node === undefined) {
          const stored = truth.byHash(hash)
          truth.name(block.id, stored)
          truth.recovered.add(stored)
        } else {
          if (!equalBytes(header.stateRoot, stateRootOf(worldOf(node))))
            throw new Error(
              `block ${node.number}: the persistence thread's root is not that of its world`,
            )
          truth.finish(node, header, hash)
        }
        return verdict
      },
      settle: (block, header) => this.#cleanly(inner, () => inner.settle(block, header)),
      publish: (heads) => {
        const snapshot = inner.publish(heads)
        const pending = truth.byId(heads.pending.id)
        this.visible.set(snapshot, {
          canonical: truth.byId(heads.canonical.id),
          complete: truth.byId(heads.complete.id),
          pending,
          index: pending.final === undefined ? pending.prefixes.length - 1 : undefined,
          base: truth.byId(inner.base.id),
          safe: heads.safe,
          finalized: heads.finalized,
          unwinds: this.unwinds.reported,
        })
        return snapshot
      },
      drop: (block) => inner.drop(block),
      submitForPersistence: (block) => inner.submitForPersistence(block),
      onResponse: (block) => inner.onResponse(block),
      persisted: (block) => inner.persisted(block),
      unwound: (to) => {
        this.unwinds.reported = to.unwinds
        const handle = inner.unwound(to)
        truth.name(handle.id, truth.byHash(to.hash))
        return handle
      },
      stats: () => inner.stats(),
    }
  }

  /** A refused change must take no pages. */
  #cleanly(inner: Publisher, put: () => 'added' | 'full'): 'added' | 'full' {
    const before = inner.stats()
    const verdict = put()
    if (verdict === 'added') return verdict
    this.counts.add('refused: no pages')
    const after = inner.stats()
    if (after.ownedPages !== before.ownedPages)
      throw new Error(`a refusal took ${after.ownedPages - before.ownedPages} pages`)
    return verdict
  }
}

/** The store of a reader's thread, with a hook before each read in which other threads may act. */
function racedStore(store: StoreReader, onRead: () => void): StoreReader {
  const raced = <Arguments extends unknown[], Result>(read: (...of: Arguments) => Result) => {
    return (...of: Arguments) => {
      onRead()
      return read(...of)
    }
  }
  return {
    ...store,
    flatAccount: raced(store.flatAccount),
    flatSlot: raced(store.flatSlot),
    accountHistory: raced(store.accountHistory),
    slotHistory: raced(store.slotHistory),
    code: raced(store.code),
    flatSlots: raced(store.flatSlots),
    header: raced(store.header),
    hashOfNumber: raced(store.hashOfNumber),
    blocksOf: raced(store.blocksOf),
    transactionLocation: raced(store.transactionLocation),
    transactionLocations: raced(store.transactionLocations),
  }
}

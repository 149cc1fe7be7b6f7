/**
 * The state machine under test on one thread: real tables, records, leases, publisher, keeper and database, and the writer's own
 * handling of blocks and answers. Executions are made up; messages between writer and keeper wait until a step moves them.
 */
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainReader, Endpoint, LeasedView } from '../../../engine/chain/types.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import { onAnswer } from '../../../engine/sources/writer/answers.ts'
import { recoverBlocks, storedBlock } from '../../../engine/sources/writer/recover.ts'
import { trySealed } from '../../../engine/sources/writer/sealed.ts'
import {
  createState,
  publish,
  submitLabels,
  type WriterState,
} from '../../../engine/sources/writer/state.ts'
import type { WriterOptions } from '../../../engine/sources/writer/types.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { META } from '../../../engine/storage/database/meta.ts'
import { createKeeper, type Keeper } from '../../../engine/storage/keeper/keeper.ts'
import type { KeeperAnswer, KeeperRequest, StoreReader } from '../../../engine/storage/types.ts'
import {
  type Arena,
  createViews,
  keeperWords,
  OLDEST,
  openArena,
} from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import type { Publisher, SharedViews } from '../../../engine/views/types.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { EMPTY_WORLD, stateRootOf } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import type { Counts } from './counts.ts'
import type { Directory } from './directory.ts'
import type { Setup } from './steps.ts'
import { Chain, type Node, type Shown, worldOf } from './truth.ts'

export const GENESIS = 1000
export const CHAIN = plainChain(GENESIS)
const PAGE_BYTES = 2048
export const FRONT = 0
export const WRITER = 1
/** Rows of leases by the row of who lends to it: two fronts with two workers and one, and the writer. */
export const FRONT_OF: readonly number[] = [FRONT, FRONT, FRONT, FRONT, 4, 4]
export const WORKERS = [2, 3, 5] as const
/** Those that read without being told of a record. */
export const READERS = [FRONT, 2, 3, 4, 5] as const
const THREADS = FRONT_OF.length

/** Blocks that the keeper can unfold: it may fold some between the writer's look at a branch and the branch. */
export const undoWindowOf = ({ undoBlocks, backlog }: Setup): number => undoBlocks + backlog + 1

/** A leased view: what it must answer is in `shown`. */
export type Held = {
  readonly leased: LeasedView
  readonly endpoint: Endpoint
  readonly shown: Shown
  readonly thread: number
}

export class Machine {
  readonly setup: Setup
  readonly directory: Directory
  readonly counts: Counts
  readonly truth = new Chain()
  /** By record of this run of the process. */
  shown = new Map<number, Shown>()
  readonly clock = { ms: 0 }
  pages: number
  views!: SharedViews
  arena!: Arena
  store!: StoreReader
  keeper!: Keeper
  state!: WriterState
  readers: ChainReader[] = []
  requests: KeeperRequest[] = []
  answers: KeeperAnswer[] = []
  held: Held[] = []
  /** Raised by the keeper, named in its answers, known to the writer. */
  unfolds = { raised: 0, answered: 0, told: 0 }
  /** Called before each read of the database by a reader of views. */
  onRead: (() => void) | undefined
  /** Readers of this record and older ones are to stop. */
  cancelled = 0
  salt = 1
  /** In all runs of the process. */
  highestFolded = GENESIS
  #keeperMs = 0

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
      isMomentaryKept: false,
    }
    machine.truth.finish(first, header, hash)
    machine.start()
    return machine
  }

  /** As a process does: what is not in the database is gone. @throws {Died} */
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
    this.shown = new Map()
    this.truth.restart()
    this.requests = []
    this.answers = []
    this.held = []
    this.unfolds = { raised: 0, answered: 0, told: 0 }
    this.cancelled = 0
    const words = keeperWords(this.views)
    this.keeper = createKeeper({
      database,
      words: {
        ...words,
        raiseUnfolds: () => {
          this.unfolds.raised++
          return words.raiseUnfolds()
        },
        setOldest: (number) => {
          if (number > Atomics.load(this.arena.words, OLDEST)) this.#countPruned(number)
          words.setOldest(number)
        },
      },
      now: () => this.#keeperMs++,
      foldDepth,
      undoWindow: undoWindowOf(this.setup),
      historyBlocks,
      rowsInPiece,
      sliceMs: 2,
    })
    this.store = openStore(database)
    const raced = racedStore(this.store, () => this.onRead?.())
    this.readers = Array.from({ length: THREADS }, (_, thread) => this.openReader(thread, raced))
    const { foldHead } = this.keeper.opened
    const publisher = this.#watch(openPublisher(this.views, foldHead))
    this.truth.name(publisher.base.id, this.truth.byHash(foldHead.hash))
    const options: WriterOptions = {
      chain: CHAIN,
      engine: referenceEngine,
      store: this.store,
      reader: this.readers[WRITER]!,
      publisher,
      now: () => this.clock.ms,
      limits: { foldDepth, backlog, undoBlocks, safeLag: 2, finalizedLag: 5 },
    }
    this.state = createState(options, storedBlock(options, publisher.base, foldHead.hash))
    recoverBlocks(this.state, this.keeper.opened)
    publish(this.state)
    this.take()
  }

  #countPruned(number: number): void {
    this.counts.add('history pruned')
    if (this.held.some(({ shown }) => shown.base.number < number))
      this.counts.add('pruned under a lease')
  }

  openReader(thread: number, store = racedStore(this.store, () => this.onRead?.())): ChainReader {
    return openChainReader({
      ...{ views: this.views, store, chain: CHAIN },
      ...{ thread, front: FRONT_OF[thread]! },
    })
  }

  get publisher(): Publisher {
    return this.state.options.publisher
  }
  nodeOf(block: { readonly handle: { readonly id: number } }): Node {
    return this.truth.byId(block.handle.id)
  }
  /** What the newest record shows. */
  get newest(): Shown {
    return this.shown.get(this.readers[FRONT]!.newestRecord())!
  }

  /** One request or one slice; `isLate`: what the writer has sent is still under way. False: nothing to do. @throws {Died} */
  keeperTurn(isLate = false): boolean {
    const request = isLate ? undefined : this.requests.shift()
    if (request === undefined && !this.keeper.hasWork()) return false
    const isAppend = request?.type === 'append'
    if (isAppend) this.counts.add(this.isFolding() ? 'append between slices' : 'append')
    const isUnfolding = this.unfolds.raised > this.unfolds.answered
    if (request === undefined) this.counts.add(isUnfolding ? 'unfold slice' : 'slice')
    const answers = request === undefined ? this.keeper.step() : this.keeper.handle(request)
    for (const answer of answers) {
      if (answer.type === 'failed') throw new Error(`keeper: ${answer.message}`)
      if (answer.type === 'unfolded') this.unfolds.answered = answer.unfolds
      if (answer.type === 'folded') this.counts.add('folded')
      this.answers.push(answer)
    }
    return true
  }
  isFolding(): boolean {
    return this.keeper.hasWork() && this.directory.database.get('meta', META.folding) !== undefined
  }

  /** The writer takes one answer, and nothing else yet. */
  answerTurn(): boolean {
    const answer = this.answers.shift()
    if (answer === undefined) return false
    const { canonical } = this.state.chain
    onAnswer(this.state, answer)
    if (this.state.chain.canonical !== canonical) submitLabels(this.state)
    this.take()
    return true
  }

  /** Canonical blocks that wait, as far as they come now. */
  async decide(): Promise<void> {
    const { state } = this
    while (state.sealed.length > 0 && state.whole === undefined) {
      const { block } = state.sealed[0]!
      const candidate = state.chain.speculative(block.number)
      // Dropped since: its source says nothing about it any more.
      if (candidate === undefined || !equalBytes(candidate.header.mixHash, block.prevRandao)) {
        if (state.handed === undefined || candidate !== undefined) state.sealed.length = 0
        state.fullSinceMs = undefined
        return
      }
      if (!(await trySealed(state))) break
    }
    this.take()
  }

  /** Until nobody has anything to do; `isEnough` ends it before. @throws {Died} */
  async settle(
    isEnough: () => boolean = () => false,
    between: () => void = () => {},
  ): Promise<void> {
    for (let turns = 0; !isEnough(); turns++) {
      if (turns > 100_000) throw new Error('writer and keeper never come to rest')
      this.clock.ms += 5
      if (!this.answerTurn() && !this.keeperTurn()) {
        await this.decide()
        if (this.requests.length > 0) continue
        this.#checkRest()
        return
      }
      await this.decide()
      between()
    }
  }

  /** Nobody waits for an answer that does not come. */
  #checkRest(): void {
    const { handed, whole, chain } = this.state
    const waiting = handed ?? whole ?? (chain.pending.state === 'ended' ? chain.pending : undefined)
    if (waiting !== undefined)
      throw new Error(`block ${waiting.handle.number} is ${waiting.state} for ever`)
  }

  /** Leases what the newest record shows. */
  lease(thread: number, endpoint: Endpoint): Held {
    const leased = this.readers[thread]!.lease(endpoint)
    return { leased, endpoint, thread, shown: this.shown.get(leased.record)! }
  }

  /** What the writer has asked for. */
  take(): void {
    const { effects } = this.state
    this.state.effects = []
    for (const effect of effects) {
      if (effect.type === 'keeper') this.requests.push(effect.request)
      else if (effect.type === 'halted') throw new Error(`writer: ${effect.message}`)
      else if (effect.type === 'cancel') this.cancelled = effect.record
      else if (effect.type === 'count') this.counts.add(`writer: ${effect.what}`, effect.by)
    }
  }

  /** The publisher, and a note of everything that it is told to show. */
  #watch(inner: Publisher): Publisher {
    const { truth } = this
    return {
      get base() {
        return inner.base
      },
      showing: inner.showing,
      stored: (block) => {
        const handle = inner.stored(block)
        truth.name(handle.id, truth.byHash(block.hash))
        return handle
      },
      begin: (parent, payloadId) => inner.begin(parent, payloadId),
      add: (block, increment) => this.#cleanly(inner, () => inner.add(block, increment)),
      finish: (block, header, hash) => {
        const verdict = this.#cleanly(inner, () => inner.finish(block, header, hash))
        if (verdict === 'full') return verdict
        const node = truth.find(block.id)
        // Without a name it comes from the store, after a restart.
        if (node === undefined) {
          const stored = truth.byHash(hash)
          truth.name(block.id, stored)
          truth.recovered.add(stored)
        } else {
          if (!equalBytes(header.stateRoot, stateRootOf(worldOf(node))))
            throw new Error(`block ${node.number}: the keeper's root is not that of its world`)
          truth.finish(node, header, hash)
        }
        return verdict
      },
      settle: (block, header) => this.#cleanly(inner, () => inner.settle(block, header)),
      publish: (heads) => {
        const record = inner.publish(heads)
        const pending = truth.byId(heads.pending.id)
        this.shown.set(record, {
          canonical: truth.byId(heads.canonical.id),
          complete: truth.byId(heads.complete.id),
          pending,
          index: pending.final === undefined ? pending.prefixes.length - 1 : undefined,
          base: truth.byId(inner.base.id),
          safe: heads.safe,
          finalized: heads.finalized,
          unfolds: this.unfolds.told,
        })
        return record
      },
      drop: (block) => inner.drop(block),
      handOver: (block) => inner.handOver(block),
      answered: (block) => inner.answered(block),
      folded: (block) => inner.folded(block),
      unfolded: (to) => {
        this.unfolds.told = to.unfolds
        const handle = inner.unfolded(to)
        truth.name(handle.id, truth.byHash(to.hash))
        return handle
      },
      stats: () => inner.stats(),
    }
  }

  /** Refused: nothing was taken. */
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

/** The store of a reader's thread, with a place before each read where other threads may do something. */
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
    transactionPlace: raced(store.transactionPlace),
    transactionPlaces: raced(store.transactionPlaces),
  }
}

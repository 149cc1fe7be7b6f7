/**
 * One run of a node's process: the real writer, persistence thread, publisher, diff layers, store
 * and follower, each driven like by its thread. Everything runs on the virtual clock. Messages
 * between the parts take time and stay in order.
 */
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainReader } from '../../../engine/chain/types.ts'
import { readNewest } from '../../../engine/chain/view-reads.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import type { SignedEnvelope } from '../../../engine/primitives/transaction.ts'
import { Mailbox } from '../../../engine/sources/writer/mailbox.ts'
import type {
  WriterEffect,
  WriterEvent,
  WriterLimits,
} from '../../../engine/sources/writer/types.ts'
import { type ChainWriter, openWriter } from '../../../engine/sources/writer/writer.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import {
  createPersistence,
  type Persistence,
} from '../../../engine/storage/persistence/persistence.ts'
import type {
  FillRow,
  LabelledHeads,
  PersistenceRequest,
  PersistenceResponse,
  StoredHead,
  StoreReader,
} from '../../../engine/storage/types.ts'
import {
  createViews,
  openArena,
  persistenceWords,
  SEED,
  UNWINDS,
} from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import type { SharedViews } from '../../../engine/views/types.ts'
import { dyingDatabase } from '../../fixtures/dying-database.ts'
import type { TrueChain } from './chain.ts'
import { Channel } from './channel.ts'
import type { Extent } from './check.ts'
import type { VirtualClock } from './clock.ts'
import type { FeedListener } from './feed.ts'
import {
  createFollower,
  type Follower,
  type FollowerEvent,
  type FollowerOptions,
} from './follower.ts'
import { Died, Fuse, fusedPublisher } from './fuse.ts'
import type { Random } from './random.ts'

export type Setup = {
  readonly foldDepth: number
  readonly undoBlocks: number
  readonly viewBytes: number
  readonly limits: Partial<WriterLimits>
}
export type ProcessOptions = Pick<
  FollowerOptions,
  'upstreams' | 'times' | 'limits' | 'lazy' | 'onCheck' | 'onEnding'
> & {
  readonly chain: TrueChain
  readonly clock: VirtualClock
  readonly random: Random
  readonly database: Database
  readonly setup: Setup
  /** Runs after each event of the writer. */
  readonly onApplied: (event: WriterEvent, effects: readonly WriterEffect[]) => void
  /** Runs after each completed request to the persistence thread. */
  readonly onRetained: (request: PersistenceRequest) => void
  /**
   * Runs when the process died, by its fuse or with its persistence thread's reason; any error that
   * it throws is a fault.
   */
  readonly onDied: (message: string) => void
}

/** The wall clock at the start of a history. */
export const WALL_MS = 1_700_000_000_000
const THREADS = 4
const PAGE_BYTES = 16_384
const WRITER_ROW = 1
const FOLLOWER_ROW = 2
/** The row of checks that only read. */
export const LOOKER_ROW = 3

const engine = engineByName('fast')

const isReceived = (
  effect: WriterEffect,
): effect is WriterEffect & { readonly type: FollowerEvent } =>
  ['published', 'refused', 'need', 'check', 'begun', 'notBegun'].includes(effect.type)

function extentOf({ genesis }: TrueChain, store: StoreReader): Extent {
  const start = store.lazyStart()
  return {
    firstBlock: start?.oldestBlock ?? genesis.number + 1,
    firstState: start?.block.number ?? genesis.number,
    isLazy: start !== undefined,
  }
}

/**
 * The views are reused one after the other, because no earlier process reads them any more. New
 * memory for each would be freed late.
 */
const made = new Map<number, SharedViews>()
function emptyViews(bytes: number): SharedViews {
  const known = made.get(bytes)
  const views = known ?? createViews({ bytes, threads: THREADS, seed: 7, pageBytes: PAGE_BYTES })
  made.set(bytes, views)
  if (known === undefined) return views
  new Uint8Array(views.buffer).fill(0)
  new Uint8Array(views.cache).fill(0)
  Atomics.store(new Int32Array(views.buffer), SEED, 7)
  return views
}

export class NodeProcess implements FeedListener {
  readonly fuse = new Fuse()
  readonly counts = new Map<string, number>()
  readonly views: SharedViews
  readonly reader: ChainReader
  readonly follower: Follower
  readonly writer: ChainWriter
  /** The writer's effects at the start. */
  readonly startEffects: readonly WriterEffect[]
  readonly #options: ProcessOptions
  readonly #store: StoreReader
  readonly #persistence: Persistence
  readonly #mailbox = new Mailbox()
  readonly #requests: PersistenceRequest[] = []
  readonly #toPersistence: Channel
  readonly #toWriter: Channel
  readonly #toFollower: Channel
  readonly #fromFollower: Channel
  readonly #filled = new Map<number, (response: { readonly written: number }) => void>()
  #fills = 0
  #isDead = false
  #isWriting = false
  #isRetaining = false
  #cancelTimer = () => {}

  /**
   * Starts a process.
   * @throws {Died} during the repair of its database
   */
  constructor(options: ProcessOptions, fuseAtStart: number | undefined) {
    this.#options = options
    const { chain, clock, random, setup } = options
    const { now } = clock
    const wallMs = () => WALL_MS + now()
    this.fuse.left = fuseAtStart
    const database = dyingDatabase(options.database, this.fuse.burn)
    this.views = emptyViews(setup.viewBytes)
    const channel = () => new Channel(clock, random, () => this.#isDead)
    this.#toPersistence = channel()
    this.#toWriter = channel()
    this.#toFollower = channel()
    this.#fromFollower = channel()
    let persistenceMs = 0
    this.#persistence = createPersistence({
      database,
      words: persistenceWords(this.views),
      foldDepth: setup.foldDepth,
      // A slice is one piece of work.
      now: () => persistenceMs++,
      wallMs,
      sliceMs: 2,
      rowsInPiece: 8,
      undoWindow: setup.undoBlocks + 2 * setup.foldDepth + 8,
    })
    const store = openStore(database)
    const open = (thread: number) =>
      openChainReader({ views: this.views, store, chain: chain.spec, thread })
    this.reader = open(LOOKER_ROW)
    const { writer, effects } = openWriter(
      {
        chain: chain.spec,
        engine,
        store,
        now,
        wallMs,
        reader: open(WRITER_ROW),
        publisher: fusedPublisher(
          openPublisher(this.views, this.#persistence.opened.persistedHead),
          this.fuse,
        ),
        hasLabelledHeads: true,
        emitsExecuted: true,
        emitsChanges: true,
        isLazy: store.isLazy(),
        seed: random.below(2 ** 31),
        limits: { foldDepth: setup.foldDepth, undoBlocks: setup.undoBlocks, ...setup.limits },
      },
      this.#persistence.opened,
    )
    this.writer = writer
    this.startEffects = effects
    this.#carryOut(effects)
    const { upstreams, times, limits, lazy } = options
    this.#store = store
    this.follower = createFollower({
      upstreams,
      times,
      limits,
      lazy,
      store,
      clock,
      chain: chain.spec,
      onCheck: options.onCheck,
      onEnding: options.onEnding,
      reader: open(FOLLOWER_ROW),
      undoBlocks: setup.undoBlocks,
      fill: (block, rows) => this.#fill(block, rows),
      toWriter: (event) => this.#fromFollower.send(() => this.#deliver(event)),
    })
  }

  /** Ends the process; everything in its memory is lost. */
  kill(): void {
    this.#isDead = true
    this.#cancelTimer()
    this.follower.stop()
  }
  get isDead(): boolean {
    return this.#isDead
  }

  get extent(): Extent {
    return extentOf(this.#options.chain, this.#store)
  }

  /** Reads safe and finalized like a start after a crash. */
  get stored(): LabelledHeads {
    return this.#store.labelledHeads()
  }

  /**
   * Counts the unwinds; a visible view is void while the persistence thread unwinds persisted
   * blocks.
   */
  get unwinds(): number {
    return Atomics.load(openArena(this.views).words, UNWINDS)
  }

  packet(packet: Parameters<FeedListener['packet']>[0]): void {
    this.#deliver({ type: 'packet', packet })
  }
  feed(feed: number, isConnected: boolean): void {
    this.#deliver({ type: 'feed', feed, isConnected })
  }
  refused(feed: number): void {
    this.#count('feed_refused', 1)
    this.feed(feed, true)
  }
  /** Tells the writer that the txpool has accepted a transaction. */
  expect(transaction: SignedEnvelope): void {
    this.writer.expect(transaction)
    this.#turn()
  }

  #deliver(event: WriterEvent): void {
    if (this.#isDead) return
    this.#mailbox.push(event)
    this.#turn()
  }

  /** Makes the writer take the next event soon. */
  #turn(): void {
    if (this.#isWriting || this.#isDead) return
    this.#isWriting = true
    this.#cancelTimer()
    const { clock, random } = this.#options
    const ms = random.chance(0.02) ? random.below(400) : random.below(3)
    clock.after(ms, () => this.#guarded(() => this.#write()))
  }

  async #write(): Promise<void> {
    const { writer } = this
    const event =
      this.#mailbox.next((hash) => writer.knows(hash)) ??
      (writer.canSpeculate() ? ({ type: 'ahead' } as const) : undefined)
    this.#isWriting = false
    if (event === undefined) return this.#setTimer()
    this.#isWriting = true
    const effects = await writer.apply(event)
    this.#carryOut(effects)
    this.#options.onApplied(event, effects)
    this.#isWriting = false
    this.#turn()
  }

  #setTimer(): void {
    const dueMs = this.writer.wakeAtMs()
    if (dueMs === undefined) return
    const { clock } = this.#options
    this.#cancelTimer = clock.after(dueMs - clock.now(), () => this.#deliver({ type: 'tick' }))
  }

  #carryOut(effects: readonly WriterEffect[]): void {
    for (const effect of effects)
      if (effect.type === 'count') this.#count(effect.what, effect.by)
      else if (effect.type === 'persistence')
        this.#toPersistence.send(() => this.#request(effect.request))
      else if (isReceived(effect)) this.#toFollower.send(() => this.follower.onEffect(effect))
  }

  /** Sends a fill and resolves with the persistence thread's response. */
  #fill(block: StoredHead, rows: readonly FillRow[]): Promise<{ readonly written: number }> {
    const request = ++this.#fills
    this.#toPersistence.send(() => this.#request({ type: 'fill', request, block, rows }))
    return new Promise((resolve) => {
      this.#filled.set(request, resolve)
    })
  }

  #request(request: PersistenceRequest): void {
    this.#requests.push(request)
    this.#retain()
  }

  #retain(): void {
    if (this.#isRetaining || this.#isDead) return
    this.#isRetaining = true
    const { clock, random } = this.#options
    const ms = random.chance(0.03) ? random.below(700) : random.below(6)
    clock.after(ms, () => this.#guarded(() => this.#persistenceTurn()))
  }

  #persistenceTurn(): void {
    this.#isRetaining = false
    const request = this.#requests.shift()
    if (request === undefined && !this.#persistence.hasWork()) return
    const responses: readonly PersistenceResponse[] =
      request === undefined ? this.#persistence.step() : this.#persistence.handle(request)
    if (request !== undefined) this.#options.onRetained(request)
    for (const response of responses)
      if (response.type === 'failed') this.#end(response.message)
      else if (response.type === 'filled')
        this.#fromFollower.send(() => this.#filled.get(response.request)?.(response))
      else this.#toWriter.send(() => this.#deliver({ type: 'answer', response }))
    this.#retain()
  }

  /** Ends the process because the persistence thread cannot write any more; a restart follows. */
  #end(message: string): void {
    this.kill()
    this.#options.onDied(message)
  }

  async #guarded(run: () => void | Promise<void>): Promise<void> {
    if (this.#isDead) return
    try {
      await run()
    } catch (error) {
      if (!(error instanceof Died)) throw error
      this.#end('')
    }
  }

  #count(what: string, by: number): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by)
  }

  /** Gives number and hash of the visible canonical block. */
  canonical() {
    return readNewest(this.reader, 'standard', ({ canonical }) => canonical)
  }
}

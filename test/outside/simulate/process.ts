/**
 * One run of a node's process: the real writer, keeper, publisher, tables, store, and follower of upstreams, each as its thread drives it, on
 * the virtual clock. Messages between them take their time and keep their order.
 */
import { readNewest } from '../../../engine/chain/newest.ts'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainReader } from '../../../engine/chain/types.ts'
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
import { createKeeper, type Keeper } from '../../../engine/storage/keeper/keeper.ts'
import type {
  FillRow,
  KeeperAnswer,
  KeeperRequest,
  Marks,
  StoredHead,
  StoreReader,
} from '../../../engine/storage/types.ts'
import { createViews, keeperWords, openArena, SEED, UNFOLDS } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import type { SharedViews } from '../../../engine/views/types.ts'
import { dyingDatabase } from '../../fixtures/dying-database.ts'
import type { TrueChain } from './chain.ts'
import type { Extent } from './check.ts'
import type { VirtualClock } from './clock.ts'
import type { FeedListener } from './feed.ts'
import { createFollower, type Follower, type FollowerOptions, type Heard } from './follower.ts'
import { Died, Fuse, fusedPublisher } from './fuse.ts'
import { Lane } from './lane.ts'
import type { Random } from './random.ts'

export type Setup = {
  readonly foldDepth: number
  readonly undoBlocks: number
  readonly viewBytes: number
  readonly limits: Partial<WriterLimits>
}
export type ProcessOptions = Pick<
  FollowerOptions,
  'upstreams' | 'times' | 'limits' | 'lazy' | 'onLook' | 'onEnding'
> & {
  readonly chain: TrueChain
  readonly clock: VirtualClock
  readonly random: Random
  readonly database: Database
  readonly setup: Setup
  /** After each event of the writer. */
  readonly onApplied: (event: WriterEvent, effects: readonly WriterEffect[]) => void
  /** After each request to the keeper that was done. */
  readonly onKept: (request: KeeperRequest) => void
  /** It died where its fuse ended, or its keeper says why it has; anything that it throws is a fault. */
  readonly onDied: (message: string) => void
}

/** When a history begins. */
export const WALL_MS = 1_700_000_000_000
const THREADS = 4
const PAGE_BYTES = 16_384
const WRITER_ROW = 1
const FOLLOWER_ROW = 2
/** Of those who only look. */
export const LOOKER_ROW = 3

const engine = engineByName('fast')

const isHeard = (effect: WriterEffect): effect is WriterEffect & { readonly type: Heard } =>
  ['published', 'refused', 'need', 'check', 'begun', 'notBegun'].includes(effect.type)

function extentOf({ genesis }: TrueChain, store: StoreReader): Extent {
  const start = store.lazyStart()
  return {
    firstBlock: start?.oldestBlock ?? genesis.number + 1,
    firstState: start?.block.number ?? genesis.number,
    isLazy: start !== undefined,
  }
}

/** One after the other: nobody of an earlier process looks at them any more, and the memory of each new one would only be freed late. */
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
  /** What its writer has said at the start. */
  readonly begun: readonly WriterEffect[]
  readonly #options: ProcessOptions
  readonly #store: StoreReader
  readonly #keeper: Keeper
  readonly #mailbox = new Mailbox()
  readonly #requests: KeeperRequest[] = []
  readonly #toKeeper: Lane
  readonly #toWriter: Lane
  readonly #toFollower: Lane
  readonly #fromFollower: Lane
  readonly #filled = new Map<number, (answer: { readonly kept: number }) => void>()
  #fills = 0
  #isDead = false
  #isWriting = false
  #isKeeping = false
  #cancelTimer = () => {}

  /** @throws {Died} while it repairs its database */
  constructor(options: ProcessOptions, fuseAtStart: number | undefined) {
    this.#options = options
    const { chain, clock, random, setup } = options
    const { now } = clock
    const wallMs = () => WALL_MS + now()
    this.fuse.left = fuseAtStart
    const database = dyingDatabase(options.database, this.fuse.burn)
    this.views = emptyViews(setup.viewBytes)
    const lane = () => new Lane(clock, random, () => this.#isDead)
    this.#toKeeper = lane()
    this.#toWriter = lane()
    this.#toFollower = lane()
    this.#fromFollower = lane()
    let keeperMs = 0
    this.#keeper = createKeeper({
      ...{ database, words: keeperWords(this.views), foldDepth: setup.foldDepth },
      // A slice is one piece of work.
      ...{ now: () => keeperMs++, wallMs, sliceMs: 2, rowsInPiece: 8 },
      undoWindow: setup.undoBlocks + 2 * setup.foldDepth + 8,
    })
    const store = openStore(database)
    const open = (thread: number) =>
      openChainReader({ views: this.views, store, chain: chain.spec, thread })
    this.reader = open(LOOKER_ROW)
    const { writer, effects } = openWriter(
      {
        ...{ chain: chain.spec, engine, store, now, wallMs },
        reader: open(WRITER_ROW),
        publisher: fusedPublisher(
          openPublisher(this.views, this.#keeper.opened.foldHead),
          this.fuse,
        ),
        hasMarks: true,
        tellsExecuted: true,
        tellsChanges: true,
        isLazy: store.isLazy(),
        seed: random.below(2 ** 31),
        limits: { foldDepth: setup.foldDepth, undoBlocks: setup.undoBlocks, ...setup.limits },
      },
      this.#keeper.opened,
    )
    this.writer = writer
    this.begun = effects
    this.#carryOut(effects)
    const { upstreams, times, limits, lazy } = options
    this.#store = store
    this.follower = createFollower({
      ...{ upstreams, times, limits, lazy, store, clock, chain: chain.spec },
      onLook: options.onLook,
      onEnding: options.onEnding,
      reader: open(FOLLOWER_ROW),
      undoBlocks: setup.undoBlocks,
      fill: (block, rows) => this.#fill(block, rows),
      toWriter: (event) => this.#fromFollower.send(() => this.#deliver(event)),
    })
  }

  /** What was in its memory is gone. */
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

  /** Safe and finalized, as a start after a crash would find them. */
  get stored(): Marks {
    return this.#store.marks()
  }

  /** What is shown now is void while the keeper takes folded blocks out again. */
  get unfolds(): number {
    return Atomics.load(openArena(this.views).words, UNFOLDS)
  }

  packet(packet: Parameters<FeedListener['packet']>[0]): void {
    this.#deliver({ type: 'packet', packet })
  }
  feed(feed: number, isConnected: boolean): void {
    this.#deliver({ type: 'feed', feed, isConnected })
  }
  refused(): void {
    this.#count('feed_refused', 1)
  }
  /** Its txpool has taken it. */
  expect(transaction: SignedEnvelope): void {
    this.writer.expect(transaction)
    this.#turn()
  }

  #deliver(event: WriterEvent): void {
    if (this.#isDead) return
    this.#mailbox.push(event)
    this.#turn()
  }

  /** The writer takes what is next, soon. */
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
      (writer.canRunAhead() ? ({ type: 'ahead' } as const) : undefined)
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
      else if (effect.type === 'keeper') this.#toKeeper.send(() => this.#ask(effect.request))
      else if (isHeard(effect)) this.#toFollower.send(() => this.follower.hear(effect))
  }

  /** The keeper's answer. */
  #fill(block: StoredHead, rows: readonly FillRow[]): Promise<{ readonly kept: number }> {
    const request = ++this.#fills
    this.#toKeeper.send(() => this.#ask({ type: 'fill', request, block, rows }))
    return new Promise((resolve) => {
      this.#filled.set(request, resolve)
    })
  }

  #ask(request: KeeperRequest): void {
    this.#requests.push(request)
    this.#keep()
  }

  #keep(): void {
    if (this.#isKeeping || this.#isDead) return
    this.#isKeeping = true
    const { clock, random } = this.#options
    const ms = random.chance(0.03) ? random.below(700) : random.below(6)
    clock.after(ms, () => this.#guarded(() => this.#keeperTurn()))
  }

  #keeperTurn(): void {
    this.#isKeeping = false
    const request = this.#requests.shift()
    if (request === undefined && !this.#keeper.hasWork()) return
    const answers: readonly KeeperAnswer[] =
      request === undefined ? this.#keeper.step() : this.#keeper.handle(request)
    if (request !== undefined) this.#options.onKept(request)
    for (const answer of answers)
      if (answer.type === 'failed') this.#end(answer.message)
      else if (answer.type === 'filled')
        this.#fromFollower.send(() => this.#filled.get(answer.request)?.(answer))
      else this.#toWriter.send(() => this.#deliver({ type: 'answer', answer }))
    this.#keep()
  }

  /** The keeper writes nothing any more: the process ends, and is started again. */
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

  /** Number and hash of what it shows as canonical. */
  canonical() {
    return readNewest(this.reader, 'standard', ({ canonical }) => canonical)
  }
}

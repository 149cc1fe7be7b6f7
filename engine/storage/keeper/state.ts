/** What the keeper knows between two requests, and the work that waits; keeper.ts says who calls it and when. */
import type { EncodedDiff } from '../../state/diff.ts'
import { rowsOf } from '../../state/encoded-diff.ts'
import { appendBlock, putMarks, writeDurableHead, writeMarks } from '../blocks/append.ts'
import { foldBlock } from '../blocks/fold.ts'
import { type PruneLimits, prune } from '../blocks/prune.ts'
import { nearestFolded, recover } from '../blocks/recover.ts'
import { openStore } from '../blocks/store.ts'
import { UnfoldError, unfoldBlock } from '../blocks/unfold.ts'
import { openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { LEDGER_LIMITS, type LedgerLimits } from '../ledger-types.ts'
import { TrieError } from '../trie/node.ts'
import type { StateTrie, TrieVersion } from '../trie/trie.ts'
import type {
  AppendBlock,
  BlockId,
  KeeperAnswer,
  KeeperRequest,
  KeeperWords,
  OpenedChain,
  StoredHead,
  StoreReader,
} from '../types.ts'
import { isOn, type KnownBlock, KnownBlocks } from './blocks.ts'
import { type Chores, createChores } from './chores.ts'
import { backgroundFailure, storageFailure } from './failure.ts'
import { type FillRequest, KeeperFills } from './fills.ts'
import { openPromises, promise } from './promises.ts'
import { KeeperRoots, type RootRequest } from './roots.ts'
import { isFinished } from './slices.ts'
import type { KeeperStats } from './stats.ts'

export type KeeperOptions = {
  /** Attached for writing. A genesis is in it. */
  readonly database: Database
  readonly words: KeeperWords
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** A block is folded when this many blocks stand on it. */
  readonly foldDepth?: number
  /** Folded blocks that a deep reorg may take out again. */
  readonly undoWindow?: number
  /** Blocks below the fold head whose state stays readable, at least the undo window; undefined: all. */
  readonly historyBlocks?: number | undefined
  /** Length of a slice in milliseconds. A collection of garbage in it, or others on its core, make 9 to 14 of it for one in a hundred. */
  readonly sliceMs?: number
  /** Flat values in one commit of a fold. */
  readonly rowsInPiece?: number
  /** Of the log: a column that has written nothing to a file for so long is made to. */
  readonly logSpanBytes?: number
  /** Bytes of trie nodes kept in memory: few unless said, because they are reserved at once. */
  readonly trieCacheBytes?: number
  /** Of a lazy directory: bytes of what was fetched and not written here; what nobody reads goes. undefined: all stays. */
  readonly lazyCacheBytes?: number | undefined
  /** Of what flashblocks promised. */
  readonly ledger?: LedgerLimits
  /** Milliseconds since 1970: when promises are decided; undefined: `now` does for them too. */
  readonly wallMs?: () => number
}

/** Requests that wait. */
export const MAX_QUEUED = 10_000
export const SLICE_MS = 2
const STAMPED_IN_STEP = 1_024

type Fold = { readonly block: KnownBlock; readonly pieces: Iterator<undefined, void> }

/** The block of `append` is durable, and stands on `to`; undefined: nothing does. */
type Unfold = { readonly to: StoredHead; readonly append: AppendRequest | undefined }

type AppendRequest = KeeperRequest & { readonly type: 'append' }
type MarksRequest = KeeperRequest & { readonly type: 'marks' }

export class KeeperState {
  readonly opened: OpenedChain
  readonly #limits: PruneLimits & {
    readonly foldDepth: number
    readonly sliceMs: number
    readonly rowsInPiece: number | undefined
  }
  readonly #now: () => number
  readonly #database: Database
  readonly #words: KeeperWords
  readonly #store: StoreReader
  readonly #trie: StateTrie
  readonly #blocks: KnownBlocks
  readonly #roots: KeeperRoots
  readonly #fills: KeeperFills
  readonly ledger: Ledger
  readonly #queue: (RootRequest | FillRequest)[] = []
  /** Commits that were asked for while an unfold was going on, in order. */
  readonly #waiting: (AppendRequest | MarksRequest)[] = []
  #durable: KnownBlock
  #fold: Fold | undefined
  #unfold: Unfold | undefined
  #prune: Iterator<undefined, void> | undefined
  readonly #chores: Chores
  #isTurnOfChores = false
  #failure: string | undefined
  #isDirty = false
  #isSyncing = false

  constructor(options: KeeperOptions) {
    const { foldDepth = 4, undoWindow = 256, historyBlocks, rowsInPiece } = options
    const { sliceMs = SLICE_MS } = options
    this.#limits = { foldDepth, undoWindow, sliceMs, historyBlocks, rowsInPiece }
    this.#now = options.now
    const log = openLogLength(options.database, options.logSpanBytes)
    this.#database = log.database
    this.#words = options.words
    this.#store = openStore(this.#database)
    const { trie, opened, versions } = recover(this.#database, options.trieCacheBytes)
    this.#trie = trie
    this.opened = opened
    this.#words.setOldest(this.#store.oldestState())
    const base = { id: 0, parent: undefined, version: trie.base(), appended: opened.foldHead }
    this.#blocks = new KnownBlocks(base)
    this.#roots = new KeeperRoots({ ...options, trie, blocks: this.#blocks })
    const [database, blocks, durable] = [this.#database, this.#blocks, () => this.#durable]
    this.#fills = new KeeperFills({ ...options, database, blocks, durable })
    this.#durable = base
    opened.unfolded.forEach(({ number, hash }, at) => {
      const block = { id: 0, parent: this.#durable, version: versions[at], appended: undefined }
      this.#blocks.markAppended(block, { number, hash })
      this.#durable = block
    })
    const { wallMs = options.now, ledger: limits = LEDGER_LIMITS } = options
    this.ledger = openPromises({ database, wallMs, limits }, opened)
    this.#chores = createChores([
      { isDue: () => log.isDue(), begin: () => log.shorten() },
      { isDue: () => this.#fills.isDue(), begin: () => this.#fills.shrink() },
      { isDue: () => this.ledger.isDue(), begin: () => this.ledger.prune() },
    ])
  }

  /** A failed commit is an answer, and the last thing that is tried: writes fail until the database is opened again. */
  guard(work: () => readonly KeeperAnswer[]): readonly KeeperAnswer[] {
    if (this.#failure === undefined)
      try {
        return work()
      } catch (error) {
        const failure = storageFailure(error)
        // Anything else than storage's own faults is a bug.
        if (failure === undefined) throw error
        this.#failure = failure
      }
    return [{ type: 'failed', message: this.#failure }]
  }

  get isFailed(): boolean {
    return this.#failure !== undefined
  }

  handle(request: Exclude<KeeperRequest, { readonly type: 'begin' }>): readonly KeeperAnswer[] {
    switch (request.type) {
      case 'append':
      case 'marks':
        if (this.#unfold === undefined) return this.#commit(request)
        this.#waiting.push(request)
        break
      case 'rewind':
        return this.#rewind(request.to)
      case 'adopt':
        this.#blocks.adopt(request)
        break
      case 'promise':
        promise(this.ledger, this.#store, request.promised)
        break
      case 'payload':
        this.ledger.payload(request)
        break
      case 'doubt':
        this.ledger.doubt(request)
        break
      default:
        this.#queue.push(request)
    }
    // At the bound the oldest are answered first: none is refused, because a diff that is missing makes every later root wrong.
    const answers: KeeperAnswer[] = []
    while (this.#queue.length + this.#waiting.length > MAX_QUEUED) answers.push(...this.step())
    return answers
  }

  /** Nobody asks it any more: what waits is answered. */
  giveUp(): readonly KeeperAnswer[] {
    if (this.#unfold !== undefined || this.#waiting.length > 0)
      throw new Error('keeper: a lazy state begins anew while blocks are appended')
    return this.#queue.splice(0).flatMap((request) => {
      if (request.type !== 'fill') return []
      return [{ type: 'filled', request: request.request, kept: 0, dropped: request.rows.length }]
    })
  }

  /** By the writer's id. */
  nameBase(id: BlockId): void {
    this.#blocks.name(this.#blocks.base, id)
  }

  hasWork(): boolean {
    if (this.#failure !== undefined) return false
    if (this.#unfold !== undefined || this.#queue.length > 0) return true
    if (this.#chores.hasWork()) return true
    return this.#fold !== undefined || this.#nextFold() !== undefined || this.#prune !== undefined
  }

  step(): readonly KeeperAnswer[] {
    if (this.#unfold !== undefined) return this.#stepUnfold(this.#unfold)
    const request = this.#queue.shift()
    if (request !== undefined) return this.#answer(request)
    // In turn with folds, of which there is always one under load.
    this.#isTurnOfChores = !this.#isTurnOfChores
    if (this.#isTurnOfChores && this.#chores.run((pieces) => this.#isFinished(pieces))) return []
    this.#fold ??= this.#startFold()
    if (this.#fold !== undefined) return this.#stepFold(this.#fold)
    if (this.#prune !== undefined && this.#isFinished(this.#prune)) this.#prune = undefined
    return []
  }

  #answer(request: RootRequest | FillRequest): readonly KeeperAnswer[] {
    if (request.type !== 'fill') return this.#roots.answer(request, this.#durable)
    this.#isDirty = true
    return [this.#fills.answer(request)]
  }

  async sync(): Promise<readonly KeeperAnswer[]> {
    try {
      this.#checkBackground()
      if (!this.#isDirty) return []
      // What is committed while the disk works is for the next time.
      this.#isDirty = false
      this.#isSyncing = true
      await this.#database.sync()
      return []
    } catch (error) {
      return this.guard(() => {
        throw error
      })
    } finally {
      this.#isSyncing = false
    }
  }

  flush(): readonly KeeperAnswer[] {
    this.#checkBackground()
    if (this.#isDirty || this.#isSyncing) this.#database.flush()
    this.#isDirty = false
    return []
  }

  #checkBackground(): void {
    if (this.#database.stats().backgroundErrors > 0) throw backgroundFailure(this.#database)
  }

  stats(): KeeperStats {
    const durableNumber = this.#durable.appended!.number
    const foldedNumber = this.#blocks.base.appended!.number
    const queuedRequests = this.#queue.length + this.#waiting.length
    const lag = { durableNumber, foldedNumber, foldLag: durableNumber - foldedNumber }
    return { ...this.#database.stats(), ...lag, queuedRequests }
  }

  #commit(request: AppendRequest | MarksRequest): readonly KeeperAnswer[] {
    if (request.type === 'append') return this.#append(request)
    const { type: _, ...marks } = request
    writeMarks(this.#database, marks)
    this.#isDirty = true
    return [{ type: 'labelled', marks }]
  }

  #append(append: AppendRequest): readonly KeeperAnswer[] {
    const { block } = append
    const parent = this.#blocks.byHash(block.parentHash)
    const isOnFold = parent !== undefined && isOn(parent, this.#fold?.block ?? this.#blocks.base)
    const to = isOnFold ? undefined : this.#forkPoint(block)
    this.#makeDurable(append)
    this.#isDirty = true
    if (to === undefined) return this.#appended(append, parent!)
    return this.#beginUnfold({ to, append })
  }

  /** @throws {UnfoldError} below the undo window */
  #rewind(to: StoredHead): readonly KeeperAnswer[] {
    if (this.#unfold !== undefined) throw new Error('keeper: it goes back already')
    const block = this.#blocks.byHash(to.hash)
    const isOnFold = block !== undefined && isOn(block, this.#fold?.block ?? this.#blocks.base)
    if (!isOnFold && !this.#store.isUnfoldable(to.number)) throw new UnfoldError(to)
    writeDurableHead(this.#database, to, (batch) => this.ledger.rewind(batch, to.number))
    this.#isDirty = true
    if (!isOnFold) return this.#beginUnfold({ to, append: undefined })
    this.#durable = block
    return [{ type: 'rewound', hash: to.hash }]
  }

  /** What stands on `to` is durable; from here on every older view is void. */
  #beginUnfold(unfold: Unfold): readonly KeeperAnswer[] {
    this.#unfold = unfold
    this.#words.raiseUnfolds()
    this.#fold = undefined
    this.#prune = undefined
    return []
  }

  #makeDurable({ block, marks }: AppendRequest): void {
    const isReorg = block.number <= this.#durable.appended!.number
    appendBlock(this.#database, block, (batch) => {
      this.ledger.decide(batch, block, isReorg)
      if (marks !== undefined) putMarks(batch, marks)
    })
  }

  #appended({ block, marks }: AppendRequest, parent: KnownBlock): readonly KeeperAnswer[] {
    this.#durable = this.#blocks.append(block, parent)
    return [{ type: 'appended', id: block.id, number: block.number, ...(marks && { marks }) }]
  }

  /** The folded block that a branch leaves from: its parent. */
  #forkPoint({ number, parentHash }: AppendBlock): StoredHead {
    const to = nearestFolded(this.#database, parentHash)
    if (to === undefined || to.number !== number - 1)
      throw new Error(`keeper: block ${number} came before its parent`)
    if (!this.#store.isUnfoldable(to.number)) throw new UnfoldError(to)
    return to
  }

  #stepUnfold({ to, append }: Unfold): readonly KeeperAnswer[] {
    const isBegun = this.#database.get('meta', META.folding) !== undefined
    if (isBegun || this.#store.foldHead().number > to.number) {
      unfoldBlock(this.#database)
      return []
    }
    this.#trie.reload()
    const toId = this.#blocks.unfolded(to, this.#trie.base())
    this.#words.setFold(toId)
    this.#unfold = undefined
    const unfolds = this.#words.unfolds()
    const answers: KeeperAnswer[] = [
      { type: 'unfolded', toNumber: to.number, toHash: to.hash, toId, unfolds },
      ...(append === undefined ? [] : this.#appended(append, this.#blocks.base)),
    ]
    if (append === undefined) this.#durable = this.#blocks.base
    while (this.#waiting.length > 0 && this.#unfold === undefined)
      answers.push(...this.#commit(this.#waiting.shift()!))
    return answers
  }

  /** The block on the base, when it is deep enough and has a name. */
  #nextFold(): KnownBlock | undefined {
    const { base } = this.#blocks
    const depth = this.#durable.appended!.number - base.appended!.number
    if (depth <= this.#limits.foldDepth) return undefined
    let block = this.#durable
    while (block.parent !== undefined && block.parent !== base) block = block.parent
    return block.id === 0 ? undefined : block
  }

  #startFold(): Fold | undefined {
    const block = this.#nextFold()
    if (block === undefined) return undefined
    const { number, hash } = block.appended!
    const version = this.#roots.checkedVersion(block)
    const diff = block.diff ?? this.#store.encodedDiff(hash)
    if (diff === undefined) throw new TrieError(`block ${number}: its diff is not stored`)
    // The old version is overwritten from here on, and with it go the tries of everything beside the block.
    this.#blocks.keepOnly(block)
    this.#words.setFold(block.id)
    return { block, pieces: this.#foldPieces(version, { block: { number, hash }, diff }) }
  }

  *#foldPieces(
    version: TrieVersion,
    { block, diff }: { readonly block: StoredHead; readonly diff: EncodedDiff },
  ): Generator<undefined, void> {
    const [database, trie] = [this.#database, this.#trie]
    const { rowsInPiece } = this.#limits
    yield* foldBlock({ database, trie, version, block, diff, rowsInPiece })
    let stamped = 0
    for (const { key } of rowsOf(diff)) {
      this.#words.stamp(key, block.number)
      if (++stamped % STAMPED_IN_STEP === 0) yield
    }
  }

  #stepFold({ block, pieces }: Fold): readonly KeeperAnswer[] {
    if (!this.#isFinished(pieces)) return []
    this.#fold = undefined
    this.#isDirty = true
    const { number, hash } = block.appended!
    this.#blocks.folded(block, number - this.#limits.undoWindow)
    this.#prune = prune(this.#database, this.#limits, (oldest) => this.#words.setOldest(oldest))
    return [{ type: 'folded', id: block.id, number, hash }]
  }

  #isFinished(pieces: Iterator<undefined, void>): boolean {
    return isFinished(pieces, { sliceMs: this.#limits.sliceMs, now: this.#now })
  }
}

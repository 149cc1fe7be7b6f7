/** State of the persistence thread between two requests, and the work that waits. */
import type { EncodedDiff } from '../../state/diff.ts'
import { rowsOf } from '../../state/encoded-diff.ts'
import {
  appendBlock,
  putLabelledHeads,
  writeDurableHead,
  writeLabelledHeads,
} from '../blocks/append.ts'
import { persistBlock } from '../blocks/persist.ts'
import { type PruneLimits, prune } from '../blocks/prune.ts'
import { lastPersistedAncestor, recover } from '../blocks/recover.ts'
import { openStore } from '../blocks/store.ts'
import { UnwindError, unwindBlock } from '../blocks/unwind.ts'
import { openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { LEDGER_LIMITS } from '../ledger-types.ts'
import { TrieError } from '../trie/node.ts'
import type { StateTrie, TrieVersion } from '../trie/trie.ts'
import type {
  AppendBlock,
  BlockId,
  OpenedChain,
  PersistenceRequest,
  PersistenceResponse,
  PersistenceWords,
  StoredHead,
  StoreReader,
} from '../types.ts'
import { isOn, type KnownBlock, KnownBlocks } from './blocks.ts'
import { type Chores, createChores, isFinished } from './chores.ts'
import { backgroundFailure, storageFailure } from './failure.ts'
import { type FillRequest, PersistenceFills } from './fills.ts'
import type { PersistenceOptions, PersistenceStats } from './options.ts'
import { openPromises, promise } from './promises.ts'
import { PersistenceRoots, type RootRequest } from './roots.ts'

export const MAX_QUEUED = 10_000
export const SLICE_MS = 2
const STAMPED_IN_STEP = 1_024

type PersistRun = { readonly block: KnownBlock; readonly pieces: Iterator<undefined, void> }

/** Unwind to `to`, the parent of the durable block of `append`, if there is one. */
type Unwind = { readonly to: StoredHead; readonly append: AppendRequest | undefined }

type AppendRequest = PersistenceRequest & { readonly type: 'append' }
type LabelledHeadsRequest = PersistenceRequest & { readonly type: 'marks' }

export class PersistenceState {
  readonly opened: OpenedChain
  readonly #limits: PruneLimits & {
    readonly foldDepth: number
    readonly sliceMs: number
    readonly rowsInPiece: number | undefined
  }
  readonly #now: () => number
  readonly #database: Database
  readonly #words: PersistenceWords
  readonly #store: StoreReader
  readonly #trie: StateTrie
  readonly #blocks: KnownBlocks
  readonly #roots: PersistenceRoots
  readonly #fills: PersistenceFills
  readonly ledger: Ledger
  readonly #queue: (RootRequest | FillRequest)[] = []
  /** Commits that were requested during an unwind, in order. */
  readonly #waiting: (AppendRequest | LabelledHeadsRequest)[] = []
  #durable: KnownBlock
  #persisting: PersistRun | undefined
  #unwind: Unwind | undefined
  #prune: Iterator<undefined, void> | undefined
  readonly #chores: Chores
  #isTurnOfChores = false
  #failure: string | undefined
  #isDirty = false
  #isSyncing = false

  constructor(options: PersistenceOptions) {
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
    const base = { id: 0, parent: undefined, version: trie.base(), appended: opened.persistedHead }
    this.#blocks = new KnownBlocks(base)
    this.#roots = new PersistenceRoots({ ...options, trie, blocks: this.#blocks })
    const [database, blocks, durable] = [this.#database, this.#blocks, () => this.#durable]
    this.#fills = new PersistenceFills({ ...options, database, blocks, durable })
    this.#durable = base
    opened.unpersisted.forEach(({ number, hash }, at) => {
      const block = { id: 0, parent: this.#durable, version: versions[at], appended: undefined }
      this.#blocks.markAppended(block, { number, hash })
      this.#durable = block
    })
    const { wallMs = options.now, ledger: limits = LEDGER_LIMITS } = options
    this.ledger = openPromises({ database, wallMs, limits }, opened)
    this.#chores = createChores([
      { isDue: () => log.isDue(), start: () => log.shorten() },
      { isDue: () => this.#fills.isDue(), start: () => this.#fills.shrink() },
      { isDue: () => this.ledger.isDue(), start: () => this.ledger.prune() },
    ])
  }

  /** Turns a failed commit into a response, the last one: later writes would fail too. */
  guard(work: () => readonly PersistenceResponse[]): readonly PersistenceResponse[] {
    if (this.#failure === undefined)
      try {
        return work()
      } catch (error) {
        const failure = storageFailure(error)
        // Any other error is a bug.
        if (failure === undefined) throw error
        this.#failure = failure
      }
    return [{ type: 'failed', message: this.#failure }]
  }

  get isFailed(): boolean {
    return this.#failure !== undefined
  }

  handle(
    request: Exclude<PersistenceRequest, { readonly type: 'begin' }>,
  ): readonly PersistenceResponse[] {
    switch (request.type) {
      case 'append':
      case 'marks':
        if (this.#unwind === undefined) return this.#commit(request)
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
      case 'suspicion':
        this.ledger.suspicion(request)
        break
      default:
        this.#queue.push(request)
    }
    // At the bound the oldest requests go first. A refused diff would make all later roots wrong.
    const responses: PersistenceResponse[] = []
    while (this.#queue.length + this.#waiting.length > MAX_QUEUED) responses.push(...this.step())
    return responses
  }

  /** Responds to the waiting requests, because the state is about to be replaced. */
  giveUp(): readonly PersistenceResponse[] {
    if (this.#unwind !== undefined || this.#waiting.length > 0)
      throw new Error('persistence: a lazy state begins anew while blocks are appended')
    return this.#queue.splice(0).flatMap((request) => {
      if (request.type !== 'fill') return []
      return [
        { type: 'filled', request: request.request, written: 0, dropped: request.rows.length },
      ]
    })
  }

  nameBase(id: BlockId): void {
    this.#blocks.name(this.#blocks.base, id)
  }

  hasWork(): boolean {
    if (this.#failure !== undefined) return false
    if (this.#unwind !== undefined || this.#queue.length > 0) return true
    if (this.#chores.hasWork()) return true
    return (
      this.#persisting !== undefined ||
      this.#nextToPersist() !== undefined ||
      this.#prune !== undefined
    )
  }

  step(): readonly PersistenceResponse[] {
    if (this.#unwind !== undefined) return this.#stepUnwind(this.#unwind)
    const request = this.#queue.shift()
    if (request !== undefined) return this.#respond(request)
    // Chores and persist passes take turns, because under load there is always a persist pass.
    this.#isTurnOfChores = !this.#isTurnOfChores
    if (this.#isTurnOfChores && this.#chores.run((pieces) => this.#isFinished(pieces))) return []
    this.#persisting ??= this.#startPersisting()
    if (this.#persisting !== undefined) return this.#stepPersisting(this.#persisting)
    if (this.#prune !== undefined && this.#isFinished(this.#prune)) this.#prune = undefined
    return []
  }

  #respond(request: RootRequest | FillRequest): readonly PersistenceResponse[] {
    if (request.type !== 'fill') return this.#roots.respond(request, this.#durable)
    this.#isDirty = true
    return [this.#fills.respond(request)]
  }

  async sync(): Promise<readonly PersistenceResponse[]> {
    try {
      this.#checkBackground()
      if (!this.#isDirty) return []
      // Commits during the sync are covered by the next one.
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

  flush(): readonly PersistenceResponse[] {
    this.#checkBackground()
    if (this.#isDirty || this.#isSyncing) this.#database.flush()
    this.#isDirty = false
    return []
  }

  #checkBackground(): void {
    if (this.#database.stats().backgroundErrors > 0) throw backgroundFailure(this.#database)
  }

  stats(): PersistenceStats {
    const durableNumber = this.#durable.appended!.number
    const foldedNumber = this.#blocks.base.appended!.number
    const queuedRequests = this.#queue.length + this.#waiting.length
    const lag = { durableNumber, foldedNumber, foldLag: durableNumber - foldedNumber }
    return { ...this.#database.stats(), ...lag, queuedRequests }
  }

  #commit(request: AppendRequest | LabelledHeadsRequest): readonly PersistenceResponse[] {
    if (request.type === 'append') return this.#append(request)
    const { type: _, ...labelledHeads } = request
    writeLabelledHeads(this.#database, labelledHeads)
    this.#isDirty = true
    return [{ type: 'labelled', labelledHeads }]
  }

  #append(append: AppendRequest): readonly PersistenceResponse[] {
    const { block } = append
    const parent = this.#blocks.byHash(block.parentHash)
    const isOnPersisted =
      parent !== undefined && isOn(parent, this.#persisting?.block ?? this.#blocks.base)
    const to = isOnPersisted ? undefined : this.#forkPoint(block)
    this.#makeDurable(append)
    this.#isDirty = true
    if (to === undefined) return this.#appended(append, parent!)
    return this.#startUnwind({ to, append })
  }

  /** @throws {UnwindError} below the undo window */
  #rewind(to: StoredHead): readonly PersistenceResponse[] {
    if (this.#unwind !== undefined) throw new Error('persistence: it goes back already')
    const block = this.#blocks.byHash(to.hash)
    const isOnPersisted =
      block !== undefined && isOn(block, this.#persisting?.block ?? this.#blocks.base)
    if (!isOnPersisted && !this.#store.canUnwindTo(to.number)) throw new UnwindError(to)
    writeDurableHead(this.#database, to, (batch) => this.ledger.rewind(batch, to.number))
    this.#isDirty = true
    if (!isOnPersisted) return this.#startUnwind({ to, append: undefined })
    this.#durable = block
    return [{ type: 'rewound', hash: to.hash }]
  }

  /** Starts an unwind. Every older view is void afterwards. */
  #startUnwind(unwind: Unwind): readonly PersistenceResponse[] {
    this.#unwind = unwind
    this.#words.raiseUnwinds()
    this.#persisting = undefined
    this.#prune = undefined
    return []
  }

  #makeDurable({ block, labelledHeads }: AppendRequest): void {
    const isReorg = block.number <= this.#durable.appended!.number
    appendBlock(this.#database, block, (batch) => {
      this.ledger.decide(batch, block, isReorg)
      if (labelledHeads !== undefined) putLabelledHeads(batch, labelledHeads)
    })
  }

  #appended(
    { block, labelledHeads }: AppendRequest,
    parent: KnownBlock,
  ): readonly PersistenceResponse[] {
    this.#durable = this.#blocks.append(block, parent)
    return [
      {
        type: 'appended',
        id: block.id,
        number: block.number,
        ...(labelledHeads && { labelledHeads }),
      },
    ]
  }

  /** The persisted parent of a block on another branch. */
  #forkPoint({ number, parentHash }: AppendBlock): StoredHead {
    const to = lastPersistedAncestor(this.#database, parentHash)
    if (to === undefined || to.number !== number - 1)
      throw new Error(`persistence: block ${number} came before its parent`)
    if (!this.#store.canUnwindTo(to.number)) throw new UnwindError(to)
    return to
  }

  #stepUnwind({ to, append }: Unwind): readonly PersistenceResponse[] {
    const isStarted = this.#database.get('meta', META.persisting) !== undefined
    if (isStarted || this.#store.persistedHead().number > to.number) {
      unwindBlock(this.#database)
      return []
    }
    this.#trie.reload()
    const toId = this.#blocks.unwound(to, this.#trie.base())
    this.#words.setPersistedId(toId)
    this.#unwind = undefined
    const unwinds = this.#words.unwinds()
    const responses: PersistenceResponse[] = [
      { type: 'unfolded', toNumber: to.number, toHash: to.hash, toId, unwinds },
      ...(append === undefined ? [] : this.#appended(append, this.#blocks.base)),
    ]
    if (append === undefined) this.#durable = this.#blocks.base
    while (this.#waiting.length > 0 && this.#unwind === undefined)
      responses.push(...this.#commit(this.#waiting.shift()!))
    return responses
  }

  /** The block above the base, if it is deep enough and has an id. */
  #nextToPersist(): KnownBlock | undefined {
    const { base } = this.#blocks
    const depth = this.#durable.appended!.number - base.appended!.number
    if (depth <= this.#limits.foldDepth) return undefined
    let block = this.#durable
    while (block.parent !== undefined && block.parent !== base) block = block.parent
    return block.id === 0 ? undefined : block
  }

  #startPersisting(): PersistRun | undefined {
    const block = this.#nextToPersist()
    if (block === undefined) return undefined
    const { number, hash } = block.appended!
    const version = this.#roots.checkedVersion(block)
    const diff = block.diff ?? this.#store.encodedDiff(hash)
    if (diff === undefined) throw new TrieError(`block ${number}: its diff is not stored`)
    // The persist pass overwrites the old version: tries of blocks beside this one are void.
    this.#blocks.retainOnly(block)
    this.#words.setPersistedId(block.id)
    return { block, pieces: this.#persistPieces(version, { block: { number, hash }, diff }) }
  }

  *#persistPieces(
    version: TrieVersion,
    { block, diff }: { readonly block: StoredHead; readonly diff: EncodedDiff },
  ): Generator<undefined, void> {
    const [database, trie] = [this.#database, this.#trie]
    const { rowsInPiece } = this.#limits
    yield* persistBlock({ database, trie, version, block, diff, rowsInPiece })
    let stamped = 0
    for (const { key } of rowsOf(diff)) {
      this.#words.stamp(key, block.number)
      if (++stamped % STAMPED_IN_STEP === 0) yield
    }
  }

  #stepPersisting({ block, pieces }: PersistRun): readonly PersistenceResponse[] {
    if (!this.#isFinished(pieces)) return []
    this.#persisting = undefined
    this.#isDirty = true
    const { number, hash } = block.appended!
    this.#blocks.persisted(block, number - this.#limits.undoWindow)
    this.#prune = prune(this.#database, this.#limits, (oldest) => this.#words.setOldest(oldest))
    return [{ type: 'folded', id: block.id, number, hash }]
  }

  #isFinished(pieces: Iterator<undefined, void>): boolean {
    return isFinished(pieces, { sliceMs: this.#limits.sliceMs, now: this.#now })
  }
}

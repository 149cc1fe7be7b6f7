/**
 * The writer of the torture test. It decides by chance what to build, drop, replace and submit to
 * the persistence thread, and publishes the result.
 */
import type { PersistenceRequest, PersistenceResponse } from '../../engine/storage/types.ts'
import { type Arena, OLDEST, openArena } from '../../engine/views/arena.ts'
import { readSnapshot } from '../../engine/views/chain-snapshot.ts'
import { openPublisher } from '../../engine/views/publisher.ts'
import type { BlockHandle, Publisher, SharedViews } from '../../engine/views/types.ts'
import { mulberry32 } from '../kit/run-options.ts'
import { appendOf, type Block, finishBlock, genesisBlock, growBlock, isOn } from './blocks.ts'
import { GENESIS_NUMBER, tortureChain } from './content.ts'
import type { Count } from './counters.ts'
import { STAYED_FULL } from './counters.ts'
import { cpuSeconds } from './cpu-time.ts'
import {
  addSnapshot,
  FINAL_STEP,
  payloadIdOf,
  recordFinal,
  type SharedLedger,
  startBlock,
} from './ledger.ts'
import { openTruth, type Truth } from './truth.ts'

/** Frequency of each action per 1000 steps. */
export type Habits = {
  readonly secondPayload: number
  readonly flush: number
  readonly shallowReorg: number
  readonly deepReorg: number
  /** Complete and pending go back to canonical, even during an append. */
  readonly dropAll: number
  /** The driver builds nothing until everything is persisted. */
  readonly idle: number
}

export type DriverOptions = {
  readonly views: SharedViews
  readonly ledger: SharedLedger
  readonly habits: Habits
  readonly foldDepth: number
  /**
   * Processor time for which the arena may stay full, because readers without processor time cannot
   * release their snapshots.
   */
  readonly graceSeconds: number
  readonly seed: number
  readonly count: Count
  readonly send: (request: PersistenceRequest) => void
  /** Asks readers of this snapshot and of older ones to release them. */
  readonly cancel: (snapshot: number) => void
}

const MAX_LEAD = 4
const MAX_BACKLOG = 4
const MAX_IN_FLIGHT = 3
const MAX_BRANCH = 3
const DEEPEST = 4
const RETAINED_PERSISTED = 12
/** Steps without building after the arena was full. */
const MAX_IDLE_STEPS = 3

export class Driver {
  readonly publisher: Publisher
  readonly #options: DriverOptions
  readonly #truth: Truth
  readonly #random: () => number
  readonly #arena: Arena
  canonical: Block
  complete: Block
  pending: Block
  /** The newest submitted block; the next one must stand on it. */
  #tip: Block
  /** Submitted blocks without a response. */
  readonly #inFlight: Block[] = []
  /** Persisted blocks, newest last; the last one is the base. */
  #persisted: Block[]
  /** Nothing of the old branch may be visible between the responses 'unfolded' and 'appended'. */
  #isBetween = false
  #isIdle = false
  #idleSteps = 0
  /** Processor time of the first refusal since the last success. */
  #fullSince: number | undefined
  #isShort = false
  #oldest = GENESIS_NUMBER
  /** First page of a diff layer, with the block that used it last. */
  readonly #owners = new Map<number, number>()

  constructor(options: DriverOptions) {
    this.#options = options
    const { ledger, views } = options
    this.#truth = openTruth(ledger)
    this.#random = mulberry32(options.seed)
    this.#arena = openArena(views)
    const chain = tortureChain()
    const base = { number: Number(chain.genesisNumber), hash: chain.genesisHash }
    this.publisher = openPublisher(views, base)
    startBlock(ledger, { height: base.number, parent: 0, isFullBlock: true })
    recordFinal(ledger, 1, base.hash)
    const genesis = genesisBlock(this.publisher.base, base.hash)
    this.canonical = genesis
    this.complete = genesis
    this.pending = genesis
    this.#tip = genesis
    this.#persisted = [genesis]
    this.#publish()
  }

  /** Takes one random action. */
  step(): void {
    this.#options.count('beats')
    if (this.#isBetween) return
    if (this.#idleSteps > 0) {
      this.#idleSteps--
      return
    }
    if (this.#isIdle) this.#idle()
    else this.#choose()
  }

  #choose(): void {
    const { habits } = this.#options
    let dice = this.#random() * 1000
    const happens = (often: number) => {
      dice -= often
      return dice < 0
    }
    if (happens(habits.idle)) this.#isIdle = true
    else if (happens(habits.shallowReorg)) this.#reorgShallow()
    else if (happens(habits.deepReorg)) this.#reorgDeep()
    else if (happens(habits.flush)) this.#flush()
    else if (happens(habits.dropAll)) this.#dropAll()
    else if (happens(habits.secondPayload)) this.#start()
    else this.#goOn()
  }

  respond(response: PersistenceResponse): void {
    switch (response.type) {
      case 'appended':
        this.#onAppended(response.id)
        break
      case 'folded':
        this.#onPersisted(response.id)
        break
      case 'unfolded':
        this.#onUnwound(response)
        break
      case 'failed':
        throw new Error(`the persistence thread failed: ${response.message}`)
      default:
        throw new Error(`an answer that nobody asked for: ${response.type}`)
    }
  }

  /**
   * With every row clear, all pages except those of a few diff layers must come back. Returns
   * undefined when none is lost.
   */
  drain(): string | undefined {
    const wanted = this.publisher.stats().pages * 2
    for (let taken = 0; taken < wanted; taken++) {
      this.#flush()
      const block = this.#new(this.complete, false)
      if (growBlock(this.publisher, this.#truth, block) === 'full')
        return `no page after ${taken} blocks: ${JSON.stringify(this.publisher.stats())}`
      this.pending = block
      this.#publish()
    }
    return undefined
  }

  get isIdle(): boolean {
    return this.#inFlight.length === 0
  }

  #goOn(): void {
    const { pending } = this
    const isTooFar = this.complete.number - this.canonical.number >= MAX_LEAD
    if (this.#canSubmit() && (isTooFar || this.#random() < 0.6)) this.#submitNext()
    else if (pending.final === undefined) this.#carryOn(pending)
    else if (!isTooFar) this.#start()
  }

  #idle(): void {
    if (this.pending !== this.complete) this.#flush()
    else if (this.complete !== this.#tip && this.#canSubmit()) this.#submitNext()
    else if (this.isIdle && this.#tip.number - this.#base.number <= this.#options.foldDepth)
      this.#isIdle = this.#random() > 0.1
  }

  #start(): void {
    const { count } = this.#options
    const block = this.#new(this.complete, false)
    if (this.#has(growBlock, block)) {
      if (this.pending.final === undefined) count('secondPayloads')
      this.pending = block
      this.#publish()
    }
  }

  /** Adds the next flashblock or the end. */
  #carryOn(block: Block): void {
    const isAll = block.steps >= block.target
    const part = isAll ? finishBlock : growBlock
    if (this.#has(part, block)) {
      if (isAll) this.complete = block
      this.#publish()
    }
  }

  #flush(): void {
    if (this.pending === this.complete) return
    this.#options.count('flushes')
    this.pending = this.complete
    this.#publish()
  }

  #dropAll(): void {
    this.complete = this.canonical
    this.pending = this.canonical
    this.#publish()
  }

  /** Adds a part to a block; returns false when the arena is full. */
  #has(part: typeof growBlock, block: Block): boolean {
    if (part(this.publisher, this.#truth, block) === 'full') {
      // A block without a visible part stays in the arena until it is dropped.
      if (block !== this.pending) this.publisher.drop(block.handle)
      this.#full()
      return false
    }
    this.#fullSince = undefined
    this.#isShort = false
    return true
  }

  /** Drops pending and asks the readers of the oldest snapshot to release it. */
  #full(): void {
    this.#options.count('full')
    const { graceSeconds } = this.#options
    const now = cpuSeconds()
    this.#fullSince ??= now
    if (now - this.#fullSince > graceSeconds)
      throw new Error(`${STAYED_FULL} for ${graceSeconds} s of processor time`)
    this.#options.cancel(this.publisher.stats().oldestLease)
    this.#idleSteps = MAX_IDLE_STEPS
    // Complete blocks are dropped as well, when dropping pending did not suffice.
    if (this.#isShort) this.#dropAll()
    else this.#flush()
    this.#isShort = true
  }

  #canSubmit(): boolean {
    if (this.#inFlight.length >= MAX_IN_FLIGHT) return false
    if (this.#tip.number - this.#base.number >= this.#options.foldDepth + MAX_BACKLOG) return false
    return this.#nextComplete() !== undefined
  }

  /** Returns the block above the tip in the chain of the complete head. */
  #nextComplete(): Block | undefined {
    let block: Block | undefined = this.complete
    while (block !== undefined && block.number > this.#tip.number + 1) block = block.parent
    return block !== undefined && block.parent === this.#tip ? block : undefined
  }

  #submitNext(): void {
    this.#submitForPersistence(this.#nextComplete()!)
  }

  #submitForPersistence(block: Block): void {
    this.publisher.submitForPersistence(block.handle)
    this.#inFlight.push(block)
    this.#tip = block
    this.#options.send({ type: 'append', block: appendOf(this.#truth, block) })
  }

  /**
   * Adds a canonical block that competes with a complete block, or with a canonical block that is
   * not persisted.
   */
  #reorgShallow(): void {
    if (this.#inFlight.length >= MAX_IN_FLIGHT) return
    let parent = this.#tip
    for (let back = this.#random() * 3; back >= 1 && parent.number > this.#base.number; back--)
      parent = parent.parent!
    if (this.#replace(parent, 1)) this.#options.count('shallowReorgs')
  }

  /** Adds a branch from below the base. Its blocks exist before the old branch is undone. */
  #reorgDeep(): void {
    if (this.#inFlight.length > 0 || this.#persisted.length < DEEPEST + 2) return
    const parent = this.#persisted.at(-2 - Math.floor(this.#random() * DEEPEST))!
    if (this.#random() < 0.3) {
      parent.handle = this.publisher.stored({ number: parent.number, hash: parent.final! })
    }
    if (this.#replace(parent, 1 + Math.floor(this.#random() * MAX_BRANCH)))
      this.#options.count('deepReorgs')
  }

  #replace(from: Block, length: number): boolean {
    const blocks: Block[] = []
    for (let parent = from; blocks.length < length; parent = blocks.at(-1)!) {
      const block = this.#new(parent, true)
      if (!this.#has(growBlock, block) || !this.#has(finishBlock, block)) break
      blocks.push(block)
    }
    for (const block of blocks) this.#submitForPersistence(block)
    return blocks.length > 0
  }

  #onAppended(id: number): void {
    const block = this.#inFlight.shift()
    if (block?.handle.id !== id)
      throw new Error(`the persistence thread appended ${id}, not ${block?.handle.id}`)
    this.#options.count('appends')
    this.#isBetween = false
    this.publisher.onResponse(block.handle)
    this.canonical = block
    block.executed = []
    if (!isOn(this.complete, block)) this.complete = block
    if (!isOn(this.pending, this.complete)) this.pending = this.complete
    this.#publish()
  }

  #onPersisted(id: number): void {
    let block: Block | undefined = this.canonical
    while (block !== undefined && block.handle.id !== id) block = block.parent
    if (block === undefined)
      throw new Error(`the persistence thread persisted ${id}, which is not canonical`)
    this.#options.count('persists')
    this.publisher.persisted(block.handle)
    this.#persisted.push(block)
    if (this.#persisted.length > RETAINED_PERSISTED) this.#persisted.shift()!.parent = undefined
    this.#countPruned()
    this.#publish()
  }

  #countPruned(): void {
    const oldest = Math.max(this.#oldest, Atomics.load(this.#arena.words, OLDEST))
    this.#options.count('prunedBlocks', oldest - this.#oldest)
    this.#oldest = oldest
  }

  #onUnwound(response: PersistenceResponse & { readonly type: 'unfolded' }): void {
    this.#options.count('unwinds')
    const handle: BlockHandle = this.publisher.unwound({
      number: response.toNumber,
      hash: response.toHash,
      id: response.toId,
      unwinds: response.unwinds,
    })
    this.#persisted = this.#persisted.filter(({ number }) => number <= response.toNumber)
    this.#persisted.at(-1)!.handle = handle
    this.#isBetween = true
  }

  get #base(): Block {
    return this.#persisted.at(-1)!
  }

  #new(parent: Block, isFullBlock: boolean): Block {
    const height = parent.number + 1
    const salt = startBlock(this.#options.ledger, { height, parent: parent.salt, isFullBlock })
    const handle = this.publisher.start(parent.handle, isFullBlock ? undefined : payloadIdOf(salt))
    return {
      handle,
      salt,
      number: height,
      parent,
      isFullBlock,
      target: 1 + Math.floor(this.#random() * 5),
      steps: 0,
      world: parent.world,
      executed: [],
      partialHeaders: [],
      header: new Uint8Array(0),
      final: undefined,
    }
  }

  #publish(): void {
    const { count, ledger } = this.#options
    const { canonical, complete, pending } = this
    const safe = Math.max(GENESIS_NUMBER, canonical.number - 2)
    const number = this.publisher.stats().snapshots + 1
    const pendingStep = pending.final === undefined ? pending.steps - 1 : FINAL_STEP
    const salts = { canonical: canonical.salt, complete: complete.salt, pending: pending.salt }
    addSnapshot(ledger, number, { ...salts, pendingStep, safe })
    const published = this.publisher.publish({
      canonical: canonical.handle,
      complete: complete.handle,
      pending: pending.handle,
      safe,
      finalized: safe,
    })
    if (published !== number) throw new Error(`snapshot ${published} was to be ${number}`)
    count('publishes')
    const { diffLayer, id } = readSnapshot(this.#arena, number).pending
    const before = this.#owners.get(diffLayer)
    if (diffLayer !== 0 && before !== undefined && before !== id) count('recycledPages')
    this.#owners.set(diffLayer, id)
  }
}

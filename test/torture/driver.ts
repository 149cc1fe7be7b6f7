/** The writer of the torture: decides by chance what is built, dropped, replaced and handed to the keeper, and publishes it. */
import type { KeeperAnswer, KeeperRequest } from '../../engine/storage/types.ts'
import { type Arena, OLDEST, openArena } from '../../engine/views/arena.ts'
import { openPublisher } from '../../engine/views/publisher.ts'
import { readRecord } from '../../engine/views/record.ts'
import type { BlockHandle, Publisher, SharedViews } from '../../engine/views/types.ts'
import { mulberry32 } from '../kit/run-options.ts'
import { appendOf, type Block, finishBlock, genesisBlock, growBlock, isOn } from './blocks.ts'
import { GENESIS_NUMBER, tortureChain } from './content.ts'
import type { Count } from './counters.ts'
import { STAYED_FULL } from './counters.ts'
import { cpuSeconds } from './cpu-time.ts'
import {
  beginBlock,
  noteFinal,
  noteRecord,
  payloadIdOf,
  type SharedLedger,
  WHOLE,
} from './ledger.ts'
import { openTruth, type Truth } from './truth.ts'

/** How often each thing is done, of 1000 steps. */
export type Habits = {
  readonly secondPayload: number
  readonly flush: number
  readonly shallowReorg: number
  readonly deepReorg: number
  /** Complete and pending go back to canonical, whatever is on its way. */
  readonly dropAll: number
  /** Nothing is built until everything is folded. */
  readonly rest: number
}

export type DriverOptions = {
  readonly views: SharedViews
  readonly ledger: SharedLedger
  readonly habits: Habits
  readonly foldDepth: number
  /** Processor time for which the arena may stay full: readers that get none cannot let go. */
  readonly graceSeconds: number
  readonly seed: number
  readonly count: Count
  readonly send: (request: KeeperRequest) => void
  /** Readers of this record and older ones are asked to let go. */
  readonly cancel: (record: number) => void
}

const MAX_AHEAD = 4
const MAX_BACKLOG = 4
const MAX_IN_FLIGHT = 3
const MAX_BRANCH = 3
const DEEPEST = 4
const KEPT_FOLDED = 12
/** Steps without building after the arena was full. */
const PATIENCE = 3

export class Driver {
  readonly publisher: Publisher
  readonly #options: DriverOptions
  readonly #truth: Truth
  readonly #random: () => number
  readonly #arena: Arena
  canonical: Block
  complete: Block
  pending: Block
  /** The newest block that the keeper was given: what comes next stands on it. */
  #tip: Block
  /** Given to the keeper and not answered. */
  readonly #inFlight: Block[] = []
  /** Newest last; the base is the last. */
  #folded: Block[]
  /** Between the answers 'unfolded' and 'appended' nothing of the old branch may be shown. */
  #isBetween = false
  #isResting = false
  #patience = 0
  /** Processor time at which nothing could be added any more; pending has made place already. */
  #fullSince: number | undefined
  #isShort = false
  #oldest = GENESIS_NUMBER
  /** By first page of a table: the block that had it last. */
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
    beginBlock(ledger, { height: base.number, parent: 0, isWhole: true })
    noteFinal(ledger, 1, base.hash)
    const genesis = genesisBlock(this.publisher.base, base.hash)
    this.canonical = genesis
    this.complete = genesis
    this.pending = genesis
    this.#tip = genesis
    this.#folded = [genesis]
    this.#publish()
  }

  /** One thing is done. */
  step(): void {
    this.#options.count('beats')
    if (this.#isBetween) return
    if (this.#patience > 0) {
      this.#patience--
      return
    }
    if (this.#isResting) this.#rest()
    else this.#choose()
  }

  #choose(): void {
    const { habits } = this.#options
    let dice = this.#random() * 1000
    const happens = (often: number) => {
      dice -= often
      return dice < 0
    }
    if (happens(habits.rest)) this.#isResting = true
    else if (happens(habits.shallowReorg)) this.#reorgShallow()
    else if (happens(habits.deepReorg)) this.#reorgDeep()
    else if (happens(habits.flush)) this.#flush()
    else if (happens(habits.dropAll)) this.#dropAll()
    else if (happens(habits.secondPayload)) this.#begin()
    else this.#goOn()
  }

  answer(answer: KeeperAnswer): void {
    switch (answer.type) {
      case 'appended':
        this.#onAppended(answer.id)
        break
      case 'folded':
        this.#onFolded(answer.id)
        break
      case 'unfolded':
        this.#onUnfolded(answer)
        break
      case 'failed':
        throw new Error(`the keeper failed: ${answer.message}`)
      default:
        throw new Error(`an answer that nobody asked for: ${answer.type}`)
    }
  }

  /** With every row clear, all pages but those of a few tables come back; undefined when none is lost. */
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
    const isAhead = this.complete.number - this.canonical.number >= MAX_AHEAD
    if (this.#canHandOver() && (isAhead || this.#random() < 0.6)) this.#handOverNext()
    else if (pending.final === undefined) this.#carryOn(pending)
    else if (!isAhead) this.#begin()
  }

  #rest(): void {
    if (this.pending !== this.complete) this.#flush()
    else if (this.complete !== this.#tip && this.#canHandOver()) this.#handOverNext()
    else if (this.isIdle && this.#tip.number - this.#base.number <= this.#options.foldDepth)
      this.#isResting = this.#random() > 0.1
  }

  #begin(): void {
    const { count } = this.#options
    const block = this.#new(this.complete, false)
    if (this.#has(growBlock, block)) {
      if (this.pending.final === undefined) count('secondPayloads')
      this.pending = block
      this.#publish()
    }
  }

  /** The next flashblock, or the end. */
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

  /** Adds a part to a block; false: there is no room. */
  #has(part: typeof growBlock, block: Block): boolean {
    if (part(this.publisher, this.#truth, block) === 'full') {
      // A block of which nothing was shown is kept until it is given up.
      if (block !== this.pending) this.publisher.drop(block.handle)
      this.#full()
      return false
    }
    this.#fullSince = undefined
    this.#isShort = false
    return true
  }

  /** Pending makes place, the oldest reader is to let go. */
  #full(): void {
    this.#options.count('full')
    const { graceSeconds } = this.#options
    const now = cpuSeconds()
    this.#fullSince ??= now
    if (now - this.#fullSince > graceSeconds)
      throw new Error(`${STAYED_FULL} for ${graceSeconds} s of processor time`)
    this.#options.cancel(this.publisher.stats().oldestLease)
    this.#patience = PATIENCE
    // What is complete makes place as well, when pending was not enough.
    if (this.#isShort) this.#dropAll()
    else this.#flush()
    this.#isShort = true
  }

  #canHandOver(): boolean {
    if (this.#inFlight.length >= MAX_IN_FLIGHT) return false
    if (this.#tip.number - this.#base.number >= this.#options.foldDepth + MAX_BACKLOG) return false
    return this.#nextComplete() !== undefined
  }

  /** The block on the tip in the chain of the complete head. */
  #nextComplete(): Block | undefined {
    let block: Block | undefined = this.complete
    while (block !== undefined && block.number > this.#tip.number + 1) block = block.parent
    return block !== undefined && block.parent === this.#tip ? block : undefined
  }

  #handOverNext(): void {
    this.#handOver(this.#nextComplete()!)
  }

  #handOver(block: Block): void {
    this.publisher.handOver(block.handle)
    this.#inFlight.push(block)
    this.#tip = block
    this.#options.send({ type: 'append', block: appendOf(this.#truth, block) })
  }

  /** A canonical block beside one that is complete, or canonical and not folded. */
  #reorgShallow(): void {
    if (this.#inFlight.length >= MAX_IN_FLIGHT) return
    let parent = this.#tip
    for (let back = this.#random() * 3; back >= 1 && parent.number > this.#base.number; back--)
      parent = parent.parent!
    if (this.#replace(parent, 1)) this.#options.count('shallowReorgs')
  }

  /** A branch from below the base, known before the old one is undone. */
  #reorgDeep(): void {
    if (this.#inFlight.length > 0 || this.#folded.length < DEEPEST + 2) return
    const parent = this.#folded.at(-2 - Math.floor(this.#random() * DEEPEST))!
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
    for (const block of blocks) this.#handOver(block)
    return blocks.length > 0
  }

  #onAppended(id: number): void {
    const block = this.#inFlight.shift()
    if (block?.handle.id !== id)
      throw new Error(`the keeper appended ${id}, not ${block?.handle.id}`)
    this.#options.count('appends')
    this.#isBetween = false
    this.publisher.answered(block.handle)
    this.canonical = block
    block.executed = []
    if (!isOn(this.complete, block)) this.complete = block
    if (!isOn(this.pending, this.complete)) this.pending = this.complete
    this.#publish()
  }

  #onFolded(id: number): void {
    let block: Block | undefined = this.canonical
    while (block !== undefined && block.handle.id !== id) block = block.parent
    if (block === undefined) throw new Error(`the keeper folded ${id}, which is not canonical`)
    this.#options.count('folds')
    this.publisher.folded(block.handle)
    this.#folded.push(block)
    if (this.#folded.length > KEPT_FOLDED) this.#folded.shift()!.parent = undefined
    this.#countPruned()
    this.#publish()
  }

  #countPruned(): void {
    const oldest = Math.max(this.#oldest, Atomics.load(this.#arena.words, OLDEST))
    this.#options.count('prunedBlocks', oldest - this.#oldest)
    this.#oldest = oldest
  }

  #onUnfolded(answer: KeeperAnswer & { readonly type: 'unfolded' }): void {
    this.#options.count('unfolds')
    const handle: BlockHandle = this.publisher.unfolded({
      number: answer.toNumber,
      hash: answer.toHash,
      id: answer.toId,
      unfolds: answer.unfolds,
    })
    this.#folded = this.#folded.filter(({ number }) => number <= answer.toNumber)
    this.#folded.at(-1)!.handle = handle
    this.#isBetween = true
  }

  get #base(): Block {
    return this.#folded.at(-1)!
  }

  #new(parent: Block, isWhole: boolean): Block {
    const height = parent.number + 1
    const salt = beginBlock(this.#options.ledger, { height, parent: parent.salt, isWhole })
    const handle = this.publisher.begin(parent.handle, isWhole ? undefined : payloadIdOf(salt))
    return {
      handle,
      salt,
      number: height,
      parent,
      isWhole,
      target: 1 + Math.floor(this.#random() * 5),
      steps: 0,
      world: parent.world,
      executed: [],
      momentary: [],
      header: new Uint8Array(0),
      final: undefined,
    }
  }

  #publish(): void {
    const { count, ledger } = this.#options
    const { canonical, complete, pending } = this
    const safe = Math.max(GENESIS_NUMBER, canonical.number - 2)
    const number = this.publisher.stats().records + 1
    const pendingStep = pending.final === undefined ? pending.steps - 1 : WHOLE
    const salts = { canonical: canonical.salt, complete: complete.salt, pending: pending.salt }
    noteRecord(ledger, number, { ...salts, pendingStep, safe })
    const published = this.publisher.publish({
      canonical: canonical.handle,
      complete: complete.handle,
      pending: pending.handle,
      safe,
      finalized: safe,
    })
    if (published !== number) throw new Error(`record ${published} was to be ${number}`)
    count('publishes')
    const { table, id } = readRecord(this.#arena, number).pending
    const before = this.#owners.get(table)
    if (table !== 0 && before !== undefined && before !== id) count('recycledPages')
    this.#owners.set(table, id)
  }
}

/** These rules must hold after each event of the writer, through all runs of the node's process. */

import type { ChainView, Endpoint, LeasedView } from '../../../engine/chain/types.ts'
import type { FeedMessage, Flashblock } from '../../../engine/flashblocks/types.ts'
import { hashHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import type { LazyStarted } from '../../../engine/sources/lazy/start.ts'
import { DETACHED, FULL, STATE } from '../../../engine/sources/writer/checks.ts'
import type {
  ResyncedEffect,
  WriterEffect,
  WriterEvent,
} from '../../../engine/sources/writer/types.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { latin1 } from '../../../engine/state/words.ts'
import { ancestorAt, contentOf, isAncestor, type TrueBlock, type TrueChain } from './chain.ts'
import { checkAll, checkFlashblock, checkRetained, checkSample, type Extent } from './check.ts'
import { blockUpTo, isMade } from './covered.ts'
import { EnrichedWatch } from './enriched.ts'
import { FeedHistory } from './feed-history.ts'
import type { NodeProcess } from './process.ts'
import type { Random } from './random.ts'
import {
  covers,
  headsOf,
  Mismatch,
  nameOf,
  type VisibleBlock,
  type VisibleHeads,
} from './visible.ts'

/** The counters that allow pending to go back. */
const REASONS = [
  ...(['memory_full', 'view_lost', 'unfold', 'reconcile_replaced', 'promise_broken'] as const),
  ...(['canonical_mismatch', 'feed_second_payload', 'begins_anew', 'begun_anew'] as const),
]
/** Honest feeds give no reason for these counters. */
const LIES = /^(mismatch_(?!next_parent)|feed_(two_faces|equivocation|wrong_again|height_changed))/

/** Each flashblock counts for one of these. */
const JUDGED = /^feed_(?!two_faces)/

type Pin = {
  readonly leased: LeasedView
  readonly top: VisibleBlock
  readonly unwinds: number
}
const MAX_PINS = 3

export type WatchOptions = {
  readonly chain: TrueChain
  readonly random: Random
  readonly cadenceMs: number
  readonly now: () => number
  /** Gives the final block of the network. */
  readonly finalized: () => number
  /** No feed changes its messages. */
  readonly areFeedsTrue: boolean
  /**
   * No feed states the end of a block whose last flashblocks it has lost without a target index.
   * Such a block would come out as complete.
   */
  readonly areEndsTrue: boolean
  /**
   * The feeds can be compared with plain execution. That is impossible where feeds lose ends, and
   * no root shows it.
   */
  readonly checksAtPending: boolean
}

export class Watch {
  readonly seen = new Map<string, number>()
  readonly #options: WatchOptions
  readonly #feeds: FeedHistory
  readonly #enriched: EnrichedWatch
  #process: NodeProcess | undefined
  /** The hashes of canonical blocks that upstreams gave. */
  readonly #given = new Set<string>()
  /** The heads of the newest checked snapshot. */
  #heads: VisibleHeads | undefined
  /** The payload id that the newest snapshot shows. */
  #pendingPayload: string | undefined
  #snapshot = -1
  #canonical: TrueBlock
  #finalized: TrueBlock
  /** Some upstream has given a block that cannot be executed. */
  #isForgedGiven = false
  /** The blocks from before a resync in this process, and the first block before. */
  #retained: { readonly from: number; readonly to: number } | undefined
  #firstBlock = 0
  /** The unwinds that the writer knows now, and those that it knew at its newest snapshot. */
  #unwinds = 0
  #recordUnwinds = 0
  #pins: Pin[] = []
  #pinsViews = true
  /** The contents of the flashblocks of the payload in progress, by index. */
  #executed:
    | {
        readonly payloadId: string
        /** The payload id belongs to the block. */
        readonly isNamed: boolean
        readonly contents: readonly string[]
        readonly upTo: Flashblock
      }
    | undefined
  /** The counters since the last check. */
  readonly #counted: string[] = []

  constructor(options: WatchOptions) {
    this.#options = options
    this.#feeds = new FeedHistory(options.chain, options.cadenceMs)
    const { chain, random } = options
    this.#enriched = new EnrichedWatch({ chain, random, record: (what) => this.record(what) })
    this.#canonical = options.chain.genesis
    this.#finalized = options.chain.genesis
  }

  get checksAtPending(): boolean {
    return this.#options.checksAtPending
  }

  /** Takes a process that has started on the data of earlier ones. */
  started(process: NodeProcess): void {
    this.#process = process
    this.#heads = undefined
    this.#snapshot = -1
    this.#unwinds = 0
    this.#recordUnwinds = 0
    this.#pins = []
    this.#counted.length = 0
    this.#retained = undefined
    this.#feeds.forget()
    this.#executed = undefined
    this.#enriched.started(process.startEffects)
    const visible = this.#newest((view) => headsOf(view, this.#options.chain, false))!
    const { block } = visible.canonical
    // The visible block is durable. A branch in progress may be durable too, from the genesis block
    // on.
    const isOnItsWay = block === this.#options.chain.genesis || this.#given.has(latin1(block.hash))
    if (!isAncestor(this.#canonical, block) && !isOnItsWay)
      throw new Mismatch(
        `block ${this.#canonical.number} was shown as canonical, and is gone after a restart`,
      )
    this.#check()
  }

  /** Takes the start of a lazy state, which is new or resumed. */
  lazyStart({ status, head }: LazyStarted): void {
    this.record(`lazy ${status}`)
    this.#given.add(latin1(head.hash))
    if (status === 'anew') this.forget()
  }

  /** Forgets everything before a resync. */
  forget(): void {
    this.#canonical = this.#options.chain.genesis
    this.#finalized = this.#options.chain.genesis
  }

  applied(event: WriterEvent, effects: readonly WriterEffect[]): void {
    if (event.type === 'distrust') throw new Mismatch(`distrust: ${event.reason}`)
    if (event.type === 'sealed' && event.block.hash !== undefined) {
      const name = latin1(event.block.hash)
      this.#given.add(name)
      this.#isForgedGiven ||= this.#options.chain.byHash.get(name)?.forged !== undefined
    }
    this.#feeds.record(event, this.#options.now())
    this.#checkJudged(event, effects)
    for (const effect of effects) this.#onEffect(effect)
    const { random } = this.#options
    const isNew = this.#process!.reader.newestSnapshot() !== this.#snapshot
    if (isNew) this.#check()
    if (isNew || random.chance(0.02)) this.#visit()
  }

  /**
   * Takes a failure of the persistence thread, which is allowed where a forged root could not be
   * recognized before.
   */
  failed(message: string): void {
    this.record('persistence thread failed')
    if (!this.#isForgedGiven) throw new Mismatch(`the persistence thread failed: ${message}`)
    // The blocks that were unwound for the forged block are lost.
    this.#canonical = this.#options.chain.genesis
  }

  /**
   * Releases old views and leases no new ones, because a small view memory would have no space for
   * pending.
   */
  calm(): void {
    this.#pinsViews = false
    this.#releaseAll()
  }

  /** Checks every response of the newest views, and that the views are the expected ones. */
  close(wanted: {
    readonly canonical: TrueBlock
    readonly pending: readonly VisibleBlock[]
  }): void {
    this.#releaseAll()
    const { chain, random } = this.#options
    this.#newest((view) => {
      const heads = headsOf(view, chain, false)
      expectVisible('canonical', heads.canonical, [{ block: wanted.canonical, at: undefined }])
      expectVisible('pending', heads.pending, wanted.pending)
      checkAll(view, heads.pending, { chain, random, extent: this.#extent })
    }, 'flashblocks')
    this.#newest((view) => {
      const { canonical } = headsOf(view, chain, false)
      checkAll(view, canonical, { chain, random, extent: this.#extent })
      if (this.#retained !== undefined)
        checkRetained(view, canonical, { chain, random, extent: this.#extent }, this.#retained)
    }, 'standard')
  }

  #onEffect(effect: WriterEffect): void {
    this.#enriched.onEffect(effect)
    if (effect.type === 'count') {
      this.record(effect.what, effect.by)
      this.#counted.push(effect.what)
      if (effect.what === 'unfold' || effect.what === 'begun_anew') this.#unwinds++
      if (this.#options.areFeedsTrue && LIES.test(effect.what))
        throw new Mismatch(`feeds that tell the truth: ${effect.what}`)
    } else if (effect.type === 'executed') this.#recordExecuted(effect.packet.message)
    else if (effect.type === 'cancel') this.#releaseAll()
    else if (effect.type === 'refused') this.#refused(effect)
    else if (effect.type === 'begun') this.#resynced(effect)
    else if (effect.type === 'halted') {
      this.record('halted')
      if (effect.isFatal) throw new Mismatch(`halted: ${effect.message}`)
    }
  }

  /**
   * Checks that every executed flashblock is the sequencer's, because the sums of a wrong one show
   * the fault.
   */
  #recordExecuted(message: FeedMessage): void {
    if (message.type === 'end') return
    const { payloadId, index, base } = message
    const content = contentOf(message)
    const block = this.#options.chain.payloads.get(payloadId)
    // A wrong payload id may belong to another block.
    const isIt = base && block && equalBytes(base.prevRandao, block.header.mixHash)
    const before = this.#executed?.payloadId === payloadId ? this.#executed : undefined
    const isNamed = isIt ?? before?.isNamed ?? false
    const upTo = blockUpTo(message, base === undefined ? before?.upTo : undefined)
    const { isLazy } = this.#process!.extent
    if (isNamed && block !== undefined && !isMade(upTo, block, isLazy))
      throw new Mismatch(`index ${index} of ${payloadId} is executed, and was made otherwise`)
    const contents = [...(before?.contents.slice(0, index) ?? []), content]
    this.#executed = { payloadId, isNamed, contents, upTo }
  }

  /** Checks that a repeated flashblock counts as a copy where its content is equal. */
  #checkJudged(event: WriterEvent, effects: readonly WriterEffect[]): void {
    if (event.type !== 'packet' || event.packet.message.type === 'end') return
    const { message } = event.packet
    if (this.#executed?.payloadId !== message.payloadId) return
    const known = this.#executed.contents[message.index]
    const [judged, ...others] = effects.flatMap((effect) =>
      effect.type === 'count' && JUDGED.test(effect.what) ? [effect.what] : [],
    )
    // Waiting flashblocks may be judged together with this one, and copies of waiting ones are no
    // copies of it.
    if (known === undefined || others.length > 0 || this.#process?.extent.isLazy === true) return
    const isSame = known === contentOf(message)
    const wrong = isSame ? 'feed_equivocation' : 'feed_duplicate'
    if (judged === wrong)
      throw new Mismatch(`index ${message.index} of ${message.payloadId} again: ${judged}`)
    if (!isSame && judged === 'feed_equivocation') this.record('other flashblocks noticed')
  }

  /** Takes a resync of a running node: final blocks stay final, and retained ones stay readable. */
  #resynced({ hash, keptUpTo }: ResyncedEffect): void {
    this.record('resync while it runs')
    this.#given.add(latin1(hash))
    this.#retained = keptUpTo === undefined ? undefined : { from: this.#firstBlock, to: keptUpTo }
  }

  #refused({ hash, number, field }: WriterEffect & { readonly type: 'refused' }): void {
    this.record(field === FULL ? 'refused for memory' : 'refused')
    const block = this.#options.chain.byHash.get(latin1(hash))
    if (
      block !== undefined &&
      block.forged === undefined &&
      ![FULL, STATE, DETACHED].includes(field)
    )
      throw new Mismatch(`block ${number} ${bytesToHex(hash)} is refused for its ${field}`)
  }

  /** Compares the newest snapshot with the one before. */
  #check(): void {
    const { chain, random, areEndsTrue } = this.#options
    this.#snapshot = this.#process!.reader.newestSnapshot()
    this.#recordUnwinds = this.#unwinds
    this.#newest((view) => {
      const heads = headsOf(view, chain, !areEndsTrue)
      this.#checkHeads(heads)
      this.#checkLabelledHeads(view, heads)
      if (this.#heads !== undefined) this.#checkMove(this.#heads, heads)
      this.#heads = heads
      this.#pendingPayload = view.pending.payloadId
      this.#firstBlock = this.#extent.firstBlock
      this.#canonical = heads.canonical.block
      const about = { chain, random, extent: this.#extent }
      checkSample(view, heads.pending, about)
      this.record('flashblocks read', checkFlashblock(view, heads.pending, about))
      this.record('looks')
    })
    if (this.checksAtPending) this.#newest((view) => this.#enriched.check(view))
    if (random.chance(0.3))
      this.#newest((view) => {
        const heads = headsOf(view, chain, !areEndsTrue)
        checkSample(view, heads.canonical, { chain, random, extent: this.#extent })
      }, 'standard')
  }

  #checkHeads({ canonical, latest, pending }: VisibleHeads): void {
    if (!isAncestor(canonical.block, latest.block))
      throw new Mismatch(`${nameOf(latest)} does not stand on ${nameOf(canonical)}`)
    if (!isAncestor(latest.block, pending.block))
      throw new Mismatch(`${nameOf(pending)} does not stand on ${nameOf(latest)}`)
    const { block } = canonical
    const isOld = block === this.#canonical || block === this.#options.chain.genesis
    if (!isOld && !this.#given.has(latin1(block.hash)))
      throw new Mismatch(`${nameOf(canonical)} is canonical, and no upstream has given it`)
    if (block.forged !== undefined && !hasOtherRoots(block, block.forged))
      throw new Mismatch(`${nameOf(canonical)} is forged, and canonical`)
  }

  #checkLabelledHeads(view: ChainView, { canonical }: VisibleHeads): void {
    const { byHash } = this.#options.chain
    const find = (tag: 'safe' | 'finalized') => {
      const found = view.block({ tag })
      const block = found && byHash.get(latin1(found.hash))
      if (block === undefined || !isAncestor(block, canonical.block))
        throw new Mismatch(`${tag} is block ${found?.number}, not below ${nameOf(canonical)}`)
      return block
    }
    const [safe, finalized] = [find('safe'), find('finalized')]
    if (finalized.number > this.#options.finalized())
      throw new Mismatch(`block ${finalized.number} is said to be final, and is not`)
    const { stored } = this.#process!
    if (finalized.number > stored.finalized || safe.number > stored.safe)
      throw new Mismatch(
        `safe is ${safe.number} and final ${finalized.number}, and ${stored.safe} and ${stored.finalized} in the store`,
      )
    if (finalized.number > safe.number)
      throw new Mismatch(`finalized ${finalized.number} is above safe ${safe.number}`)
    if (!isAncestor(this.#finalized, canonical.block))
      throw new Mismatch(`block ${this.#finalized.number} was final, and is replaced`)
    if (finalized.number > this.#finalized.number) this.#finalized = finalized
  }

  #checkMove(before: VisibleHeads, after: VisibleHeads): void {
    const counted = this.#counted.splice(0)
    if (covers(after.pending, before.pending)) return
    this.record('lower pending')
    const isReason = (what: string) =>
      what.startsWith('mismatch_') || REASONS.some((reason) => reason === what)
    if (!counted.some(isReason))
      throw new Mismatch(
        `pending went from ${nameOf(before.pending)} to ${nameOf(after.pending)} for no reason: ${counted.join()}`,
      )
    if (after.canonical.block !== before.canonical.block) return
    if (!counted.includes('feed_second_payload')) return
    const fork = forkOf(before.pending.block, after.pending.block)
    const taken = ancestorAt(after.pending.block, fork.number + 1)
    for (let at = before.pending.block; at !== fork; at = at.parent!) {
      // A feed with a wrong id has sent another payload, which it may replace although the content
      // is equal.
      const isWrong = at === before.pending.block && at.payloadId !== this.#pendingPayload
      if (!isWrong) this.#feeds.checkDrop(at, taken, this.#options.now())
    }
  }

  /** Retains views for a while, and checks them again. */
  #visit(): void {
    const { random, chain } = this.#options
    const process = this.#process!
    if (this.#pinsViews && this.#pins.length < MAX_PINS && random.chance(0.15)) {
      const leased = process.reader.lease(this.#endpoint)
      const top = this.#heads!.pending
      const unwinds = this.#recordUnwinds
      if (leased.snapshot === this.#snapshot) this.#pins.push({ leased, top, unwinds })
      else leased.release()
    }
    if (this.#pins.length === 0 || !random.chance(0.3)) return
    const at = random.below(this.#pins.length)
    const pin = this.#pins[at]!
    const isAllowed = (error: ViewError) =>
      error.reason === 'void'
        ? process.unwinds > pin.unwinds
        : error.reason === 'pruned' && pin.top.at !== undefined
    allowing(isAllowed, () => {
      checkSample(pin.leased.view, pin.top, { chain, random, extent: this.#extent })
      this.record('reads of leased views')
    })
    if (!random.chance(0.25)) return
    pin.leased.release()
    this.#pins.splice(at, 1)
  }

  get #extent(): Extent {
    return this.#process!.extent
  }
  get #endpoint(): Endpoint {
    return this.#options.checksAtPending ? 'flashblocks' : 'standard'
  }

  #releaseAll(): void {
    for (const { leased } of this.#pins) leased.release()
    this.#pins = []
  }

  #newest<Result>(
    read: (view: ChainView) => Result,
    endpoint: Endpoint = this.#endpoint,
  ): Result | undefined {
    const process = this.#process!
    const leased = process.reader.lease(endpoint)
    try {
      const isAllowed = ({ reason }: ViewError) =>
        reason === 'void' && process.unwinds > this.#unwinds
      return allowing(isAllowed, () => read(leased.view))
    } finally {
      leased.release()
    }
  }

  record(what: string, by = 1): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + by)
  }
}

function allowing<Result>(
  isAllowed: (error: ViewError) => boolean,
  read: () => Result,
): Result | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof ViewError && isAllowed(error)) return undefined
    throw error
  }
}

/**
 * Whether only the roots differ, because the roots are the source's claim until the block is
 * persisted.
 */
function hasOtherRoots({ header }: TrueBlock, { header: truth }: TrueBlock): boolean {
  const { stateRoot, withdrawalsRoot } = truth
  return equalBytes(
    hashHeader({ ...header, stateRoot, ...(withdrawalsRoot && { withdrawalsRoot }) }),
    hashHeader(truth),
  )
}

function forkOf(one: TrueBlock, other: TrueBlock): TrueBlock {
  let at = one
  while (ancestorAt(other, at.number)?.payloadId !== at.payloadId) at = at.parent!
  return at
}

function expectVisible(what: string, found: VisibleBlock, wanted: readonly VisibleBlock[]): void {
  const isSame = wanted.some(({ block, at }) => found.block === block && found.at === at)
  if (isSame) return
  const names = wanted.map(nameOf).join(' or ')
  throw new Mismatch(`${what} is ${nameOf(found)}, expected ${names}`)
}

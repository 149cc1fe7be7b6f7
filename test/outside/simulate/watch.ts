/** What must hold after each event of the writer, whatever happened, through all runs of the node's process. */

import type { ChainView, Endpoint, LeasedView } from '../../../engine/chain/types.ts'
import type { FeedMessage, Flashblock } from '../../../engine/flashblocks/types.ts'
import { hashHeader } from '../../../engine/primitives/header-codec.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import type { LazyBegun } from '../../../engine/sources/lazy/start.ts'
import { FULL, STATE } from '../../../engine/sources/writer/checks.ts'
import type {
  BegunEffect,
  WriterEffect,
  WriterEvent,
} from '../../../engine/sources/writer/types.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { latin1 } from '../../../engine/state/words.ts'
import { ancestorAt, contentOf, isAncestor, type TrueBlock, type TrueChain } from './chain.ts'
import { checkAll, checkFlashblock, checkKept, checkSample, type Extent } from './check.ts'
import { blockUpTo, isMade } from './covered.ts'
import { EnrichedWatch } from './enriched.ts'
import { FeedNotes } from './feed-notes.ts'
import type { NodeProcess } from './process.ts'
import type { Random } from './random.ts'
import { headsOf, holds, Mismatch, nameOf, type Shown, type ShownHeads } from './shown.ts'

/** Why pending may go back, as it is counted. */
const REASONS = [
  ...(['memory_full', 'view_lost', 'unfold', 'reconcile_replaced', 'promise_broken'] as const),
  ...(['canonical_mismatch', 'feed_second_payload', 'begins_anew', 'begun_anew'] as const),
]
/** Feeds that tell the truth give no reason to count these. */
const LIES = /^(mismatch_(?!next_parent)|feed_(two_faces|equivocation|wrong_again|height_changed))/

/** Each flashblock counts for one of these. */
const JUDGED = /^feed_(?!two_faces)/

type Pin = {
  readonly leased: LeasedView
  readonly top: Shown
  readonly unfolds: number
}
const MOST_PINS = 3

export type WatchOptions = {
  readonly chain: TrueChain
  readonly random: Random
  readonly cadenceMs: number
  readonly now: () => number
  /** What the network says is final. */
  readonly finalized: () => number
  /** No feed changes what it was given. */
  readonly areFeedsTrue: boolean
  /**
   * Nor does one tell the end of a block whose last flashblocks it has lost, where no target index says so: what it gave may come out as a
   * whole block.
   */
  readonly areEndsTrue: boolean
  /** What the feeds say can be held against plain execution: not so where they lose ends, and no root tells. */
  readonly looksAtPending: boolean
}

export class Watch {
  readonly seen = new Map<string, number>()
  readonly #options: WatchOptions
  readonly #feeds: FeedNotes
  readonly #enriched: EnrichedWatch
  #process: NodeProcess | undefined
  /** Hashes of canonical blocks that upstreams gave. */
  readonly #given = new Set<string>()
  /** Of the newest record that was looked at. */
  #heads: ShownHeads | undefined
  /** The payload id that the newest record shows. */
  #pendingPayload: string | undefined
  #record = -1
  #canonical: TrueBlock
  #finalized: TrueBlock
  /** Some upstream has given a block that nobody can execute. */
  #isForgedGiven = false
  /** Blocks from before the state began anew in this process, and the first that it had before. */
  #kept: { readonly from: number; readonly to: number } | undefined
  #firstBlock = 0
  /** Unfolds that the writer knows of, and knew of when it wrote that record. */
  #unfolds = 0
  #recordUnfolds = 0
  #pins: Pin[] = []
  #holdsViews = true
  /** Of the payload in progress: what its flashblocks say, by index. */
  #executed:
    | {
        readonly payloadId: string
        /** The id is that of its block. */
        readonly isNamed: boolean
        readonly contents: readonly string[]
        readonly upTo: Flashblock
      }
    | undefined
  /** Since the newest look. */
  readonly #counted: string[] = []

  constructor(options: WatchOptions) {
    this.#options = options
    this.#feeds = new FeedNotes(options.chain, options.cadenceMs)
    const { chain, random } = options
    this.#enriched = new EnrichedWatch({ chain, random, note: (what) => this.note(what) })
    this.#canonical = options.chain.genesis
    this.#finalized = options.chain.genesis
  }

  get looksAtPending(): boolean {
    return this.#options.looksAtPending
  }

  /** A process has started, on what the ones before it have left. */
  started(process: NodeProcess): void {
    this.#process = process
    this.#heads = undefined
    this.#record = -1
    this.#unfolds = 0
    this.#recordUnfolds = 0
    this.#pins = []
    this.#counted.length = 0
    this.#kept = undefined
    this.#feeds.forget()
    this.#executed = undefined
    this.#enriched.started(process.begun)
    const shown = this.#newest((view) => headsOf(view, this.#options.chain, false))!
    const { block } = shown.canonical
    // The block that was shown is durable; a branch on its way may be too, from the genesis block on.
    const isOnItsWay = block === this.#options.chain.genesis || this.#given.has(latin1(block.hash))
    if (!isAncestor(this.#canonical, block) && !isOnItsWay)
      throw new Mismatch(
        `block ${this.#canonical.number} was shown as canonical, and is gone after a restart`,
      )
    this.#look()
  }

  /** A lazy state begins at a block, or goes on. */
  begun({ status, head }: LazyBegun): void {
    this.note(`lazy ${status}`)
    this.#given.add(latin1(head.hash))
    if (status === 'anew') this.forget()
  }

  /** Begun anew: nothing of before holds. */
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
    this.#feeds.note(event, this.#options.now())
    this.#checkJudged(event, effects)
    for (const effect of effects) this.#hear(effect)
    const { random } = this.#options
    const isNew = this.#process!.reader.newestRecord() !== this.#record
    if (isNew) this.#look()
    if (isNew || random.chance(0.02)) this.#visit()
  }

  /** The keeper has failed: it may where a forged root could not be seen before. */
  failed(message: string): void {
    this.note('keeper failed')
    if (!this.#isForgedGiven) throw new Mismatch(`the keeper failed: ${message}`)
    // What was taken back for it is gone.
    this.#canonical = this.#options.chain.genesis
  }

  /**
   * Old views are let go, and no new ones held: in a small view memory they leave no room for
   * pending.
   */
  calm(): void {
    this.#holdsViews = false
    this.#releaseAll()
  }

  /** Everything that the newest views answer, and that they are these. */
  close(wanted: { readonly canonical: TrueBlock; readonly pending: readonly Shown[] }): void {
    this.#releaseAll()
    const { chain, random } = this.#options
    this.#newest((view) => {
      const heads = headsOf(view, chain, false)
      expectShown('canonical', heads.canonical, [{ block: wanted.canonical, at: undefined }])
      expectShown('pending', heads.pending, wanted.pending)
      checkAll(view, heads.pending, { chain, random, extent: this.#extent })
    }, 'flashblocks')
    this.#newest((view) => {
      const { canonical } = headsOf(view, chain, false)
      checkAll(view, canonical, { chain, random, extent: this.#extent })
      if (this.#kept !== undefined)
        checkKept(view, canonical, { chain, random, extent: this.#extent }, this.#kept)
    }, 'standard')
  }

  #hear(effect: WriterEffect): void {
    this.#enriched.hear(effect)
    if (effect.type === 'count') {
      this.note(effect.what, effect.by)
      this.#counted.push(effect.what)
      if (effect.what === 'unfold' || effect.what === 'begun_anew') this.#unfolds++
      if (this.#options.areFeedsTrue && LIES.test(effect.what))
        throw new Mismatch(`feeds that tell the truth: ${effect.what}`)
    } else if (effect.type === 'executed') this.#noteExecuted(effect.packet.message)
    else if (effect.type === 'cancel') this.#releaseAll()
    else if (effect.type === 'refused') this.#refused(effect)
    else if (effect.type === 'begun') this.#begunAnew(effect)
    else if (effect.type === 'halted') {
      this.note('halted')
      if (effect.isFatal) throw new Mismatch(`halted: ${effect.message}`)
    }
  }

  /** What is executed was made by the sequencer: whatever a wrong one states shows in its sums. */
  #noteExecuted(message: FeedMessage): void {
    if (message.type === 'end') return
    const { payloadId, index, base } = message
    const content = contentOf(message)
    const block = this.#options.chain.payloads.get(payloadId)
    // An id that came wrong may be that of another block.
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

  /** A flashblock again is the same one where it says the same. */
  #checkJudged(event: WriterEvent, effects: readonly WriterEffect[]): void {
    if (event.type !== 'packet' || event.packet.message.type === 'end') return
    const { message } = event.packet
    if (this.#executed?.payloadId !== message.payloadId) return
    const known = this.#executed.contents[message.index]
    const [judged, ...others] = effects.flatMap((effect) =>
      effect.type === 'count' && JUDGED.test(effect.what) ? [effect.what] : [],
    )
    // What waited behind it may be judged with it, and copies of what waits are no copies of this.
    if (known === undefined || others.length > 0 || this.#process?.extent.isLazy === true) return
    const isSame = known === contentOf(message)
    const wrong = isSame ? 'feed_equivocation' : 'feed_duplicate'
    if (judged === wrong)
      throw new Mismatch(`index ${message.index} of ${message.payloadId} again: ${judged}`)
    if (!isSame && judged === 'feed_equivocation') this.note('other flashblocks noticed')
  }

  /** While it runs: what is final stays so, and what is kept can be read on. */
  #begunAnew({ hash, keptUpTo }: BegunEffect): void {
    this.note('begun while it runs')
    this.#given.add(latin1(hash))
    this.#kept = keptUpTo === undefined ? undefined : { from: this.#firstBlock, to: keptUpTo }
  }

  #refused({ hash, number, field }: WriterEffect & { readonly type: 'refused' }): void {
    this.note(field === FULL ? 'given back' : 'refused')
    const block = this.#options.chain.byHash.get(latin1(hash))
    if (block !== undefined && block.forged === undefined && ![FULL, STATE].includes(field))
      throw new Mismatch(`block ${number} ${bytesToHex(hash)} is refused for its ${field}`)
  }

  /** The newest record, held against the one before. */
  #look(): void {
    const { chain, random, areEndsTrue } = this.#options
    this.#record = this.#process!.reader.newestRecord()
    this.#recordUnfolds = this.#unfolds
    this.#newest((view) => {
      const heads = headsOf(view, chain, !areEndsTrue)
      this.#checkHeads(heads)
      this.#checkMarks(view, heads)
      if (this.#heads !== undefined) this.#checkMove(this.#heads, heads)
      this.#heads = heads
      this.#pendingPayload = view.pending.payloadId
      this.#firstBlock = this.#extent.firstBlock
      this.#canonical = heads.canonical.block
      const about = { chain, random, extent: this.#extent }
      checkSample(view, heads.pending, about)
      this.note('flashblocks read', checkFlashblock(view, heads.pending, about))
      this.note('looks')
    })
    if (this.looksAtPending) this.#newest((view) => this.#enriched.check(view))
    if (random.chance(0.3))
      this.#newest((view) => {
        const heads = headsOf(view, chain, !areEndsTrue)
        checkSample(view, heads.canonical, { chain, random, extent: this.#extent })
      }, 'standard')
  }

  #checkHeads({ canonical, latest, pending }: ShownHeads): void {
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

  #checkMarks(view: ChainView, { canonical }: ShownHeads): void {
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

  #checkMove(before: ShownHeads, after: ShownHeads): void {
    const counted = this.#counted.splice(0)
    if (holds(after.pending, before.pending)) return
    this.note('went back')
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
      // A feed with a wrong id has sent another payload, which it may replace, although it says the same.
      const isWrong = at === before.pending.block && at.payloadId !== this.#pendingPayload
      if (!isWrong) this.#feeds.checkDrop(at, taken, this.#options.now())
    }
  }

  /** Views are kept a while, and asked again. */
  #visit(): void {
    const { random, chain } = this.#options
    const process = this.#process!
    if (this.#holdsViews && this.#pins.length < MOST_PINS && random.chance(0.15)) {
      const leased = process.reader.lease(this.#endpoint)
      const top = this.#heads!.pending
      const unfolds = this.#recordUnfolds
      if (leased.record === this.#record) this.#pins.push({ leased, top, unfolds })
      else leased.release()
    }
    if (this.#pins.length === 0 || !random.chance(0.3)) return
    const at = random.below(this.#pins.length)
    const pin = this.#pins[at]!
    const isAllowed = (error: ViewError) =>
      error.reason === 'void'
        ? process.unfolds > pin.unfolds
        : error.reason === 'pruned' && pin.top.at !== undefined
    allowing(isAllowed, () => {
      checkSample(pin.leased.view, pin.top, { chain, random, extent: this.#extent })
      this.note('pinned looks')
    })
    if (!random.chance(0.25)) return
    pin.leased.release()
    this.#pins.splice(at, 1)
  }

  get #extent(): Extent {
    return this.#process!.extent
  }
  get #endpoint(): Endpoint {
    return this.#options.looksAtPending ? 'flashblocks' : 'standard'
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
        reason === 'void' && process.unfolds > this.#unfolds
      return allowing(isAllowed, () => read(leased.view))
    } finally {
      leased.release()
    }
  }

  note(what: string, by = 1): void {
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

/** Roots of a block below the fold head are its source's until it is folded. */
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

function expectShown(what: string, found: Shown, wanted: readonly Shown[]): void {
  const isSame = wanted.some(({ block, at }) => found.block === block && found.at === at)
  if (isSame) return
  const names = wanted.map(nameOf).join(' or ')
  throw new Mismatch(`${what} is ${nameOf(found)}, expected ${names}`)
}

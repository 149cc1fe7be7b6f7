/**
 * One seed gives one random history of a follower: faults first, then none, and then it must reach
 * the chain's head.
 */

import { foreignChain } from '../../../engine/sources/upstream/check.ts'
import { checkedUpstream } from '../../../engine/sources/upstream/checked.ts'
import { createUpstream, type Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import { trackerTimes } from '../../../engine/sources/upstream/tracker-types.ts'
import type { WriterEffect, WriterEvent } from '../../../engine/sources/writer/types.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { LazyStartError } from '../../../engine/storage/lazy/start.ts'
import type { PersistenceRequest } from '../../../engine/storage/types.ts'
import { dyingDatabase } from '../../fixtures/dying-database.ts'
import { type Style, TrueChain } from './chain.ts'
import { VirtualClock } from './clock.ts'
import { FEED_FORMS, Feed, type FeedFaults, type FeedForm, NO_FAULTS } from './feed.ts'
import { Died, Fuse } from './fuse.ts'
import { type Started, startLazily } from './lazy.ts'
import { BLOCK_MS, Network } from './network.ts'
import { NodeProcess, type Setup, WALL_MS } from './process.ts'
import { Promises } from './promises.ts'
import { Random } from './random.ts'
import { lineOf } from './trace.ts'
import { SimulatedUpstream } from './upstream.ts'
import { Mismatch, type VisibleBlock } from './visible.ts'
import { Watch } from './watch.ts'

const BACKOFF_MS = 6_000
/** The node must run again within this time, whatever was in progress when the faults ended. */
const UP_MS = 20_000
/** Missing state is requested many times before a resync, so the wait allows this many backoffs. */
const MAX_TURNS = 10
const CADENCE_MS = 250
const OFTEN_CUT: FeedFaults = { ...NO_FAULTS, cuts: 0.03, lastCuts: 0.3 }
const OFTEN_WRONG: FeedFaults = { ...NO_FAULTS, mutations: 0.5, overtaken: 0.3 }

export class History {
  readonly #seed: number
  readonly #random: Random
  readonly #clock = new VirtualClock()
  readonly #chain: TrueChain
  readonly #network: Network
  readonly #feeds: readonly Feed[]
  readonly #upstreams: readonly SimulatedUpstream[]
  readonly #setup: Setup
  readonly #watch: Watch
  readonly #promises: Promises
  /**
   * The random numbers of the checks of promises are separate, so that they change nothing else.
   */
  readonly #checks: Random
  readonly #isDeep: boolean
  #isForked = false
  readonly #isLazy: boolean
  readonly #style: Style
  readonly #sendsEnds: boolean
  readonly #log: ((line: string) => void) | undefined
  #database!: Database
  #process: NodeProcess | undefined
  #isTroubled = true
  /** A resync of a lazy state is in progress, so no upstream starts to lie. */
  #isResyncing = false
  #restarts = 0

  /**
   * Makes a history.
   * @param log takes a line for each event of the writer
   */
  constructor(seed: number, log?: (line: string) => void) {
    this.#seed = seed
    this.#log = log
    const random = new Random(seed, 'setup')
    this.#random = random
    // Only a single upstream forks below the final block, which is recent enough to be unwound.
    const final = this.#stream('final')
    const isFinalityRecent = final.chance(0.08)
    // A single feed is cut briefly, often before the last flashblock, and reconnects before the
    // End.
    const isCutOften = this.#stream('cuts').chance(0.06)
    // Two builders compete all the time, and half of their messages come wrong, before the right
    // ones or instead.
    const hasCompeting = this.#stream('competing').chance(0.1) && !isCutOften
    this.#isDeep = random.chance(0.05) && !isFinalityRecent
    this.#isLazy = random.chance(0.5) && !isFinalityRecent
    this.#style = {
      hasTarget: random.chance(0.6) && !isCutOften,
      hasRoot: random.chance(0.5),
      hasBlockNumber: random.chance(0.7),
      ...drawnRefunds(this.#stream('lagoon')),
    }
    this.#chain = new TrueChain(this.#style)
    const sendsEnds = random.chance(0.6) || isCutOften
    this.#sendsEnds = sendsEnds
    const drawn = isCutOften ? OFTEN_CUT : hasCompeting ? OFTEN_WRONG : faultsOf(random)
    const losesNothing = drawn.mutations + drawn.loss + drawn.silence === 0
    const feeds = isCutOften ? 1 : hasCompeting ? 2 : random.pick([1, 2, 2, 2])
    const drawnForms = this.#stream('forms')
    // Refunds come with subblocks, but a builder may also state them beside hashes and Ends.
    const hasSubblocks = this.#style.hasRefunds && this.#stream('refund forms').chance(0.5)
    const forms = Array.from({ length: feeds }, (): FeedForm => {
      const form = drawnForms.pick(FEED_FORMS)
      return hasSubblocks ? 'subblocks' : form
    })
    // Subblocks do not state which one is the last.
    const hasTarget = this.#style.hasTarget && forms.every((form) => form === 'flashblocks')
    const announcesEnds = hasTarget || (sendsEnds && forms.every((form) => form === 'flashblocks'))
    // A flashblock that comes after the next block's first one could not be recognized as missing.
    const isMute = this.#isLazy && losesNothing && !announcesEnds
    const faults = isMute ? { ...drawn, overtaken: 0 } : drawn
    // An End that overtakes the last flashblock hides that flashblock, unless a target index is
    // stated.
    const endsComeLast = losesNothing && !hasTarget
    this.#feeds = Array.from({ length: feeds }, (_, at) => {
      const options = {
        clock: this.#clock,
        random: this.#stream(`feed ${at}`),
        heights: this.#stream(`heights of feed ${at}`),
        faults,
        endsComeLast,
        form: forms[at]!,
        hasRefunds: this.#style.hasRefunds,
      }
      return new Feed(at, options)
    })
    this.#network = new Network({
      chain: this.#chain,
      clock: this.#clock,
      feeds: this.#feeds,
      random: this.#stream('network'),
      refunds: this.#stream('refunds'),
      sendsEnds,
      hasCompeting,
      finalLag: this.#isDeep ? 76 : isFinalityRecent ? final.between(2, 4) : random.between(6, 12),
      isTrue: this.#isLazy && losesNothing,
    })
    const areStatesSlow = this.#stream('slow states').chance(0.15)
    this.#upstreams = Array.from(
      { length: isFinalityRecent ? 1 : random.between(1, 3) },
      (_, at) =>
        new SimulatedUpstream({
          chain: this.#chain,
          network: this.#network,
          clock: this.#clock,
          random: this.#stream(`upstream ${at}`),
          forksBelowFinal: isFinalityRecent,
          lateMs: random.pick([0, 50, 400, 1_700]),
          isPushing: random.chance(0.3),
          hasRawBlocks: random.chance(0.6),
          hasOddDeposits: random.chance(0.2),
          stateDepth: random.pick([16, 24, 64]),
          hasProofs: random.chance(0.6),
          isStateSlow: areStatesSlow,
          takesHash: random.chance(0.7),
          hasBlockReceipts: random.chance(0.7),
        }),
    )
    this.#setup = {
      foldDepth: random.below(5),
      undoBlocks: this.#isDeep ? 64 : isFinalityRecent ? 10 : random.between(3, 10),
      viewBytes: random.chance(0.2) ? 2 ** 20 : 8 * 2 ** 20,
      limits: {
        cadenceMs: CADENCE_MS,
        backlog: random.between(2, 5),
        sealedBlocks: random.chance(0.5) ? 256 : random.between(1, 6),
      },
    }
    this.#promises = new Promises(this.#chain)
    this.#checks = this.#stream('promises')
    this.#watch = new Watch({
      chain: this.#chain,
      random: this.#stream('watch'),
      cadenceMs: CADENCE_MS,
      now: this.#clock.now,
      finalized: () => this.#network.finalized,
      areFeedsTrue: faults.mutations === 0 && (!this.#isLazy || losesNothing),
      checksAtPending: !this.#isLazy || losesNothing,
      areEndsTrue:
        faults.mutations === 0 && (hasTarget || !sendsEnds || faults.loss + faults.silence === 0),
    })
  }

  /** The number of blocks below the head whose state some upstream has. */
  get #deepest(): number {
    return Math.max(...this.#upstreams.map(({ stateDepth }) => stateDepth))
  }

  get seen(): ReadonlyMap<string, number> {
    return this.#watch.seen
  }

  /**
   * Runs the history.
   * @throws {Mismatch} and any other error
   */
  async run(): Promise<void> {
    const random = this.#random
    await this.#network.start(this.#isDeep ? 72 : random.below(6))
    const depths = this.#isDeep
      ? [random.between(50, 70)]
      : depthsOf(random, this.#setup.undoBlocks)
    // Without roots, the next block would name contents that stood on a removed block.
    this.#network.plan(
      this.#isLazy && this.#watch.checksAtPending ? [] : depths,
      random.chance(this.#isLazy ? 0.3 : 0.05) ? this.#deepest + random.between(1, 12) : 0,
    )
    this.#database = this.#emptyDatabase()
    await this.#leaveChain()
    this.#restart(0)
    const rounds = random.between(6, 12)
    this.#after(500, () => this.#troubleUpstream())
    this.#after(700, () => this.#lightFuse())
    await this.#until(this.#network.run(rounds))
    await this.#calm()
    await this.#finish()
  }

  /** Runs the clock until the work is done. */
  async #until(work: Promise<void>): Promise<void> {
    let end: { readonly error: unknown } | 'done' | undefined
    work.then(
      () => {
        end = 'done'
      },
      (error: unknown) => {
        end = { error }
      },
    )
    while (end === undefined) await this.#clock.run(50)
    if (end !== 'done') throw (end as { readonly error: unknown }).error
  }

  /** Ends all faults, and waits until the backoffs are over. */
  async #calm(): Promise<void> {
    this.#isTroubled = false
    this.#network.calm()
    for (const feed of this.#feeds) feed.mend()
    for (const upstream of this.#upstreams) upstream.mend()
    await this.#forkForGood()
    if (this.#process !== undefined) this.#process.fuse.left = undefined
    await this.#clock.run(UP_MS + 3 * BACKOFF_MS)
    await this.#catchUp()
    const { halted } = this.#running.follower
    if (halted?.why === 'deep') {
      this.#watch.record('deep reorg')
      // A final block is abandoned only after an upstream's statement.
      if (this.#isLazy && !/is final here/.test(halted.message)) throw new Mismatch(halted.message)
      // The message demands another directory, unless a start can resync this one.
      this.#watch.forget()
      if (!this.#isLazy) {
        this.#database = this.#emptyDatabase()
        this.#promises.forget()
      }
      await this.#restartProcess()
    }
  }

  /** Waits while blocks become canonical; each takes a poll where the queue has one block. */
  async #catchUp(): Promise<void> {
    const canonical = () => this.#running.follower.status().canonical
    let newest = canonical()
    for (let turns = 0; turns < MAX_TURNS && this.#isLagging(); turns++) {
      await this.#clock.run(BACKOFF_MS)
      if (canonical() > newest) turns = 0
      newest = Math.max(newest, canonical())
    }
  }

  #isLagging(): boolean {
    const { follower } = this.#running
    return follower.halted === undefined && follower.status().canonical < this.#network.head.number
  }

  /** Leaves one of three upstreams on its own chain for good, which the others can outvote. */
  async #forkForGood(): Promise<void> {
    const random = this.#stream('forks for good')
    if (this.#upstreams.length < 3 || this.#upstreams.some(({ isLiar }) => isLiar)) return
    const one = random.pick(this.#upstreams)
    if (!random.chance(0.6) || !this.#canDoWithout(one)) return
    this.#isForked = true
    this.#watch.record('permanent forks')
    // A start on an empty directory may follow this upstream first, and must then go back.
    await one.fork(this.#setup.undoBlocks)
  }

  /**
   * Whether the node can do without this upstream. A proven lazy state needs another one that gives
   * proofs.
   */
  #canDoWithout(upstream: SimulatedUpstream): boolean {
    const others = this.#upstreams.filter((one) => one !== upstream)
    return !upstream.hasProofs || others.some(({ hasProofs }) => hasProofs)
  }

  async #finish(): Promise<void> {
    const network = this.#network
    this.#watch.calm()
    await this.#until(network.run(2))
    const random = this.#random
    await this.#until(network.leaveOpen(random.between(1, 2)))
    await this.#catchUp()
    // The forked upstream may have been ahead. The others are polled every few seconds, and outvote
    // it.
    await this.#clock.run(this.#isForked ? 20_000 : 6_000)
    const { block, sent } = network.live!
    this.#log?.(JSON.stringify(this.#running.follower.status()))
    const { halted } = this.#running.follower
    if (halted !== undefined) throw new Mismatch(`it is halted: ${halted.message}`)
    const isComplete = sent === block.parts.length && !this.#isLazy
    const open = { block, at: sent - 1 }
    const pending: VisibleBlock[] = isComplete ? this.#endsOf(block.payloadId, open) : [open]
    if (this.#isForked && this.#isLazy) pending.push(...this.#passedOver(open))
    this.#watch.close({ canonical: network.head, pending })
    await this.#restartProcess()
    for (const [what, by] of this.#checkPromises()) this.#watch.record(`promises ${what}`, by)
    this.#running.kill()
  }

  /**
   * Lists earlier allowed states. The last flashblocks may have come while no upstream gave state.
   * One upstream is in backoff because it forks, and another has refused a request of the check.
   */
  #passedOver({ block, at }: VisibleBlock): readonly VisibleBlock[] {
    const earlier = Array.from({ length: at ?? 0 }, (_, index) => ({ block, at: index }))
    return [{ block: this.#network.head, at: undefined }, ...earlier]
  }

  /**
   * Lists the allowed ends of the block. A block is known to be complete if an End or a target
   * index says so. Its root must also be computed. A target index is read from the first copy of a
   * flashblock.
   */
  #endsOf(payloadId: string, open: VisibleBlock): VisibleBlock[] {
    const telling = this.#feeds.filter((feed) => !feed.sendsSubblocks(payloadId))
    const completed = { ...open, at: undefined }
    if (telling.length === 0) return [open]
    if (this.#sendsEnds) return [completed]
    if (!this.#style.hasTarget) return [open]
    return telling.length === this.#feeds.length ? [completed] : [completed, open]
  }

  async #restartProcess(): Promise<void> {
    this.#running.kill()
    this.#process = undefined
    this.#restart(0)
    await this.#clock.run(UP_MS)
  }

  get #running(): NodeProcess {
    if (this.#process === undefined) throw new Error('the process does not come up')
    return this.#process
  }

  async #start(): Promise<void> {
    const random = this.#random
    const fuse = this.#isTroubled && random.chance(0.05) ? random.below(20) : undefined
    const limits = { ...DEFAULT_UPSTREAM_LIMITS, upstreamRestMs: BACKOFF_MS }
    const upstreams = this.#upstreams.map((transport, at) => {
      const upstream = createUpstream({
        name: `u${at}`,
        transport,
        limits,
        clock: this.#clock,
        isLimited: ({ message }) => /too many/.test(message),
      })
      return checkedUpstream(upstream, (options) =>
        foreignChain(upstream, this.#chain.spec, options),
      )
    })
    try {
      const lazy = this.#isLazy ? await this.#startLazily(upstreams, fuse) : undefined
      const process = new NodeProcess(
        {
          chain: this.#chain,
          clock: this.#clock,
          database: this.#database,
          setup: this.#setup,
          upstreams,
          lazy,
          limits,
          times: trackerTimes(BLOCK_MS),
          random: this.#stream(`process ${this.#restarts}`),
          onApplied: (event, effects) => this.#applied(event, effects),
          onRetained: (request) => this.#retained(request),
          onDied: (message) => this.#died(message),
          onCheck: (isLooking) => this.#looksForStart(isLooking),
          onEnding: (what) => this.#watch.record(what),
        },
        fuse,
      )
      this.#process = process
      process.fuse.left = undefined
      this.#promises.started()
      this.#checkPromises()
      this.#watch.started(process)
      for (const feed of this.#feeds) feed.listen(process)
    } catch (error) {
      // No upstream allows a start now.
      if (error instanceof UpstreamError || error instanceof LazyStartError) this.#restart(1_000)
      else if (error instanceof Died) this.#died()
      else throw error
    }
  }

  async #startLazily(
    upstreams: readonly Upstream[],
    fuseLeft: number | undefined,
  ): Promise<Started> {
    const fuse = new Fuse()
    fuse.left = fuseLeft
    this.#looksForStart(true)
    const { lazyStart, ...lazy } = await startLazily(upstreams, {
      database: dyingDatabase(this.#database, fuse.burn),
      chain: this.#chain.spec,
      undoBlocks: this.#setup.undoBlocks,
      lagBlocks: DEFAULT_UPSTREAM_LIMITS.upstreamLagBlocks,
    }).finally(() => this.#looksForStart(false))
    this.#log?.(
      `${this.#clock.now()} lazy: ${lazyStart.status} at ${lazyStart.head.number} ${lazyStart.why ?? ''}`,
    )
    this.#watch.lazyStart(lazyStart)
    for (const one of this.#upstreams) one.areProofsChecked = lazy.mode === 'proven'
    return { ...lazy, lazyStart }
  }

  /**
   * Notes a resync. A lying upstream has no vote where a majority can contradict; only there it
   * continues to lie.
   */
  #looksForStart(isLooking: boolean): void {
    this.#isResyncing = isLooking
    if (!isLooking) return
    const areOthersThere = this.#upstreams.every(({ fault, isLiar }) => isLiar || fault === 'none')
    if (this.#upstreams.length === 3 && areOthersThere) return
    for (const one of this.#upstreams) if (one.isLiar) one.mend()
  }

  /** Restarts after a while; an error ends the history. */
  #restart(ms: number): void {
    this.#clock.after(ms, () => {
      this.#start().catch((error: unknown) =>
        this.#clock.after(0, () => {
          throw error
        }),
      )
    })
  }

  #applied(event: WriterEvent, effects: readonly WriterEffect[]): void {
    this.#log?.(lineOf(this.#clock.now(), event, effects))
    this.#promises.onEffect(effects)
    this.#watch.applied(event, effects)
  }

  #retained(request: PersistenceRequest): void {
    this.#promises.committed(request, this.#database)
    if (request.type === 'append' && this.#checks.chance(0.3)) this.#checkPromises()
  }

  #checkPromises(): ReadonlyMap<string, number> {
    return this.#promises.check(this.#database, WALL_MS + this.#clock.now())
  }

  #died(message = ''): void {
    this.#log?.(`${this.#clock.now()} the process dies ${message}`)
    this.#watch.record('killed')
    if (message !== '') this.#watch.failed(message)
    this.#restarts++
    for (const feed of this.#feeds) feed.listen(undefined)
    this.#process = undefined
    this.#isResyncing = false
    this.#restart(this.#random.between(20, 2_000))
  }

  #after(ms: number, run: () => void | Promise<void>): void {
    this.#clock.after(ms, async () => {
      if (!this.#isTroubled) return
      await run()
    })
  }

  async #troubleUpstream(): Promise<void> {
    const random = this.#random
    const at = random.below(this.#upstreams.length)
    const upstream = this.#upstreams[at]!
    const others = this.#upstreams.filter((one) => one !== upstream)
    const isAlone = others.every((one) => !one.isLiar)
    // Fewer than half may lie, and never the first of two, because the lie could not be recognized.
    // A single upstream may lie where roots are computed.
    const mayLie =
      isAlone &&
      !this.#isResyncing &&
      (this.#upstreams.length === 3 ||
        (others.length === 1 && at === 1) ||
        (others.length === 0 && !this.#isLazy))
    const mayFail = !this.#isResyncing || isAlone
    if (upstream.fault === 'none' && mayFail && random.chance(0.7)) await upstream.trouble(mayLie)
    else upstream.mend()
    this.#after(random.between(300, 2_500), () => this.#troubleUpstream())
  }

  /**
   * Moves one upstream to another chain, from the start or later. The others can tell, and no other
   * upstream lies any more.
   */
  async #leaveChain(): Promise<void> {
    const random = this.#stream('leaves')
    const { length } = this.#upstreams
    if (length === 1 || random.chance(0.4)) return
    const at = length === 2 ? 1 : random.below(length)
    if (!this.#canDoWithout(this.#upstreams[at]!)) return
    const leave = async (offlineMs: number) => {
      this.#watch.record('leaves the chain')
      for (const one of this.#upstreams) if (one.isLiar) one.mend()
      await this.#upstreams[at]!.leaveChain(offlineMs)
    }
    if (random.chance(0.8)) await leave(0)
    else
      this.#after(random.between(300, 6_000), () =>
        this.#isResyncing ? undefined : leave(random.below(1_500)),
      )
  }

  /** Makes the process die after some steps. */
  #lightFuse(): void {
    const random = this.#random
    if (this.#process !== undefined && random.chance(0.25))
      this.#process.fuse.left = random.below(30)
    this.#after(random.between(300, 3_000), () => this.#lightFuse())
  }

  #emptyDatabase(): Database {
    const database = memoryDatabase()
    if (!this.#isLazy) importGenesis(database, this.#chain.spec)
    return database
  }

  #stream(name: string): Random {
    return new Random(this.#seed, name)
  }
}

const drawnRefunds = (random: Random) => ({
  hasRefunds: random.chance(0.3),
  countsRefunds: random.chance(0.5),
})

/** Draws the faults of a feed: mostly a little of everything, sometimes none, or one kind. */
function faultsOf(random: Random): FeedFaults {
  const kind = random.below(20)
  if (kind < 2) return NO_FAULTS
  const some = (max: number) => (random.chance(0.7) ? (random.below(100) / 100) * max : 0)
  // Messages are lost only by a cut, which the node notices.
  if (kind < 6)
    return { ...NO_FAULTS, copies: some(0.3), overtaken: some(0.4), cuts: 0.03 + some(0.15) }
  return {
    loss: some(0.25),
    copies: some(0.3),
    overtaken: some(0.4),
    mutations: random.chance(0.5) ? some(0.25) : 0,
    cuts: some(0.06),
    lastCuts: 0,
    silence: some(0.06),
  }
}

function depthsOf(random: Random, undoBlocks: number): readonly number[] {
  const count = random.pick([0, 0, 1, 1, 2])
  return Array.from({ length: count }, () =>
    random.chance(0.1) ? undoBlocks + random.between(0, 3) : random.between(1, 6),
  )
}

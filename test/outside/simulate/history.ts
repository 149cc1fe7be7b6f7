/** One random history of a node that follows, all of it from one seed: troubles, then none, and then it must be where the chain is. */

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
import type { KeeperRequest } from '../../../engine/storage/types.ts'
import { dyingDatabase } from '../../fixtures/dying-database.ts'
import { type Style, TrueChain } from './chain.ts'
import { VirtualClock } from './clock.ts'
import { FEED_FORMS, Feed, type FeedFaults, type FeedForm, NO_FAULTS } from './feed.ts'
import { Died, Fuse } from './fuse.ts'
import { type Begun, beginLazily } from './lazy.ts'
import { BLOCK_MS, Network } from './network.ts'
import { NodeProcess, type Setup, WALL_MS } from './process.ts'
import { Promises } from './promises.ts'
import { Random } from './random.ts'
import { Mismatch, type Shown } from './shown.ts'
import { lineOf } from './trace.ts'
import { SimulatedUpstream } from './upstream.ts'
import { Watch } from './watch.ts'

const REST_MS = 6_000
/** Until it is up, whatever was under way when the troubles ended. */
const UP_MS = 20_000
/** State that is gone is asked for many times before the state begins anew: so many rests more. */
const MOST_TURNS = 10
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
  /** When promises are looked at: of its own, so that it changes nothing else. */
  readonly #looks: Random
  readonly #isDeep: boolean
  #isForked = false
  readonly #isLazy: boolean
  readonly #style: Style
  readonly #sendsEnds: boolean
  readonly #tell: ((line: string) => void) | undefined
  #database!: Database
  #process: NodeProcess | undefined
  #isTroubled = true
  /** A lazy state is being begun: nobody begins to lie meanwhile. */
  #isBeginning = false
  #restarts = 0

  /** @param tell a line for each event of the writer */
  constructor(seed: number, tell?: (line: string) => void) {
    this.#seed = seed
    this.#tell = tell
    const random = new Random(seed, 'setup')
    this.#random = random
    // An only upstream forks below what is final, and that is near enough to be taken back.
    const final = this.#stream('final')
    const isFinalNear = final.chance(0.08)
    // An only feed is cut for a moment, often before the last flashblock, and is there again for the End.
    const isCutOften = this.#stream('cuts').chance(0.06)
    // Two builders compete all along, and half of what they send comes wrong: before it comes right, or instead.
    const isRivalry = this.#stream('competing').chance(0.1) && !isCutOften
    this.#isDeep = random.chance(0.05) && !isFinalNear
    this.#isLazy = random.chance(0.5) && !isFinalNear
    this.#style = {
      hasTarget: random.chance(0.6) && !isCutOften,
      hasRoot: random.chance(0.5),
      hasBlockNumber: random.chance(0.7),
      ...drawnRefunds(this.#stream('lagoon')),
    }
    this.#chain = new TrueChain(this.#style)
    const sendsEnds = random.chance(0.6) || isCutOften
    this.#sendsEnds = sendsEnds
    const drawn = isCutOften ? OFTEN_CUT : isRivalry ? OFTEN_WRONG : faultsOf(random)
    const losesNothing = drawn.mutations + drawn.loss + drawn.silence === 0
    const feeds = isCutOften ? 1 : isRivalry ? 2 : random.pick([1, 2, 2, 2])
    const drawnForms = this.#stream('forms')
    // Refunds come with subblocks; a builder may state them beside hashes and Ends all the same.
    const hasSubblocks = this.#style.hasRefunds && this.#stream('refund forms').chance(0.5)
    const forms = Array.from({ length: feeds }, (): FeedForm => {
      const form = drawnForms.pick(FEED_FORMS)
      return hasSubblocks ? 'subblocks' : form
    })
    // Of subblocks nobody tells the last one.
    const hasTarget = this.#style.hasTarget && forms.every((form) => form === 'flashblocks')
    const tellsEnds = hasTarget || (sendsEnds && forms.every((form) => form === 'flashblocks'))
    // Nobody could tell that what comes after the next block's first flashblock was missing before.
    const isMute = this.#isLazy && losesNothing && !tellsEnds
    const faults = isMute ? { ...drawn, overtaken: 0 } : drawn
    // An End that overtakes the last flashblock says that there was none, where no target index tells.
    const endsComeLast = losesNothing && !hasTarget
    this.#feeds = Array.from({ length: feeds }, (_, at) => {
      const options = {
        ...{ clock: this.#clock, random: this.#stream(`feed ${at}`) },
        ...{ faults, endsComeLast, form: forms[at]! },
        hasRefunds: this.#style.hasRefunds,
      }
      return new Feed(at, options)
    })
    this.#network = new Network({
      ...{ chain: this.#chain, clock: this.#clock, feeds: this.#feeds },
      ...{ random: this.#stream('network'), refunds: this.#stream('refunds') },
      ...{ sendsEnds, isRivalry },
      finalLag: this.#isDeep ? 76 : isFinalNear ? final.between(2, 4) : random.between(6, 12),
      isTrue: this.#isLazy && losesNothing,
    })
    const areStatesSlow = this.#stream('slow states').chance(0.15)
    this.#upstreams = Array.from(
      { length: isFinalNear ? 1 : random.between(1, 3) },
      (_, at) =>
        new SimulatedUpstream({
          ...{ chain: this.#chain, network: this.#network, clock: this.#clock },
          random: this.#stream(`upstream ${at}`),
          forksBelowFinal: isFinalNear,
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
      undoBlocks: this.#isDeep ? 64 : isFinalNear ? 10 : random.between(3, 10),
      viewBytes: random.chance(0.2) ? 2 ** 20 : 8 * 2 ** 20,
      limits: {
        cadenceMs: CADENCE_MS,
        backlog: random.between(2, 5),
        sealedBlocks: random.chance(0.5) ? 256 : random.between(1, 6),
      },
    }
    this.#promises = new Promises(this.#chain)
    this.#looks = this.#stream('promises')
    this.#watch = new Watch({
      ...{ chain: this.#chain, random: this.#stream('watch') },
      ...{ cadenceMs: CADENCE_MS, now: this.#clock.now },
      finalized: () => this.#network.finalized,
      areFeedsTrue: faults.mutations === 0 && (!this.#isLazy || losesNothing),
      looksAtPending: !this.#isLazy || losesNothing,
      areEndsTrue:
        faults.mutations === 0 && (hasTarget || !sendsEnds || faults.loss + faults.silence === 0),
    })
  }

  /** Blocks below the head whose state some upstream has. */
  get #deepest(): number {
    return Math.max(...this.#upstreams.map(({ stateDepth }) => stateDepth))
  }

  get seen(): ReadonlyMap<string, number> {
    return this.#watch.seen
  }

  /** @throws {Mismatch} and whatever else goes wrong */
  async run(): Promise<void> {
    const random = this.#random
    await this.#network.begin(this.#isDeep ? 72 : random.below(6))
    const depths = this.#isDeep
      ? [random.between(50, 70)]
      : depthsOf(random, this.#setup.undoBlocks)
    // Where no root tells, what stood on a block that was taken back would be named by the next one.
    this.#network.plan(
      this.#isLazy && this.#watch.looksAtPending ? [] : depths,
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

  /** The network's work goes on with the clock. */
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

  /** No more troubles; whoever rests has time to end it. */
  async #calm(): Promise<void> {
    this.#isTroubled = false
    this.#network.calm()
    for (const feed of this.#feeds) feed.mend()
    for (const upstream of this.#upstreams) upstream.mend()
    await this.#forkForGood()
    if (this.#process !== undefined) this.#process.fuse.left = undefined
    await this.#clock.run(UP_MS + 3 * REST_MS)
    for (let turn = 0; turn < MOST_TURNS && this.#isBehind(); turn++) await this.#clock.run(REST_MS)
    const { halted } = this.#running.follower
    if (halted?.why === 'deep') {
      this.#watch.note('deep reorg')
      // What is final is not left without somebody's word.
      if (this.#isLazy && !/is final here/.test(halted.message)) throw new Mismatch(halted.message)
      // As the message says: with another directory, where a start does not begin it anew.
      this.#watch.forget()
      if (!this.#isLazy) {
        this.#database = this.#emptyDatabase()
        this.#promises.forget()
      }
      await this.#startAgain()
    }
  }

  #isBehind(): boolean {
    const { follower } = this.#running
    return follower.halted === undefined && follower.status().canonical < this.#network.head.number
  }

  /** One of three stays on a chain of its own: the others can tell. */
  async #forkForGood(): Promise<void> {
    const random = this.#stream('forks for good')
    if (this.#upstreams.length < 3 || this.#upstreams.some(({ isLiar }) => isLiar)) return
    const one = random.pick(this.#upstreams)
    if (!random.chance(0.6) || !this.#canDoWithout(one)) return
    this.#isForked = true
    this.#watch.note('forks for good')
    // A start on an empty directory may follow it at first, and then has to go back.
    await one.fork(this.#setup.undoBlocks)
  }

  /** A lazy state that is proven goes on with those alone that give proofs. */
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
    // One that forks may have been ahead: the others are asked every few seconds, and outvote it.
    await this.#clock.run(this.#isForked ? 20_000 : 6_000)
    const { block, sent } = network.live!
    this.#tell?.(JSON.stringify(this.#running.follower.status()))
    const { halted } = this.#running.follower
    if (halted !== undefined) throw new Mismatch(`it is halted: ${halted.message}`)
    const isWhole = sent === block.parts.length && !this.#isLazy
    const open = { block, at: sent - 1 }
    const pending: Shown[] = isWhole ? this.#endsOf(block.payloadId, open) : [open]
    if (this.#isForked && this.#isLazy) pending.push(...this.#passedOver(open))
    this.#watch.close({ canonical: network.head, pending })
    await this.#startAgain()
    for (const [what, by] of this.#checkPromises()) this.#watch.note(`promises ${what}`, by)
    this.#running.kill()
  }

  /**
   * The last flashblocks may have come while nobody gave state: one upstream rests because it forks,
   * and another one had refused what a look asks for.
   */
  #passedOver({ block, at }: Shown): readonly Shown[] {
    const earlier = Array.from({ length: at ?? 0 }, (_, index) => ({ block, at: index }))
    return [{ block: this.#network.head, at: undefined }, ...earlier]
  }

  /**
   * A block is known to be all there where somebody has said so, and where its root is computed. A target index is seen in the copy of a
   * flashblock that came first.
   */
  #endsOf(payloadId: string, open: Shown): Shown[] {
    const telling = this.#feeds.filter((feed) => !feed.sendsSubblocks(payloadId))
    const whole = { ...open, at: undefined }
    if (telling.length === 0) return [open]
    if (this.#sendsEnds) return [whole]
    if (!this.#style.hasTarget) return [open]
    return telling.length === this.#feeds.length ? [whole] : [whole, open]
  }

  async #startAgain(): Promise<void> {
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
    const limits = { ...DEFAULT_UPSTREAM_LIMITS, upstreamRestMs: REST_MS }
    const upstreams = this.#upstreams.map((transport, at) => {
      const upstream = createUpstream({
        ...{ name: `u${at}`, transport, limits, clock: this.#clock },
        isLimited: ({ message }) => /too many/.test(message),
      })
      return checkedUpstream(upstream, (options) =>
        foreignChain(upstream, this.#chain.spec, options),
      )
    })
    try {
      const lazy = this.#isLazy ? await this.#beginLazily(upstreams, fuse) : undefined
      const process = new NodeProcess(
        {
          ...{ chain: this.#chain, clock: this.#clock, database: this.#database },
          ...{ setup: this.#setup, upstreams, lazy, limits, times: trackerTimes(BLOCK_MS) },
          random: this.#stream(`process ${this.#restarts}`),
          onApplied: (event, effects) => this.#applied(event, effects),
          onKept: (request) => this.#kept(request),
          onDied: (message) => this.#died(message),
          onLook: (isLooking) => this.#looksForBeginning(isLooking),
          onEnding: (what) => this.#watch.note(what),
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
      // No upstream lets it begin now.
      if (error instanceof UpstreamError || error instanceof LazyStartError) this.#restart(1_000)
      else if (error instanceof Died) this.#died()
      else throw error
    }
  }

  async #beginLazily(upstreams: readonly Upstream[], fuseLeft: number | undefined): Promise<Begun> {
    const fuse = new Fuse()
    fuse.left = fuseLeft
    this.#looksForBeginning(true)
    const { begun, ...lazy } = await beginLazily(upstreams, {
      database: dyingDatabase(this.#database, fuse.burn),
      chain: this.#chain.spec,
      undoBlocks: this.#setup.undoBlocks,
      lagBlocks: DEFAULT_UPSTREAM_LIMITS.upstreamLagBlocks,
    }).finally(() => this.#looksForBeginning(false))
    this.#tell?.(
      `${this.#clock.now()} lazy: ${begun.status} at ${begun.head.number} ${begun.why ?? ''}`,
    )
    this.#watch.begun(begun)
    for (const one of this.#upstreams) one.areProofsChecked = lazy.mode === 'proven'
    return { ...lazy, begun }
  }

  /** Who lies has no voice where most of those that answer can say otherwise: only there does it go on. */
  #looksForBeginning(isLooking: boolean): void {
    this.#isBeginning = isLooking
    if (!isLooking) return
    const areOthersThere = this.#upstreams.every(({ fault, isLiar }) => isLiar || fault === 'none')
    if (this.#upstreams.length === 3 && areOthersThere) return
    for (const one of this.#upstreams) if (one.isLiar) one.mend()
  }

  /** After a while; what goes wrong ends the history. */
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
    this.#tell?.(lineOf(this.#clock.now(), event, effects))
    this.#promises.hear(effects)
    this.#watch.applied(event, effects)
  }

  #kept(request: KeeperRequest): void {
    this.#promises.committed(request, this.#database)
    if (request.type === 'append' && this.#looks.chance(0.3)) this.#checkPromises()
  }

  #checkPromises(): ReadonlyMap<string, number> {
    return this.#promises.check(this.#database, WALL_MS + this.#clock.now())
  }

  #died(message = ''): void {
    this.#tell?.(`${this.#clock.now()} the process dies ${message}`)
    this.#watch.note('killed')
    if (message !== '') this.#watch.failed(message)
    this.#restarts++
    for (const feed of this.#feeds) feed.listen(undefined)
    this.#process = undefined
    this.#isBeginning = false
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
    // Fewer than half lie, and not the first of two: nobody could tell otherwise. The only one may, where roots are computed.
    const mayLie =
      isAlone &&
      !this.#isBeginning &&
      (this.#upstreams.length === 3 ||
        (others.length === 1 && at === 1) ||
        (others.length === 0 && !this.#isLazy))
    const mayFail = !this.#isBeginning || isAlone
    if (upstream.fault === 'none' && mayFail && random.chance(0.7)) await upstream.trouble(mayLie)
    else upstream.mend()
    this.#after(random.between(300, 2_500), () => this.#troubleUpstream())
  }

  /** One is of another chain, from the start or from a moment on: the others can tell, and nobody else lies any more. */
  async #leaveChain(): Promise<void> {
    const random = this.#stream('leaves')
    const { length } = this.#upstreams
    if (length === 1 || random.chance(0.4)) return
    const at = length === 2 ? 1 : random.below(length)
    if (!this.#canDoWithout(this.#upstreams[at]!)) return
    const leave = async (awayMs: number) => {
      this.#watch.note('leaves the chain')
      for (const one of this.#upstreams) if (one.isLiar) one.mend()
      await this.#upstreams[at]!.leaveChain(awayMs)
    }
    if (random.chance(0.8)) await leave(0)
    else
      this.#after(random.between(300, 6_000), () =>
        this.#isBeginning ? undefined : leave(random.below(1_500)),
      )
  }

  /** Some steps from now the process is dead. */
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

/** Of a seed: mostly everything a little, sometimes nothing, or one thing. */
function faultsOf(random: Random): FeedFaults {
  const kind = random.below(20)
  if (kind < 2) return NO_FAULTS
  const some = (most: number) => (random.chance(0.7) ? (random.below(100) / 100) * most : 0)
  // Nothing is lost but by a cut, which everybody sees.
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

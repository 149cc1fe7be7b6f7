/**
 * The followed chain: its sequencer's blocks and flashblocks, its reorgs, and the blocks on which
 * all upstreams agree.
 */

import {
  type GasRefund,
  isSigned,
  type Transaction,
} from '../../../engine/primitives/transaction.ts'
import { ancestorAt, type Draw, type DrawRefunds, type TrueBlock, type TrueChain } from './chain.ts'
import type { VirtualClock } from './clock.ts'
import type { Feed } from './feed.ts'
import type { Random } from './random.ts'
import { deployments, drawDeposit, drawTransaction } from './transactions.ts'

/** The block time of the chain; a flashblock comes each fifth of it. */
export const BLOCK_MS = 1_000
const FLASHBLOCK_MS = 200

export type NetworkOptions = {
  readonly chain: TrueChain
  readonly clock: VirtualClock
  readonly random: Random
  /** The stream draws refunds only. */
  readonly refunds: Random
  readonly feeds: readonly Feed[]
  readonly sendsEnds: boolean
  /** The final block is this far below the head. */
  readonly finalLag: number
  /** A payload that is visible up to its end is always sealed, and no reorg happens. */
  readonly isTrue: boolean
  /** The feeds mostly have competing payloads. */
  readonly hasCompeting: boolean
}

export class Network {
  head: TrueBlock
  /** The payload in progress, and the number of its sent flashblocks. */
  live: { readonly block: TrueBlock; sent: number } | undefined
  finalized: number
  /** The heads in order, because upstreams are late. */
  readonly seen: { readonly atMs: number; readonly head: TrueBlock }[] = []
  readonly #options: NetworkOptions
  #deposits = 0
  #silentRounds = 0
  #isTroubled = true
  #isRunning = false
  #reorgs: number[] = []
  #leap = 0

  constructor(options: NetworkOptions) {
    this.#options = options
    this.head = options.chain.genesis
    this.finalized = this.head.number
    this.#saw()
  }

  /** Makes blocks before a node follows. */
  async start(blocks: number): Promise<void> {
    const { chain, random } = this.#options
    const chainId = chain.spec.chainId
    const draw = ({ index }: Draw) => (index === 1 ? deployments(chainId, random) : [])
    this.head = await this.#made(chain.genesis, 2, draw)
    for (let at = 0; at < blocks; at++) this.head = await this.#plainBlock(this.head, blocks < 20)
    this.seen.length = 0
    this.#saw()
  }

  /** Plans the depths of reorgs at random moments, and the number of blocks that come at once. */
  plan(reorgs: readonly number[], leap: number): void {
    this.#reorgs = [...reorgs]
    this.#leap = leap
  }

  /** Runs a round for each block time. */
  async run(rounds: number): Promise<void> {
    this.#isRunning = true
    for (let round = 0; round < rounds; round++) {
      const isReorg = this.#reorgs.length > 0 && this.#options.random.chance(2 / (rounds - round))
      if (isReorg) await this.#reorg(this.#reorgs.shift()!)
      if (this.#leap > 0 && this.#options.random.chance(2 / (rounds - round))) {
        await this.#leapOver(this.#leap)
        this.#leap = 0
      }
      await this.#round()
    }
    this.#isRunning = false
  }

  get isRunning(): boolean {
    return this.#isRunning
  }

  /** Ends all faults of the chain. */
  calm(): void {
    this.#isTroubled = false
    this.#silentRounds = 0
  }

  /** Sends the first flashblocks of a block that is never sealed. */
  async leaveOpen(flashblocks: number): Promise<void> {
    const block = await this.#build(this.head)
    await this.#deliver(block, { to: this.#options.feeds, max: flashblocks })
  }

  async #round(): Promise<void> {
    const { random, feeds } = this.#options
    const before = this.head
    const kind = this.#isTroubled ? random.below(20) : 19
    const { isTrue, hasCompeting } = this.#options
    const areTwo = kind === 3 || (hasCompeting && this.#isTroubled)
    if (this.#silentRounds > 0 || kind === 0) await this.#silentRound()
    else if (kind <= 2) await this.#secondPayload()
    else if (areTwo && feeds.length > 1 && !isTrue) await this.#twoBuilders()
    else if (kind === 4 && !isTrue) await this.#brokenPromise()
    else {
      const block = await this.#build(before)
      await this.#deliver(block, { to: feeds })
      this.#seal(block)
    }
  }

  /** Seals a block without flashblocks. */
  async #silentRound(): Promise<void> {
    const { random, clock } = this.#options
    this.#silentRounds = this.#silentRounds > 0 ? this.#silentRounds - 1 : random.below(5)
    await clock.sleep(BLOCK_MS)
    this.#seal(await this.#build(this.head))
  }

  /** Starts one payload and replaces it by another one. */
  async #secondPayload(): Promise<void> {
    const { random, feeds, isTrue } = this.#options
    const first = await this.#build(this.head)
    const to = random.chance(0.5) ? feeds : [random.pick(feeds)]
    const max = random.between(1, first.parts.length - (isTrue ? 1 : 0))
    await this.#deliver(first, { to, max, isOnly: true })
    const second = await this.#build(this.head, first)
    await this.#deliver(second, { to: feeds })
    this.#seal(second)
  }

  /** Gives each feed another block. */
  async #twoBuilders(): Promise<void> {
    const { random, feeds } = this.#options
    const first = await this.#build(this.head)
    const second = await this.#build(this.head, first)
    const [one, ...others] = feeds
    await Promise.all([
      this.#deliver(first, { to: [one!] }),
      this.#deliver(second, { to: others, isOnly: true }),
    ])
    this.#seal(random.chance(0.5) ? first : second)
  }

  /** Seals another block than the promised one. */
  async #brokenPromise(): Promise<void> {
    const { random, feeds } = this.#options
    const promised = await this.#build(this.head)
    await this.#deliver(promised, { to: feeds, isOnly: random.chance(0.5) })
    this.#seal(await this.#build(this.head, promised))
  }

  /** Adds many blocks at once, as if the node had not looked for a long time. */
  async #leapOver(blocks: number): Promise<void> {
    let block = this.head
    for (let at = 0; at < blocks; at++) block = await this.#plainBlock(block, false)
    this.#seal(block)
  }

  async #reorg(depth: number): Promise<void> {
    const { random } = this.#options
    const min = Math.max(this.finalized, this.#options.chain.genesis.number + 1)
    let block = ancestorAt(this.head, Math.max(min, this.head.number - depth))!
    const blocks = Math.max(1, this.head.number - block.number + random.between(-1, 1))
    const isShort = depth < 8
    for (let at = 0; at < blocks; at++) block = await this.#plainBlock(block, isShort)
    this.#seal(block)
  }

  #seal(block: TrueBlock): void {
    this.head = block
    const { chain, finalLag } = this.#options
    const first = chain.genesis.number
    this.finalized = Math.max(this.finalized, block.number - finalLag, first)
    this.#saw()
  }

  #saw(): void {
    this.seen.push({ atMs: this.#options.clock.now(), head: this.head })
    if (this.seen.length > 30) this.seen.shift()
  }

  /** Sends one flashblock after another, and waits for the rest of the block time. */
  async #deliver(
    block: TrueBlock,
    deliver: { readonly to: readonly Feed[]; readonly max?: number; readonly isOnly?: boolean },
  ): Promise<void> {
    const { clock, sendsEnds, random } = this.#options
    const { to, max = block.parts.length } = deliver
    const live = { block, sent: 0 }
    if (deliver.isOnly !== true) this.live = live
    for (const part of block.parts.slice(0, max)) {
      const isLast = part === block.parts.at(-1)
      for (const feed of to) feed.sendPart(part, isLast)
      live.sent++
      await clock.sleep(random.between(FLASHBLOCK_MS - 60, FLASHBLOCK_MS))
    }
    if (max < block.parts.length) return
    const ms = BLOCK_MS - max * FLASHBLOCK_MS
    if (ms > 0) await clock.sleep(ms)
    if (sendsEnds) for (const feed of to) feed.sendEnd(block.payloadId)
  }

  /** Builds a block that repeats some transactions of `like`. */
  #build(parent: TrueBlock, like?: TrueBlock): Promise<TrueBlock> {
    const { random, clock } = this.#options
    const repeated = like?.executed.map(({ transaction }) => transaction).filter(isSigned) ?? []
    const flashblocks = random.between(2, 5)
    const built = this.#made(parent, flashblocks, ({ index, nonceOf }) => {
      const retained = index > 0 ? repeated.splice(0, random.below(3)) : []
      for (const { from } of retained) nonceOf(from)
      return random.chance(0.8) ? [...retained, ...this.#draw({ index, nonceOf })] : retained
    })
    return clock.during(built)
  }

  #plainBlock(parent: TrueBlock, isFull: boolean): Promise<TrueBlock> {
    const { random, clock } = this.#options
    const built = this.#made(parent, isFull ? 2 : 1, (draw) =>
      isFull && random.chance(0.7) ? this.#draw(draw) : [],
    )
    return clock.during(built)
  }

  #made(
    parent: TrueBlock,
    flashblocks: number,
    draw: (draw: Draw) => readonly Transaction[],
  ): Promise<TrueBlock> {
    const { chain, refunds: random } = this.#options
    return chain.build(parent, flashblocks, {
      draw,
      refunds: (plain) => drawRefunds(random, plain),
    })
  }

  #draw({ index, nonceOf }: Draw): readonly Transaction[] {
    const { random, chain } = this.#options
    if (index === 0)
      return random.chance(0.25) ? [drawDeposit(random, BigInt(++this.#deposits))] : []
    const { chainId } = chain.spec
    return Array.from({ length: random.between(0, 2) }, () =>
      drawTransaction(random, nonceOf, chainId),
    )
  }
}

/**
 * Draws refunds: mostly those of the flashblock before, with some for its own transactions.
 * Sometimes all of them change, or none are stated.
 */
function drawRefunds(random: Random, plain: Parameters<DrawRefunds>[0]): readonly GasRefund[][] {
  const gasOf = plain
    .flat()
    .map(({ transaction, gasUsed }) => (isSigned(transaction) ? gasUsed : 0n))
  const refunds = new Map<number, bigint>()
  const max = (gas: bigint) => random.pick([1n, gas, BigInt(random.between(1, Number(gas)))])
  let from = 0
  return plain.map(({ length }) => {
    const roll = random.below(20)
    for (let at = 0; at < from + length; at++) {
      const isNew = at >= from
      if (roll < 3) refunds.delete(at)
      else if (gasOf[at]! > 0n && random.chance(isNew ? 0.5 : roll < 9 ? 0.4 : 0)) {
        if (refunds.has(at) && random.chance(0.3)) refunds.delete(at)
        else refunds.set(at, max(gasOf[at]!))
      }
    }
    from += length
    return [...refunds]
      .toSorted(([one], [other]) => one - other)
      .map(([index, gasRefund]) => ({ index: BigInt(index), gasRefund }))
  })
}

/**
 * The embedded sequencer sends index 0 when the parent's final hash is known. Flashblocks follow on
 * ticks, and End at the seal. Transactions are executed as they arrive.
 * The sequencer is a state machine that is called when something is due. Clock, parent, txpool,
 * roots, journal and feed are its ports.
 */
import type { UpstreamBlock } from '../../chain/types.ts'
import { openBlock } from '../../execution/block/block.ts'
import type { BlockAttributes } from '../../execution/transaction/types.ts'
import { encodePacket } from '../../flashblocks/codec.ts'
import type { Outcomes } from '../../flashblocks/subblock.ts'
import type { FeedMessage } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { ViewError } from '../../state/reader.ts'
import { attributesAfter, attributesOf } from '../base-attributes.ts'
import { nextAttributes } from './attributes.ts'
import {
  type Building,
  FOR_PARENT,
  isSealed,
  isStillReplayed,
  NOW,
  nextDue,
  orClose,
  replayAll,
  reschedule,
  STANDING,
  VISIBLE_MS,
  type Wait,
} from './building.ts'
import { Controls, type Forced, type Machine } from './control-steps.ts'
import { Withheld } from './controls.ts'
import { executeFirst } from './first-transactions.ts'
import { Intake } from './intake.ts'
import { createPacketLog, type PacketLog, type RecordedBlock, type RecordedPacket } from './log.ts'
import { NextBlock } from './next-block.ts'
import { openPayload, type Payload, payloadIdOf } from './payload.ts'
import {
  type ChainClock,
  createChainClock,
  type Schedule,
  scheduleOf,
  timestampAfter,
} from './schedule.ts'
import type { FlashblockPosition, ParentBlock, SequencerOptions, SequencerPorts } from './types.ts'

export interface Sequencer {
  /** Performs the due work. Only one call may run at a time. */
  step(): Promise<Wait>
  /** The packets of the journal are sent again or dropped. */
  readonly isReplayed: boolean
  readonly newest: FlashblockPosition | undefined
  /**
   * Releases the parent's view. A block in progress continues from the journal at the next start.
   */
  close(): void
}

/** Complete blocks above the durable head at which no further block starts. */
export const MAX_LEAD = 4n
/** Blocks for which included transactions are remembered; the txpool knows of them by then. */
const REMEMBERED_BLOCKS = 4n

/** @param journalled packets of the journal at the start */
export function createSequencer(
  options: SequencerOptions,
  ports: SequencerPorts,
  journalled: Iterable<Bytes> = [],
): Sequencer {
  return new StateMachine(options, ports, createPacketLog(ports.journal, journalled))
}

class StateMachine implements Sequencer {
  readonly #options: SequencerOptions
  readonly #ports: SequencerPorts
  readonly #log: PacketLog
  readonly #clock: ChainClock
  readonly #intake: Intake
  readonly #next = new NextBlock()
  readonly #controls: Controls | undefined
  #isPaused = false
  readonly #withheld = new Withheld()
  /** Payload of which the feed lacks a flashblock, so that followers cannot show the rest. */
  #broken: string | undefined
  /** undefined: the next block waits for its parent or its time. */
  #building: Building | undefined
  #sealed: UpstreamBlock | undefined
  #newest: FlashblockPosition | undefined
  #isReplayed = false

  constructor(options: SequencerOptions, ports: SequencerPorts, log: PacketLog) {
    this.#options = options
    this.#ports = ports
    this.#log = log
    this.#clock = createChainClock(ports.now, options)
    this.#intake = new Intake({ ...options, ports, clock: this.#clock })
    this.#controls = ports.control && new Controls(this.#machine(), ports.control)
  }

  get isReplayed(): boolean {
    this.#isReplayed ||= this.#log.isSent
    return this.#isReplayed
  }

  get newest(): FlashblockPosition | undefined {
    return this.#newest
  }

  async step(): Promise<Wait> {
    try {
      const wait = await this.#controls?.step()
      if (wait !== undefined) return wait
      if (this.#isPaused) return STANDING
      return await (this.#building ? this.#proceed(this.#building) : this.#start())
    } catch (error) {
      if (!(error instanceof ViewError)) throw error
      // The packets are recorded, so the block starts again on a newer lease with the same prefix.
      this.#ports.count('view_gone', error.message)
      this.close()
      return FOR_PARENT
    }
  }

  close(): void {
    if (this.#building === undefined) return
    this.#intake.abandon(this.#building.payload)
    this.#end(this.#building)
  }

  #end(building: Building): void {
    building.payload.close()
    building.parent.release()
    this.#building = undefined
  }

  /** @param forced starts the block before its time */
  async #start(forced?: Forced): Promise<Wait> {
    const parent = this.#ports.leaseParent()
    try {
      const started = await this.#startOn(parent, forced)
      if ('until' in started) return started
      this.#building = started
      return NOW
    } finally {
      if (this.#building === undefined) parent.release()
    }
  }

  async #startOn(parent: ParentBlock, forced: Forced | undefined): Promise<Building | Wait> {
    const number = parent.header.number + 1n
    if (this.#sealed && !isSealed(parent.header, this.#sealed)) return FOR_PARENT
    if (number > parent.canonical + MAX_LEAD) return FOR_PARENT
    this.#clock.align(Number(parent.header.timestamp) * 1000)
    this.#log.forget(parent.canonical)
    this.#intake.forget(number - REMEMBERED_BLOCKS)
    const resumed = await this.#resume(parent, number)
    if (resumed) return resumed
    const fixed = this.#next.timestamp(parent.header.timestamp)
    const timestamp = fixed ?? timestampAfter(parent.header, this.#clock.now(), this.#options)
    if (forced !== undefined || fixed !== undefined)
      this.#clock.lead(Number(timestamp) * 1_000 - this.#options.blockTimeMs)
    const now = this.#clock.now()
    const { startAt } = scheduleOf(timestamp, now, this.#options)
    if (now < startAt) return { ms: startAt - now, until: 'time' }
    return this.#open(parent, timestamp, forced?.edits)
  }

  /** Resumes the recorded block of this height; undefined: no recorded block fits. */
  async #resume(parent: ParentBlock, number: bigint): Promise<Building | undefined> {
    const recorded = this.#log.find(number, parent.hash)
    if (recorded === undefined) return undefined
    const resumed =
      recorded === 'other'
        ? `its packets are not one payload on ${bytesToHex(parent.hash)}`
        : await this.#replay(parent, recorded)
    if (typeof resumed === 'object') return resumed
    this.#ports.count('journal_mismatch', `block ${number} is begun anew: ${resumed}`)
    this.#log.drop(number)
    return undefined
  }

  /** Opens the same payload with the same prefix; a text: how its packets differ from execution. */
  async #replay(parent: ParentBlock, recorded: RecordedBlock): Promise<Building | string> {
    const payload = await this.#openPayload(parent, attributesOf(recorded.base))
    return orClose(payload, async () => {
      const difference = await replayAll(payload, recorded.flashblocks)
      if (difference === undefined) return this.#resumed(parent, payload, recorded)
      payload.close()
      return difference
    })
  }

  #resumed(parent: ParentBlock, payload: Payload, recorded: RecordedBlock): Building {
    const { flashblocks } = recorded
    const { number, timestamp } = payload.execution.attributes
    for (const { transaction } of payload.execution.executed)
      this.#intake.include(number, transaction.hash)
    for (const packet of flashblocks) this.#send(packet)
    const now = this.#clock.now()
    const schedule = reschedule(scheduleOf(timestamp, now, this.#options), recorded)
    const replayed = { index: flashblocks.length - 1, until: now + VISIBLE_MS }
    return { ...this.#built(parent, payload, schedule), replayed }
  }

  /** Opens a block with index 0: base, L1-attributes deposit and deposits of users. */
  async #open(parent: ParentBlock, timestamp: bigint, edits: Forced['edits']): Promise<Building> {
    const { salt, gasLimit } = this.#next
    const attributes = nextAttributes(this.#options.chain, parent, { timestamp, salt, gasLimit })
    const payload = await this.#openPayload(parent, attributes)
    return orClose(payload, () => this.#openIndexZero(parent, payload, edits))
  }

  async #openIndexZero(
    parent: ParentBlock,
    payload: Payload,
    edits: Forced['edits'],
  ): Promise<Building> {
    const { execution } = payload
    const { attributes } = execution
    const { deposits } = this.#ports
    const deposited = await executeFirst(this.#options, execution, { deposits, edits })
    await this.#emitCut(payload, 0)
    this.#next.used()
    for (const one of deposited) deposits?.done(one)
    const { timestamp } = attributes
    return this.#built(parent, payload, scheduleOf(timestamp, this.#clock.now(), this.#options))
  }

  #built(parent: ParentBlock, payload: Payload, schedule: Schedule): Building {
    this.#intake.reset()
    const { firstAt } = schedule
    return { parent, payload, schedule, firstAt, lastAt: firstAt }
  }

  #openPayload(parent: ParentBlock, given: BlockAttributes): Promise<Payload> {
    const { chain, engine } = this.#options
    const attributes = attributesAfter(chain, parent.header, given)
    return openPayload({
      id: payloadIdOf(attributes),
      execution: openBlock({ engine, chain, reader: parent.reader, attributes }),
      withdrawalsRoot: parent.header.withdrawalsRoot,
      areSubblocks: this.#options.form === 'subblocks',
      roots: async (diff) => {
        const roots = await this.#ports.roots(parent.header.stateRoot, diff)
        if (!roots) this.#ports.count('root_missing', `block ${attributes.number}: no root in time`)
        return roots
      },
    })
  }

  async #proceed(building: Building): Promise<Wait> {
    const now = this.#clock.now()
    const { payload, schedule } = building
    const { sealAt, targetIndex } = schedule
    if (now >= sealAt) {
      if (isStillReplayed(building, now, this.#ports)) return FOR_PARENT
      // A tick was missed. Every transaction of a sealed block has to be in a flashblock.
      if (payload.uncut.length > 0) await this.#cut(building, sealAt)
      this.#seal(building)
      return NOW
    }
    const dueAt = nextDue(building, this.#options.flashblockTimeMs / 8)
    if (now >= dueAt) {
      building.firstAt = undefined
      building.lastAt = now
      await this.#intake.finish(payload, targetIndex)
      await this.#cut(building, dueAt)
      return NOW
    }
    if (dueAt === Number.POSITIVE_INFINITY) return { ms: sealAt - now, until: 'time' }
    const prefetchAt = this.#intake.prefetchAt(payload, targetIndex)
    if (now < prefetchAt) return { ms: Math.min(dueAt, sealAt, prefetchAt) - now, until: 'txpool' }
    await this.#intake.prefetch(payload, targetIndex)
    return NOW
  }

  async #cut({ payload, schedule }: Building, dueAt: number): Promise<void> {
    await this.#emitCut(payload, schedule.targetIndex)
    this.#ports.late(this.#clock.now() - dueAt)
  }

  /** @param capacity indices that may follow, which the target index announces */
  async #cutNow({ payload, schedule }: Building, capacity: number): Promise<void> {
    const index = payload.index + 1
    const targetIndex = Math.max(schedule.targetIndex, index + capacity)
    await this.#emitCut(payload, targetIndex)
  }

  /** Seals the block, with the txpool's transactions unless its target index is reached. */
  async #sealNow(building: Building, how?: 'asIs'): Promise<void> {
    const { payload, schedule } = building
    const isComplete = payload.index > 0 && payload.index >= schedule.targetIndex
    if (!isComplete && how !== 'asIs')
      await this.#intake.finish(payload, payload.index + 1, { isPatient: true })
    if (payload.uncut.length > 0) await this.#cutNow(building, 0)
    // The next block does not wait for the rest of this block's time.
    this.#clock.lead(Number(payload.execution.attributes.timestamp) * 1_000)
    this.#seal(building)
  }

  #seal(building: Building): void {
    const { parent, payload } = building
    const { number } = payload.execution.attributes
    const recorded = this.#log.find(number, parent.hash)
    if (typeof recorded === 'object' && recorded.end) this.#send(recorded.end)
    else this.#emit({ type: 'end', payloadId: payload.id }, number)
    this.#sealed = payload.upstreamBlock()
    this.#ports.seal(this.#sealed)
    this.#end(building)
  }

  async #emitCut(payload: Payload, targetIndex: number): Promise<void> {
    const message = await payload.cut(targetIndex)
    const outcomes = this.#options.form === 'subblocks' ? await payload.outcomes() : undefined
    this.#emit(message, payload.execution.attributes.number, outcomes)
  }

  #emit(message: FeedMessage, number: bigint, outcomes?: Outcomes): void {
    const packet = encodePacket(message, this.#options.form, outcomes)
    this.#log.append(number, packet, message)
    this.#send({ packet, message, isSent: false })
  }

  #send(recorded: RecordedPacket): void {
    if (recorded.isSent) return
    recorded.isSent = true
    const { packet, message } = recorded
    // The journal retains the End, so that no transaction is added to a sealed block after a
    // restart.
    if (message.type === 'end' && this.#options.form === 'subblocks') return
    if (this.#withheld.takes(message, this.#ports.now())) {
      this.#broken = message.payloadId
      return
    }
    this.#ports.send(packet, message)
    if (message.type === 'flashblock')
      this.#newest = { number: Number(message.blockNumber), index: message.index }
  }

  #machine(): Machine {
    const machine = this
    return {
      ports: this.#ports,
      next: this.#next,
      clock: this.#clock,
      get building() {
        return machine.#building
      },
      get isPaused() {
        return machine.#isPaused
      },
      set isPaused(isPaused) {
        machine.#isPaused = isPaused
      },
      get newest() {
        return machine.#newest
      },
      start: (edits) => machine.#start({ edits }),
      async flashblock(building) {
        const { payload } = building
        await machine.#intake.finish(payload, payload.index + 1, { isPatient: true })
        await machine.#cutNow(building, 1)
      },
      seal: (building, how) => machine.#sealNow(building, how),
      isHead: (header) => machine.#sealed === undefined || isSealed(header, machine.#sealed),
      takeBack: ({ payload }, from) => machine.#intake.takeBack(payload, from),
      async recut(building) {
        machine.#broken = building.payload.id
        await machine.#cutNow(building, 1)
      },
      isBroken: (payloadId) => machine.#broken === payloadId,
      restart: (building, salt) => machine.#restart(building, salt),
      goBack(number, salt) {
        machine.close()
        machine.#log.drop(number)
        machine.#intake.goBack(number)
        machine.#sealed = undefined
        machine.#next.salt = salt
      },
      withhold: (what) => machine.#withheld.add(what, machine.#ports.now()),
    }
  }

  async #restart({ parent, payload }: Building, salt: Bytes): Promise<void> {
    const { number, timestamp } = payload.execution.attributes
    this.#log.drop(number)
    this.#next.salt = salt
    payload.close()
    this.#building = undefined
    try {
      this.#building = await this.#open(parent, timestamp, undefined)
    } finally {
      if (this.#building === undefined) parent.release()
    }
  }
}

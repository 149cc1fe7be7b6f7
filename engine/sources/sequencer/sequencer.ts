/**
 * The embedded sequencer: index 0 when the parent's final hash is known, the rest on ticks, End at the seal; transactions are executed
 * as they arrive. A state machine that is called when something is due; clock, parent, pool, roots, journal and feed are given to it.
 */
import type { SealedBlock } from '../../chain/types.ts'
import { openBlock } from '../../execution/block/block.ts'
import type { BlockAttributes } from '../../execution/transaction/types.ts'
import { encodePacket } from '../../flashblocks/codec.ts'
import type { FeedMessage } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { equalBytes } from '../../primitives/words.ts'
import { ViewError } from '../../state/reader.ts'
import { attributesOf } from '../base-attributes.ts'
import { attributesDeposit, nextAttributes } from './attributes.ts'
import { Intake } from './intake.ts'
import { createPacketLog, type PacketLog, type RecordedBlock, type RecordedPacket } from './log.ts'
import { openPayload, type Payload, payloadIdOf } from './payload.ts'
import {
  type ChainClock,
  createChainClock,
  nextTimestamp,
  punctualTimestamp,
  type Schedule,
  scheduleOf,
} from './schedule.ts'
import type { FlashblockPlace, ParentBlock, SequencerOptions, SequencerPorts } from './types.ts'
import { executeDeposits } from './user-deposits.ts'

/** Call again after `ms`, earlier when what `until` says may have come: another complete head, or news of the pool. */
export type Wait = { readonly ms: number; readonly until: 'parent' | 'pool' | 'time' }

export interface Sequencer {
  /** Does what is due. One call at a time. */
  step(): Promise<Wait>
  /** What the journal held is sent again, or dropped. */
  readonly isReplayed: boolean
  /** The newest flashblock that was sent. */
  readonly newest: FlashblockPlace | undefined
  /** Lets go of the parent's view. A block in progress goes on from the journal at the next start. */
  close(): void
}

/** How often the complete head is looked at while nothing says that it moved. */
export const POLL_MS = 20
/** Complete blocks above the durable head at which no further one is begun. */
export const MAX_AHEAD = 4n
/** Blocks for which included transactions are remembered: the pool knows by then. */
const REMEMBERED_BLOCKS = 4n

type Building = {
  readonly parent: ParentBlock
  readonly payload: Payload
  readonly schedule: Schedule
  /** When the next flashblock is due; undefined: on a tick. */
  firstAt: number | undefined
  /** When the newest flashblock was begun, in chain time. */
  lastAt: number
  /** Flashblocks of an earlier run of the process: up to this index, waited for until this chain time. */
  readonly replayed?: { readonly index: number; readonly until: number }
}

/** `journalled`: packets that the journal held at the start. */
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
  /** undefined: the next block waits for its parent or its time. */
  #building: Building | undefined
  /** The block sealed last. */
  #sealed: SealedBlock | undefined
  #newest: FlashblockPlace | undefined
  #isReplayed = false

  constructor(options: SequencerOptions, ports: SequencerPorts, log: PacketLog) {
    this.#options = options
    this.#ports = ports
    this.#log = log
    this.#clock = createChainClock(ports.now, options)
    const { flashblockTimeMs } = options
    this.#intake = new Intake({ ports, clock: this.#clock, flashblockTimeMs })
  }

  get isReplayed(): boolean {
    this.#isReplayed ||= this.#log.isSent
    return this.#isReplayed
  }

  get newest(): FlashblockPlace | undefined {
    return this.#newest
  }

  async step(): Promise<Wait> {
    try {
      return await (this.#building ? this.#proceed(this.#building) : this.#begin())
    } catch (error) {
      if (!(error instanceof ViewError)) throw error
      // The packets are recorded: the block is begun again on a newer lease, with the same prefix.
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

  async #begin(): Promise<Wait> {
    const parent = this.#ports.leaseParent()
    try {
      const begun = await this.#beginOn(parent)
      if ('until' in begun) return begun
      this.#building = begun
      return NOW
    } finally {
      if (this.#building === undefined) parent.release()
    }
  }

  async #beginOn(parent: ParentBlock): Promise<Building | Wait> {
    const number = parent.header.number + 1n
    if (this.#sealed && !isSealed(parent.header, this.#sealed)) return FOR_PARENT
    if (number > parent.canonical + MAX_AHEAD) return FOR_PARENT
    this.#clock.align(Number(parent.header.timestamp) * 1000)
    this.#log.forget(parent.canonical)
    this.#intake.forget(number - REMEMBERED_BLOCKS)
    const resumed = await this.#resume(parent, number)
    if (resumed) return resumed
    const now = this.#clock.now()
    const isSecond = parent.header.number === this.#options.chain.genesisNumber + 1n
    const timestampOf = isSecond ? punctualTimestamp : nextTimestamp
    const timestamp = timestampOf(parent.header.timestamp, now, this.#options)
    const { beginAt } = scheduleOf(timestamp, now, this.#options)
    if (now < beginAt) return { ms: beginAt - now, until: 'time' }
    return this.#open(parent, timestamp)
  }

  /** The block that the log has for this height; undefined: none that fits. */
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

  /** The same payload with the same prefix; a text: how its packets differ from what execution gives. */
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
    const { flashblocks, end } = recorded
    const { number, timestamp } = payload.execution.attributes
    for (const { transaction } of payload.execution.executed)
      this.#intake.include(number, transaction.hash)
    for (const packet of flashblocks) this.#send(packet)
    const now = this.#clock.now()
    const planned = scheduleOf(timestamp, now, this.#options)
    const targetIndex = flashblocks.reduce((last, { message }) => message.targetIndex || last, 0)
    const schedule = {
      ...planned,
      // What was announced is the end of the payload to everyone who follows it.
      targetIndex: targetIndex || planned.targetIndex,
      sealAt: end ? Number.NEGATIVE_INFINITY : planned.sealAt,
    }
    const replayed = { index: flashblocks.length - 1, until: now + SHOWN_MS }
    return { ...this.#built(parent, payload, schedule), replayed }
  }

  /**
   * The canonical block comes to a writer by another road than flashblocks, and overtakes them where there is much to execute at once.
   * What was shown before the process died would then never be shown again in the steps in which it was.
   */
  #isStillReplayed({ replayed, payload }: Building, now: number): boolean {
    if (replayed === undefined || now >= replayed.until) return false
    const { number } = payload.execution.attributes
    return !this.#ports.isShown({ number: Number(number), index: replayed.index })
  }

  /** Index 0: the base, the L1-attributes deposit, deposits of users. */
  async #open(parent: ParentBlock, timestamp: bigint): Promise<Building> {
    const attributes = nextAttributes(this.#options.chain, parent, timestamp)
    const payload = await this.#openPayload(parent, attributes)
    return orClose(payload, () => this.#openIndexZero(parent, payload))
  }

  async #openIndexZero(parent: ParentBlock, payload: Payload): Promise<Building> {
    const { chain, l1 } = this.#options
    const { attributes } = payload.execution
    const done = await payload.execution.execute(attributesDeposit(chain, attributes, l1))
    if (done.status !== 'executed')
      throw new Error(`block ${attributes.number}: the L1-attributes deposit does not execute`)
    const { deposits } = this.#ports
    const deposited = await executeDeposits(chain, payload.execution, deposits?.take() ?? [])
    this.#emit(await payload.cut(0), attributes.number)
    for (const one of deposited) deposits?.done(one)
    const { timestamp } = attributes
    return this.#built(parent, payload, scheduleOf(timestamp, this.#clock.now(), this.#options))
  }

  #built(parent: ParentBlock, payload: Payload, schedule: Schedule): Building {
    this.#intake.reset()
    const { firstAt } = schedule
    return { parent, payload, schedule, firstAt, lastAt: firstAt }
  }

  #openPayload(parent: ParentBlock, attributes: BlockAttributes): Promise<Payload> {
    const { chain, engine } = this.#options
    return openPayload({
      id: payloadIdOf(attributes),
      execution: openBlock({ engine, chain, reader: parent.reader, attributes }),
      withdrawalsRoot: parent.header.withdrawalsRoot,
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
      if (this.#isStillReplayed(building, now)) return FOR_PARENT
      // A tick that was missed: nothing is in the block that no flashblock told.
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
    const aheadAt = this.#intake.aheadAt(payload, targetIndex)
    if (now < aheadAt) return { ms: Math.min(dueAt, sealAt, aheadAt) - now, until: 'pool' }
    await this.#intake.ahead(payload, targetIndex)
    return NOW
  }

  async #cut({ payload, schedule }: Building, dueAt: number): Promise<void> {
    this.#emit(await payload.cut(schedule.targetIndex), payload.execution.attributes.number)
    this.#ports.late(this.#clock.now() - dueAt)
  }

  #seal(building: Building): void {
    const { parent, payload } = building
    const { number } = payload.execution.attributes
    const recorded = this.#log.find(number, parent.hash)
    if (typeof recorded === 'object' && recorded.end) this.#send(recorded.end)
    else this.#emit({ type: 'end', payloadId: payload.id }, number)
    this.#sealed = payload.sealed()
    this.#ports.seal(this.#sealed)
    this.#end(building)
  }

  #emit(message: FeedMessage, number: bigint): void {
    const packet = encodePacket(message, this.#options.form)
    this.#log.append(number, packet, message)
    this.#send({ packet, message, isSent: false })
  }

  #send(recorded: RecordedPacket): void {
    if (recorded.isSent) return
    recorded.isSent = true
    this.#ports.send(recorded.packet)
    const { message } = recorded
    if (message.type === 'flashblock')
      this.#newest = { number: Number(message.blockNumber), index: message.index }
  }
}

/** A text: how one of the packets differs from what execution gives. */
async function replayAll(
  payload: Payload,
  flashblocks: RecordedBlock['flashblocks'],
): Promise<string | undefined> {
  for (const { message } of flashblocks) {
    const difference = await payload.replay(message)
    if (difference !== undefined) return difference
  }
  return undefined
}

/** A payload that comes to nothing is closed here. */
async function orClose<T>(payload: Payload, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    payload.close()
    throw error
  }
}

const NOW: Wait = { ms: 0, until: 'time' }
/** Milliseconds that a replayed block waits to be shown before it is sealed: a machine that is slower than that shows it whole. */
const SHOWN_MS = 3_000
const FOR_PARENT: Wait = { ms: POLL_MS, until: 'parent' }

/** Infinity: no further flashblock. */
function nextDue({ payload, schedule, firstAt, lastAt }: Building, apart: number): number {
  if (payload.index >= schedule.targetIndex) return Number.POSITIVE_INFINITY
  if (firstAt !== undefined) return firstAt
  return schedule.ticks.find((tick) => tick >= lastAt + apart) ?? Number.POSITIVE_INFINITY
}

/** Whether the complete head is the block that was sealed last, in its final form. */
const isSealed = (header: Header, block: SealedBlock) =>
  header.number === BigInt(block.number) &&
  header.timestamp === block.timestamp &&
  header.gasUsed === block.gasUsed &&
  equalBytes(header.parentHash, block.parentHash) &&
  equalBytes(header.receiptsRoot, block.receiptsRoot)

/**
 * Execution of controls. Each is a sequence of sequencer steps and waits, during which the chain
 * does nothing else.
 */

import type { AccountEdit } from '../../execution/transaction/edits.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import { ViewError } from '../../state/reader.ts'
import type { StoredHead } from '../../storage/types.ts'
import { type Building, FOR_PARENT, NOW, type Wait } from './building.ts'
import {
  type Control,
  ControlError,
  type Controlled,
  type ControlPort,
  EvmSnapshots,
} from './controls.ts'
import type { NextBlock } from './next-block.ts'
import type { ChainClock } from './schedule.ts'
import type { FlashblockPosition, ParentBlock, SequencerPorts } from './types.ts'

/** Access of the controls to the sequencer. */
export interface Machine {
  readonly ports: SequencerPorts
  readonly next: NextBlock
  readonly clock: ChainClock
  readonly building: Building | undefined
  /** While this is true, no timer starts, cuts or seals a block. */
  isPaused: boolean
  readonly newest: FlashblockPosition | undefined
  /**
   * Starts the next block early, with these edits or with deposits. No block is started while its
   * parent is not ready.
   */
  start(edits?: readonly AccountEdit[]): Promise<Wait>
  /** Cuts one more flashblock with the transactions that wait in the txpool. */
  flashblock(building: Building): Promise<void>
  /** Seals the block with the transactions that wait in the txpool; `asIs`: without them. */
  seal(building: Building, how?: 'asIs'): Promise<void>
  /** Whether the last sealed block, if any, has this header. */
  isHead(header: Header): boolean
  /**
   * Takes back flashblocks from this index (above 0) on, and returns the hashes of their signed
   * transactions.
   */
  takeBack(building: Building, from: number): readonly Bytes[]
  /** Cuts another flashblock in place of one that was sent. */
  recut(building: Building): Promise<void>
  /** Whether followers cannot show the rest of this payload. */
  isBroken(payloadId: string): boolean
  /**
   * Starts another payload on the same leased parent. A new lease could be of the first payload,
   * which may already look complete.
   */
  restart(building: Building, salt: Bytes): Promise<void>
  /** Drops everything from this height on. The salt makes other blocks there. */
  goBack(number: bigint, salt: Bytes): void
  /** Withholds the next flashblocks, or every frame for some time, from feeds. */
  withhold(what: { readonly gaps?: number; readonly ms?: number }): void
}

/** An early start of a block; `edits`: the block has nothing else. */
export type Forced = { readonly edits: readonly AccountEdit[] | undefined }

type Steps = AsyncGenerator<Wait, Controlled>

/**
 * Milliseconds until a block becomes canonical, and until a flashblock is visible, on any machine.
 */
const TIMEOUT_MS = 20_000
const VISIBLE_MS = 2_000

export class Controls {
  readonly #machine: Machine
  readonly #port: ControlPort
  readonly #snapshots = new EvmSnapshots()
  #running: { readonly request: number; readonly steps: Steps } | undefined

  constructor(machine: Machine, port: ControlPort) {
    this.#machine = machine
    this.#port = port
  }

  /**
   * Runs one step of the current control; undefined: no control waits.
   * @throws {ViewError}
   */
  async step(): Promise<Wait | undefined> {
    this.#running ??= this.#next()
    if (this.#running === undefined) return undefined
    const { request, steps } = this.#running
    try {
      const { done, value } = await steps.next()
      if (done !== true) return value
      this.#end({ request, done: value })
      return NOW
    } catch (error) {
      if (!(error instanceof ControlError) && !(error instanceof ViewError)) throw error
      this.#end({ request, reason: error.message })
      if (error instanceof ViewError) throw error
      return NOW
    }
  }

  #next() {
    const next = this.#port.next()
    if (next !== undefined) {
      const on = { machine: this.#machine, port: this.#port, snapshots: this.#snapshots }
      return { request: next.request, steps: carryOut(on, next.control) }
    }
    const { isPaused, ports } = this.#machine
    // While the chain is paused, deposits need a block of their own, because no other block would
    // start.
    const isWaiting = isPaused && (ports.deposits?.take().length ?? 0) > 0
    return isWaiting ? { request: 0, steps: deposit(this.#machine) } : undefined
  }

  #end(response: Parameters<ControlPort['done']>[0]): void {
    this.#running = undefined
    if (response.request > 0) this.#port.done(response)
  }
}

type On = {
  readonly machine: Machine
  readonly port: ControlPort
  readonly snapshots: EvmSnapshots
}

function carryOut(on: On, control: Control): Steps {
  const { machine, port } = on
  switch (control.type) {
    case 'pause':
      return pause(machine)
    case 'resume':
      return resume(machine)
    case 'step':
      return step(machine)
    case 'seal':
      return seal(machine)
    case 'mine':
      return mine(machine, control)
    case 'time':
      return setTime(machine, control)
    case 'reorg':
      return reorg(machine, port, control)
    case 'gasLimit':
      return atOnce(() => {
        machine.next.gasLimit = control.gasLimit
      })
    case 'snapshot':
      return snapshot(on)
    case 'revert':
      return revert(on, control.id)
    case 'edit':
      return edit(machine, control.edits)
    case 'gap':
      return atOnce(() => machine.withhold({ gaps: 1 }))
    case 'silence':
      return atOnce(() => machine.withhold({ ms: control.ms }))
    case 'equivocate':
      return equivocate(machine, control)
  }
}

async function* pause(machine: Machine): Steps {
  machine.isPaused = true
  if (machine.building !== undefined) await machine.seal(machine.building)
  return { head: yield* canonical(machine) }
}

async function* resume(machine: Machine): Steps {
  if (machine.isPaused && machine.building !== undefined) await machine.seal(machine.building)
  machine.isPaused = false
  return { head: yield* canonical(machine) }
}

async function* step(machine: Machine): Steps {
  if (!machine.isPaused) throw new ControlError('the chain is not paused: dev_pause first')
  const { building } = machine
  if (building === undefined) yield* started(machine)
  else await machine.flashblock(building)
  return { position: yield* untilVisible(machine) }
}

async function* seal(machine: Machine): Steps {
  await machine.seal(machine.building ?? (yield* started(machine)))
  return { head: yield* canonical(machine) }
}

async function* mine(
  machine: Machine,
  { blocks, interval }: Extract<Control, { readonly type: 'mine' }>,
): Steps {
  // A block that started at another time does not have the requested values.
  if (machine.building !== undefined && machine.next.isOther) await machine.seal(machine.building)
  for (let made = 0; made < blocks; made++) {
    if (made > 0 && interval !== undefined) {
      const by = BigInt(interval)
      machine.next.setTime({ type: 'time', by }, newestTimestamp(machine))
    }
    await machine.seal(machine.building ?? (yield* started(machine)))
    yield* canonical(machine)
  }
  return { head: yield* canonical(machine) }
}

async function* setTime(
  machine: Machine,
  control: Extract<Control, { readonly type: 'time' }>,
): Steps {
  yield* canonical(machine)
  const newest = newestTimestamp(machine)
  machine.next.setTime(control, newest)
  const next = machine.next.timestamp(newest)
  const now = BigInt(Math.floor(machine.ports.now() / 1_000))
  return { aheadSeconds: next === undefined || next < now ? 0 : Number(next - now) }
}

async function* deposit(machine: Machine): Steps {
  if (machine.building !== undefined) await machine.seal(machine.building)
  yield* started(machine)
  return {}
}

async function* reorg(
  machine: Machine,
  port: ControlPort,
  { depth, isRequeued }: Extract<Control, { readonly type: 'reorg' }>,
): Steps {
  const { building } = machine
  if (depth === 0 && building === undefined) throw new ControlError('no block is in progress')
  const head = yield* canonical(machine)
  const to = head.number - depth
  const finalized = port.finalized()
  if (to < finalized)
    throw new ControlError(
      `block ${finalized} is final, and the newest is ${head.number}: at most ${head.number - finalized} blocks can be taken back`,
    )
  if (!port.isUnfoldable(to))
    throw new ControlError(`what block ${to + 1} replaced is not kept any more`)
  const [target, ...removed] = port.blocksFrom(to)
  if (target === undefined) throw new ControlError(`block ${to} is not there`)
  const inProgress = building === undefined ? [] : machine.takeBack(building, 1)
  const dropped = [...removed.flatMap(({ transactions }) => transactions), ...inProgress]
  if (!isRequeued) drop(machine, dropped)
  if (building === undefined || depth > 0) yield* goBack({ machine, port }, target)
  else {
    await machine.restart(building, port.salt())
    yield* untilVisible(machine)
  }
  return { head: target, removed: removed.map(({ hash }) => hash).toReversed(), dropped }
}

async function* goBack(
  { machine, port }: Pick<On, 'machine' | 'port'>,
  to: StoredHead,
): AsyncGenerator<Wait, void> {
  machine.goBack(BigInt(to.number) + 1n, port.salt())
  port.rewind(to)
  yield* canonical(machine, to)
  const until = machine.ports.now() + TIMEOUT_MS
  while (!port.isFlat() && machine.ports.now() < until) yield FOR_PARENT
}

async function* snapshot({ machine, port, snapshots }: On): Steps {
  if (machine.building !== undefined) await machine.seal(machine.building)
  const head = yield* canonical(machine)
  const id = snapshots.add({ head, offsetMs: machine.clock.offsetMs })
  port.pin(snapshots.oldest())
  return { head, snapshot: id }
}

async function* revert({ machine, port, snapshots }: On, id: number): Steps {
  const found = snapshots.get(id)
  yield* canonical(machine)
  const [target, ...removed] = found === undefined ? [] : port.blocksFrom(found.head.number)
  const isThere = target !== undefined && equalBytes(target.hash, found!.head.hash)
  if (isThere && (target.number < port.finalized() || !port.isUnfoldable(target.number)))
    throw new ControlError(`the snapshot is lost: block ${port.finalized()} is final by now`)
  snapshots.delete(id)
  port.pin(snapshots.oldest())
  if (!isThere) return { isReverted: false }
  const { building } = machine
  const inProgress = building === undefined ? [] : machine.takeBack(building, 1)
  drop(machine, [...removed.flatMap(({ transactions }) => transactions), ...inProgress])
  yield* goBack({ machine, port }, target)
  machine.next.used()
  machine.clock.restore(found!.offsetMs)
  return { head: target, isReverted: true }
}

async function* equivocate(
  machine: Machine,
  { isRequeued }: Extract<Control, { readonly type: 'equivocate' }>,
): Steps {
  const { building } = machine
  if (building === undefined) throw new ControlError('no block is in progress')
  const { payload } = building
  const from = payload.newestFilled()
  if (from === undefined)
    throw new ControlError('no flashblock of the block in progress has transactions')
  yield* untilVisible(machine)
  const last = payload.index
  const dropped = machine.takeBack(building, from)
  if (!isRequeued) drop(machine, dropped)
  while (payload.index < last) await machine.recut(building)
  return { position: { number: Number(payload.execution.attributes.number), index: from }, dropped }
}

async function* edit(machine: Machine, edits: readonly AccountEdit[]): Steps {
  if (machine.building !== undefined) await machine.seal(machine.building)
  const building = yield* started(machine, edits)
  const status = building.payload.execution.executed.at(-1)?.receipt.status
  await machine.seal(building, 'asIs')
  const head = yield* canonical(machine)
  if (status !== 1)
    throw new ControlError(
      'an account without balance, nonce and code is none and has no storage: give it one of them first',
    )
  return { head }
}

function drop({ ports }: Machine, hashes: readonly Bytes[]): void {
  const reason = 'its block was taken back'
  if (hashes.length > 0) ports.reject(hashes.map((hash) => ({ hash, reason, isUnwanted: true })))
}

async function* atOnce(work: () => void): Steps {
  yield NOW
  work()
  return {}
}

async function* started(
  machine: Machine,
  edits?: readonly AccountEdit[],
): AsyncGenerator<Wait, Building> {
  const until = machine.ports.now() + TIMEOUT_MS
  for (;;) {
    const wait = await machine.start(edits)
    if (machine.building !== undefined) return machine.building
    if (machine.ports.now() > until) throw new ControlError('the block before is not canonical yet')
    yield wait
  }
}

/**
 * Waits until the newest sealed block is canonical, and returns it. With a block in progress the
 * result is its parent, because that block may already look complete.
 * @param head the block to wait for; by default the last sealed one
 */
async function* canonical(machine: Machine, head?: StoredHead): AsyncGenerator<Wait, StoredHead> {
  const until = machine.ports.now() + TIMEOUT_MS
  const { building } = machine
  const below = building && headOf(building.parent)
  for (;;) {
    const parent = machine.ports.leaseParent()
    const { header, canonical } = parent
    const newest = headOf(parent)
    const isIt = head === undefined ? machine.isHead(header) : equalBytes(head.hash, newest.hash)
    parent.release()
    if (head === undefined && below !== undefined) {
      if (canonical >= BigInt(below.number)) return below
    } else if (isIt && canonical === header.number) return newest
    if (machine.ports.now() > until) throw new ControlError('the newest block is not canonical yet')
    yield FOR_PARENT
  }
}

const headOf = ({ header, hash }: Pick<ParentBlock, 'header' | 'hash'>): StoredHead => ({
  number: Number(header.number),
  hash: hash.slice(),
})

/** Waits until the newest flashblock is visible, if a feed has it. */
async function* untilVisible(machine: Machine): AsyncGenerator<Wait, FlashblockPosition> {
  const { payload } = machine.building!
  const position = { number: Number(payload.execution.attributes.number), index: payload.index }
  const until = machine.ports.now() + VISIBLE_MS
  const { newest } = machine
  const isSent =
    newest?.number === position.number &&
    newest.index === position.index &&
    !machine.isBroken(payload.id)
  const isVisible = () => machine.ports.isVisible(position, payload.id)
  while (isSent && !isVisible() && machine.ports.now() < until) yield FOR_PARENT
  return position
}

function newestTimestamp({ building, ports }: Machine): bigint {
  if (building !== undefined) return building.payload.execution.attributes.timestamp
  const parent = ports.leaseParent()
  parent.release()
  return parent.header.timestamp
}

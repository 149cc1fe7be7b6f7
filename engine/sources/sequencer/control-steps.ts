/** How controls are carried out: each is a few steps of the sequencer, with waits between them in which nothing else happens to the chain. */

import type { AccountEdit } from '../../execution/transaction/edits.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import { ViewError } from '../../state/reader.ts'
import type { StoredHead } from '../../storage/types.ts'
import { type Building, FOR_PARENT, NOW, type Wait } from './building.ts'
import { type Control, ControlError, type Controlled, type ControlPort } from './controls.ts'
import type { NextBlock } from './next-block.ts'
import type { ChainClock } from './schedule.ts'
import { Snapshots } from './snapshots.ts'
import type { FlashblockPlace, ParentBlock, SequencerPorts } from './types.ts'

/** What of the sequencer they move. */
export interface Machine {
  readonly ports: SequencerPorts
  readonly next: NextBlock
  readonly clock: ChainClock
  readonly building: Building | undefined
  /** Nothing is done because its time has come. */
  isPaused: boolean
  /** The newest flashblock that was sent. */
  readonly newest: FlashblockPlace | undefined
  /** The next block, before its time, with these edits or with deposits; where its parent is not there yet none is begun. */
  begin(edits?: readonly AccountEdit[]): Promise<Wait>
  /** One more, with what waits in the txpool. */
  flashblock(building: Building): Promise<void>
  /** The same for the rest of the block; `asIs`: nothing more is to be in it. */
  seal(building: Building, how?: 'asIs'): Promise<void>
  /** Whether the block that was sealed last, if any, is the one with this header. */
  isHead(header: Header): boolean
  /** Flashblocks from this one on, which is above index 0: gives the hashes of what somebody has sent. */
  takeBack(building: Building, from: number): readonly Bytes[]
  /** A flashblock of what is there, in the place of one that was sent. */
  recut(building: Building): Promise<void>
  /** Followers cannot show what comes of this payload. */
  isBroken(payloadId: string): boolean
  /** Another payload on the same parent, whose state is held: readers may take the first one for complete already. */
  beginAgain(building: Building, salt: Bytes): Promise<void>
  /** Nothing from this height on was ever made, and what is made there will be something else. */
  goBack(number: bigint, salt: Bytes): void
  /** No feed gets the next flashblocks, or anything for so long. */
  withhold(what: { readonly gaps?: number; readonly ms?: number }): void
}

/** A block that is begun before its time; `edits`: with them alone. */
export type Forced = { readonly edits: readonly AccountEdit[] | undefined }

type Steps = AsyncGenerator<Wait, Controlled>

/** Milliseconds in which a block becomes canonical, or a flashblock is shown, on any machine. */
const PATIENCE_MS = 20_000
const SHOWN_MS = 2_000

/** Carries out one after the other. */
export class Controls {
  readonly #machine: Machine
  readonly #port: ControlPort
  readonly #snapshots = new Snapshots()
  #running: { readonly request: number; readonly steps: Steps } | undefined

  constructor(machine: Machine, port: ControlPort) {
    this.#machine = machine
    this.#port = port
  }

  /** One step of the control in hand; undefined: nobody wants anything. @throws {ViewError} */
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
    // What waits for the next block would wait for ever.
    const isWaiting = isPaused && (ports.deposits?.take().length ?? 0) > 0
    return isWaiting ? { request: 0, steps: deposit(this.#machine) } : undefined
  }

  #end(answer: Parameters<ControlPort['done']>[0]): void {
    this.#running = undefined
    if (answer.request > 0) this.#port.done(answer)
  }
}

type On = {
  readonly machine: Machine
  readonly port: ControlPort
  readonly snapshots: Snapshots
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
  if (building === undefined) yield* begun(machine)
  else await machine.flashblock(building)
  return { place: yield* shown(machine) }
}

async function* seal(machine: Machine): Steps {
  await machine.seal(machine.building ?? (yield* begun(machine)))
  return { head: yield* canonical(machine) }
}

async function* mine(
  machine: Machine,
  { blocks, interval }: Extract<Control, { readonly type: 'mine' }>,
): Steps {
  // One that was begun at another time is not the block that was asked for.
  if (machine.building !== undefined && machine.next.isOther) await machine.seal(machine.building)
  for (let made = 0; made < blocks; made++) {
    if (made > 0 && interval !== undefined) {
      const by = BigInt(interval)
      machine.next.setTime({ type: 'time', by }, newestTimestamp(machine))
    }
    await machine.seal(machine.building ?? (yield* begun(machine)))
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
  yield* begun(machine)
  return {}
}

async function* reorg(
  machine: Machine,
  port: ControlPort,
  { depth, isKept }: Extract<Control, { readonly type: 'reorg' }>,
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
  if (!port.isKept(to)) throw new ControlError(`what block ${to + 1} replaced is not kept any more`)
  const [target, ...removed] = port.blocksFrom(to)
  if (target === undefined) throw new ControlError(`block ${to} is not there`)
  const inProgress = building === undefined ? [] : machine.takeBack(building, 1)
  const dropped = [...removed.flatMap(({ transactions }) => transactions), ...inProgress]
  if (!isKept) drop(machine, dropped)
  if (building === undefined || depth > 0) yield* goBack({ machine, port }, target)
  else {
    await machine.beginAgain(building, port.salt())
    yield* shown(machine)
  }
  return { head: target, removed: removed.map(({ hash }) => hash).toReversed(), dropped }
}

/** What stands on this block was never made. */
async function* goBack(
  { machine, port }: Pick<On, 'machine' | 'port'>,
  to: StoredHead,
): AsyncGenerator<Wait, void> {
  machine.goBack(BigInt(to.number) + 1n, port.salt())
  port.rewind(to)
  yield* canonical(machine, to)
  const until = machine.ports.now() + PATIENCE_MS
  while (!port.isFlat() && machine.ports.now() < until) yield FOR_PARENT
}

async function* snapshot({ machine, port, snapshots }: On): Steps {
  if (machine.building !== undefined) await machine.seal(machine.building)
  const head = yield* canonical(machine)
  const id = snapshots.add({ head, aheadMs: machine.clock.aheadMs })
  port.pin(snapshots.oldest())
  return { head, snapshot: id }
}

async function* revert({ machine, port, snapshots }: On, id: number): Steps {
  const found = snapshots.get(id)
  yield* canonical(machine)
  const [target, ...removed] = found === undefined ? [] : port.blocksFrom(found.head.number)
  const isThere = target !== undefined && equalBytes(target.hash, found!.head.hash)
  if (isThere && (target.number < port.finalized() || !port.isKept(target.number)))
    throw new ControlError(`the snapshot is lost: block ${port.finalized()} is final by now`)
  snapshots.delete(id)
  port.pin(snapshots.oldest())
  if (!isThere) return { isReverted: false }
  const { building } = machine
  const inProgress = building === undefined ? [] : machine.takeBack(building, 1)
  drop(machine, [...removed.flatMap(({ transactions }) => transactions), ...inProgress])
  yield* goBack({ machine, port }, target)
  machine.next.used()
  machine.clock.restore(found!.aheadMs)
  return { head: target, isReverted: true }
}

async function* equivocate(
  machine: Machine,
  { isKept }: Extract<Control, { readonly type: 'equivocate' }>,
): Steps {
  const { building } = machine
  if (building === undefined) throw new ControlError('no block is in progress')
  const { payload } = building
  const from = payload.newestFilled()
  if (from === undefined)
    throw new ControlError('no flashblock of the block in progress has transactions')
  yield* shown(machine)
  const last = payload.index
  const dropped = machine.takeBack(building, from)
  if (!isKept) drop(machine, dropped)
  while (payload.index < last) await machine.recut(building)
  return { place: { number: Number(payload.execution.attributes.number), index: from }, dropped }
}

async function* edit(machine: Machine, edits: readonly AccountEdit[]): Steps {
  if (machine.building !== undefined) await machine.seal(machine.building)
  const building = yield* begun(machine, edits)
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

async function* begun(
  machine: Machine,
  edits?: readonly AccountEdit[],
): AsyncGenerator<Wait, Building> {
  const until = machine.ports.now() + PATIENCE_MS
  for (;;) {
    const wait = await machine.begin(edits)
    if (machine.building !== undefined) return machine.building
    if (machine.ports.now() > until) throw new ControlError('the block before is not canonical yet')
    yield wait
  }
}

/**
 * The newest sealed block, when it is canonical. While one is in progress that is its parent: readers may have all of it already, and take
 * it for complete. @param head which that is, left out: the one that was sealed last
 */
async function* canonical(machine: Machine, head?: StoredHead): AsyncGenerator<Wait, StoredHead> {
  const until = machine.ports.now() + PATIENCE_MS
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

/** The newest flashblock, when readers see it, where a feed has it. */
async function* shown(machine: Machine): AsyncGenerator<Wait, FlashblockPlace> {
  const { payload } = machine.building!
  const place = { number: Number(payload.execution.attributes.number), index: payload.index }
  const until = machine.ports.now() + SHOWN_MS
  const { newest } = machine
  const isSent =
    newest?.number === place.number && newest.index === place.index && !machine.isBroken(payload.id)
  const isShown = () => machine.ports.isShown(place, payload.id)
  while (isSent && !isShown() && machine.ports.now() < until) yield FOR_PARENT
  return place
}

function newestTimestamp({ building, ports }: Machine): bigint {
  if (building !== undefined) return building.payload.execution.attributes.timestamp
  const parent = ports.leaseParent()
  parent.release()
  return parent.header.timestamp
}

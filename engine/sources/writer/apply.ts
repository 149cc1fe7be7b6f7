/**
 * Flashblocks as leaders have executed them (ADR 54): waited for, held against what our own feed says of them, and taken in place of
 * executing. What nobody tells in time, or tells wrong, is executed; so is a share that nobody knows before, and compared.
 */
import { isEdit } from '../../execution/transaction/edits.ts'
import type { ExecutedTransaction } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import type { SenderOf } from '../../primitives/transaction-codec.ts'
import type { StateDiff } from '../../state/diff.ts'
import { decodeDiff } from '../../state/diff-codec.ts'
import type { OwnOutcome } from '../applying/applying.ts'
import { faultOfBinding, faultOfOutcome, faultOfValues } from '../applying/faults.ts'
import { isAt } from '../applying/held.ts'
import { type ToldOutcome, unpackOutcomes } from '../applying/outcomes.ts'
import { NOBODY, type Sent, sendersOf } from '../applying/senders.ts'
import type { DiffPlace, LeaderDiff, LeaderFault } from '../applying/types.ts'
import type { Mismatch } from './checks.ts'
import { decodeOne, type LiveBlock } from './live-block.ts'
import { count, emit, type WriterState, wakeAt } from './state.ts'
import type { WriterEvent } from './types.ts'

type Suspect = { readonly diff: LeaderDiff; readonly fault: LeaderFault }
export type Found = {
  readonly taken: LeaderDiff | undefined
  /** Transactions whose sender it has said. */
  readonly told: readonly Transaction[]
  /** They are not what our frame says; whether they or the frame are wrong an execution tells. */
  readonly suspects: readonly Suspect[]
}

const isOn = ({ limits }: WriterState): boolean => limits.applyMs > 0

export function onDiff(state: WriterState, diff: LeaderDiff): void {
  const { applying, chain } = state
  const { leader, told } = diff
  if (applying.leaders.isDropped(leader)) return
  applying.leaders.told(leader, told)
  const own = applying.own.find(({ place }) => isAt(place, told))
  if (own !== undefined) {
    if (diff.receivedAtMs - own.atMs <= state.limits.applyMs) applying.leaders.inTime(leader)
    compare(state, own, diff)
    return
  }
  if (told.number <= chain.canonical.handle.number || isTaken(state, told))
    return void count(state, 'diff_late')
  applying.leaders.inTime(leader)
  applying.held.forgetUpTo(chain.canonical.handle.number)
  const dropped = applying.held.add(diff)
  if (dropped > 0) count(state, 'diff_skipped', dropped)
}

export function onLeader(
  state: WriterState,
  { leader, isConnected, fault }: WriterEvent & { readonly type: 'leader' },
): void {
  state.applying.leaders.connected(leader, isConnected)
  if (fault !== undefined) dropLeader(state, leader, fault)
}

/** Whether something waits for its diff: then a tick is asked for. Its transactions are read meanwhile. */
export function waitsForDiff(
  state: WriterState,
  place: DiffPlace,
  { sinceMs, raws }: { readonly sinceMs: number; readonly raws: readonly Bytes[] },
): boolean {
  const { applying, limits, options } = state
  if (!isOn(state) || isChosen(state, place) || applying.held.at(place).length > 0) return false
  if (!applying.leaders.mayCome(place)) return false
  const untilMs = sinceMs + limits.applyMs
  if (options.now() >= untilMs) {
    applying.leaders.missed()
    count(state, 'diff_missed')
    return false
  }
  decoded(state, raws)
  wakeAt(state, untilMs)
  return true
}

/**
 * Takes what a leader has told of the next transactions of a block, where it passes all that can be asked without executing.
 * @param judge the block's sums against what our own source says @throws {MissingError} {ViewError} with nothing changed
 */
export async function takeDiff(
  state: WriterState,
  block: LiveBlock,
  next: {
    readonly place: DiffPlace
    readonly raws: readonly Bytes[]
    /** Asked only where a leader has told something; undefined: the source does not know it. */
    readonly hash: (() => Bytes) | undefined
    readonly judge: () => Mismatch | undefined
  },
): Promise<Found> {
  const suspects: Suspect[] = []
  const { hash } = next
  if (!isOn(state) || hash === undefined || isChosen(state, next.place))
    return { taken: undefined, told: [], suspects }
  const transactions = decoded(state, next.raws)
  const { hasEdits } = block.open!.execution.rules
  // What is no transaction, or one of development chains alone: executing says so.
  if (transactions === 'wrong' || (!hasEdits && transactions.some(isEdit)))
    return { taken: undefined, told: [], suspects }
  const { senderOf } = state.expected
  for (const diff of state.applying.held.at(next.place)) {
    const done = await apply(block, diff, { ...next, hash: hash(), transactions, senderOf })
    if (done === 'other') count(state, 'diff_other')
    else if ('kind' in done) suspects.push({ diff, fault: done })
    else return { taken: diff, told: done.told, suspects }
  }
  return { taken: undefined, told: [], suspects }
}

/** The flashblock is what our own source says, and shown. */
export function settleDiffs(
  state: WriterState,
  block: LiveBlock,
  {
    place,
    found,
    diff,
    executed,
  }: {
    readonly place: DiffPlace
    readonly found: Found
    readonly diff: StateDiff
    readonly executed: readonly ExecutedTransaction[]
  },
): void {
  for (const suspect of found.suspects) dropFor(state, suspect.diff, suspect.fault)
  if (found.taken !== undefined) {
    block.appliedFrom.push(found.taken)
    for (const transaction of found.told) block.toldSenders.set(transaction, found.taken)
    count(state, 'flashblock_applied')
    count(state, 'sender_told', found.told.length)
    return
  }
  count(state, 'flashblock_executed')
  const { hash } = place
  if (!isOn(state) || hash === undefined) return
  const own: OwnOutcome = {
    ...{ place, hash, atMs: state.options.now(), changes: diff },
    parentHash: block.header.parentHash,
    transactions: executed.map(({ transaction }) => transaction),
    outcomes: executed.map(({ receipt }) => ({
      ...receipt,
      isSuccess: receipt.status === 1,
      depositNonce: receipt.depositNonce,
    })),
  }
  state.applying.remember(own)
  for (const told of state.applying.held.at(place)) compare(state, own, told)
}

/** The block's root is not what its source says, and a part of it was not executed here: whoever told that is not believed any more. */
export function disown(state: WriterState, block: LiveBlock, wrong: Mismatch): void {
  const { kind, ours, theirs } = wrong
  giveUp(state, block)
  for (const diff of block.appliedFrom)
    dropFor(state, diff, {
      kind: 'root',
      message: `${kind} is ${ours} with what it told, ${theirs} at the block's source`,
    })
}

/** A leader has told a sender of it that did not sign: the same, and no doubt who it was. */
export function disownSender(state: WriterState, block: LiveBlock, { diff, fault }: Suspect): void {
  giveUp(state, block)
  dropFor(state, diff, fault)
}

function giveUp(state: WriterState, block: LiveBlock): void {
  block.isDisowned = true
  block.sealed = undefined
  count(state, 'applied_wrong')
}

async function apply(
  { open }: LiveBlock,
  { told }: LeaderDiff,
  {
    hash,
    transactions: unsent,
    senderOf,
    judge,
  }: {
    readonly hash: Bytes
    /** Their senders are open. */
    readonly transactions: readonly Transaction[]
    readonly senderOf: SenderOf
    readonly judge: () => Mismatch | undefined
  },
): Promise<Sent | LeaderFault | 'other'> {
  const { execution } = open!
  const { parentHash } = execution.attributes
  const unbound = faultOfBinding(told, { hash, parentHash, transactions: unsent })
  if (unbound !== undefined) return unbound
  const sent = sendersOf(told, unsent, { executed: execution.executed, senderOf })
  if ('kind' in sent) return sent
  const { transactions } = sent
  const outcomes = unpackOutcomes(told.outcomes)
  const gas = faultOfGas(outcomes, execution.gasUsed)
  if (gas !== undefined) return gas
  const mark = execution.checkpoint()
  const before = await execution.state()
  const changes = before.rebased(decodeDiff(told.changes))
  const { isOptimism } = execution.rules
  const wrong = faultOfValues(told, changes, { state: before, transactions, isOptimism })
  if (wrong !== undefined) return wrong
  await execution.join({ transactions, outcomes, changes })
  const mismatch = judge()
  if (mismatch === undefined) return sent
  execution.revert(mark)
  const { kind, ours, theirs } = mismatch
  return { kind, message: `${kind} is ${ours} with what it told, ${theirs} in our own feed` }
}

function faultOfGas(outcomes: readonly ToldOutcome[], from: bigint): LeaderFault | undefined {
  let sum = from
  for (const { gasUsed, cumulativeGasUsed } of outcomes) {
    sum += gasUsed
    if (sum !== cumulativeGasUsed)
      return { kind: 'gasUsed', message: `gas sums to ${sum}, it says ${cumulativeGasUsed}` }
  }
  return undefined
}

function compare(state: WriterState, own: OwnOutcome, diff: LeaderDiff): void {
  const { told } = diff
  const fault = faultOfBinding(told, own) ?? faultOfOutcome(told, own, decodeDiff(told.changes))
  if (fault === undefined) count(state, 'flashblock_verified')
  else if (fault === 'other') count(state, 'diff_other')
  else dropFor(state, diff, fault)
}

function dropFor(
  state: WriterState,
  { leader, told }: LeaderDiff,
  { kind, message }: LeaderFault,
): void {
  const where = `block ${told.number}, flashblock ${told.index}`
  dropLeader(state, leader, { kind, message: `${where}: ${message}` })
}

function dropLeader(state: WriterState, leader: number, { kind, message }: LeaderFault): void {
  const { applying } = state
  if (!applying.leaders.drop(leader)) return
  applying.held.forgetLeader(leader)
  count(state, 'leader_dropped')
  emit(state, { type: 'leaderDropped', leader, kind, message })
}

/** Of an earlier copy, or executed before and not remembered any more. */
function isTaken({ chain }: WriterState, { number, index, payloadId }: DiffPlace): boolean {
  const block = chain.speculative(number)
  return block !== undefined && block.payloadId === payloadId && block.index >= index
}

/** Decided by the place and by what nobody but this node knows. */
function isChosen({ options, limits }: WriterState, { number, index }: DiffPlace): boolean {
  let mixed = Math.imul((options.seed ?? 0) ^ Math.imul(number, 0x9e37_79b1), 0x85eb_ca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13) ^ Math.imul(index + 1, 0xc2b2_ae35), 0x27d4_eb2f)
  return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32 < limits.verifyShare
}

/** Their senders are open. 'wrong': one is none; executing says so. */
function decoded(
  { applying }: WriterState,
  raws: readonly Bytes[],
): readonly Transaction[] | 'wrong' {
  const known = applying.decoded.get(raws)
  if (known !== undefined) return known
  const transactions: Transaction[] = []
  for (const raw of raws) {
    const one = decodeOne(raw, () => NOBODY)
    if ('error' in one) {
      applying.decoded.set(raws, 'wrong')
      return 'wrong'
    }
    transactions.push(one)
  }
  applying.decoded.set(raws, transactions)
  return transactions
}

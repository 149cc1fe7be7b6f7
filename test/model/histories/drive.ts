/** Steps of a history: the writer's work for a feed, a source and readers, with invented blocks. */

import { EMPTY_ROOT } from '../../../engine/primitives/keccak.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import { finish } from '../../../engine/sources/writer/ends.ts'
import {
  headerOf,
  type LiveBlock,
  newBlock,
  type OpenPart,
} from '../../../engine/sources/writer/live-block.ts'
import { decidedParent } from '../../../engine/sources/writer/recover.ts'
import { addIncrement, close, discard, end } from '../../../engine/sources/writer/steps.ts'
import { flush, freeMemory, publish } from '../../../engine/sources/writer/writer-state.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { memoryReader } from '../../fixtures/memory-reader.ts'
import { diffOf, stateRootOf } from '../../fixtures/view-blocks.ts'
import {
  changeWorld,
  MadeUpExecution,
  PAYLOAD_ID,
  pickTransactions,
  type Random,
  upstreamBlockOf,
} from './blocks.ts'
import { checkParentState, Mismatch } from './check.ts'
import { CHAIN, GENESIS, type Machine, undoWindowOf, WRITER } from './machine.ts'
import { ancestorAt, type Node, worldOf } from './truth.ts'

/**
 * Starts a payload with index 0 on the complete head or on a lower block. The blocks above that
 * block are dropped.
 */
export function payload(machine: Machine, transactions: number, random: Random): void {
  const { state, truth, counts } = machine
  const { chain } = state
  const { complete, canonical } = chain
  if (complete.handle.number - canonical.handle.number >= state.limits.ahead) return
  const parent = random(6) === 0 ? lowestParent(state) : complete
  const node = truth.start(machine.nodeOf(parent), true)
  const open = openOn(machine, node, random)
  if (open === undefined) return
  const block = start(machine, { node, parent, open, isFullBlock: false })
  if (!grow(machine, block, { node, transactions, random })) {
    discard(state, block)
    freeMemory(state)
    return
  }
  if (chain.pending !== parent) {
    counts.add(parent === complete ? 'second payload' : 'complete blocks replaced by a payload')
    chain.cutAbove(parent)
  }
  chain.add(block)
  chain.pending = block
  counts.add('payload')
  publish(state)
}

/** A payload may replace complete blocks, but no block that is canonical or submitted. */
function lowestParent({ chain, submitted }: Machine['state']): LiveBlock {
  const isOnChain = submitted !== undefined && chain.isAncestor(submitted, chain.complete)
  return isOnChain ? submitted : chain.canonical
}

export function flashblock(machine: Machine, transactions: number, random: Random): void {
  const { state } = machine
  const { pending } = state.chain
  if (pending.state !== 'open') return
  const node = machine.nodeOf(pending)
  if (grow(machine, pending, { node, transactions, random })) {
    machine.counts.add('flashblock')
    publish(state)
  } else freeMemory(state)
}

/** Ends the pending block and requests its root. */
export async function seal(machine: Machine): Promise<void> {
  const { state } = machine
  const { pending } = state.chain
  if (pending.state !== 'open') return
  await end(state, pending)
  machine.counts.add('sealed')
}

export function dropPending(machine: Machine): void {
  const { pending, complete } = machine.state.chain
  if (pending !== complete) machine.counts.add('flush')
  flush(machine.state)
}

/** The source decides the next complete blocks. */
export async function canonical(machine: Machine, blocks: number): Promise<void> {
  const { state } = machine
  const { chain } = state
  const top = machine.nodeOf(chain.complete)
  for (let n = 1; n <= blocks; n++) {
    const number = chain.canonical.handle.number + state.upstreamBlocks.length + 1
    const node = ancestorAt(top, number)
    if (node?.final === undefined || state.fullBlock !== undefined) break
    const { header } = node.final
    const upstreamBlock = upstreamBlockOf(node, header, stateRootOf(worldOf(node)), EMPTY_ROOT)
    state.upstreamBlocks.push({ block: upstreamBlock, arrivedAtMs: machine.clock.ms })
    machine.counts.add('decided')
  }
  await machine.decide()
}

/** Adds a new canonical block on the canonical block that is `depth` blocks back. */
export async function branch(machine: Machine, depth: number, random: Random): Promise<boolean> {
  const { state, truth, counts } = machine
  const { chain } = state
  const head = machine.nodeOf(chain.canonical)
  const number = Math.max(GENESIS, head.number - depth)
  const isBusy = state.submitted !== undefined || state.fullBlock !== undefined
  const unpersisted = chain.canonical.handle.number - chain.base.handle.number
  if (isBusy || unpersisted >= state.limits.foldDepth + state.limits.backlog) return false
  state.upstreamBlocks.length = 0
  const parentNode = ancestorAt(head, number)!
  const parent = decidedParent(state, parentNode.final!.hash)
  if (parent === undefined) {
    if (canUnwindTo(machine, number)) throw new Mismatch(`no reorg down to ${number} is possible`)
    counts.add('reorg refused: too deep')
    return false
  }
  const isDeep = parent.handle.number < chain.base.handle.number
  const node = truth.start(parentNode, false)
  const open = openOn(machine, node, random)
  if (open === undefined) return false
  const block = start(machine, { node, parent, open, isFullBlock: true })
  if (!grow(machine, block, { node, transactions: 3, random })) {
    discard(state, block)
    freeMemory(state, chain.canonical)
    return false
  }
  // The writer clears them too: no reader sees a header of a full block before the final one.
  block.partialHeaders.length = 0
  const roots = { stateRoot: stateRootOf(worldOf(node)), withdrawalsRoot: EMPTY_ROOT }
  const upstreamBlock = upstreamBlockOf(node, block.header, roots.stateRoot, roots.withdrawalsRoot)
  state.upstreamBlocks.push({ block: upstreamBlock, arrivedAtMs: machine.clock.ms })
  block.canonicalBlock = upstreamBlock
  chain.add(block)
  state.fullBlock = block
  if (isDeep) {
    await close(state, block)
    finish(state, block, headerOf(block.content!, roots))
  } else await end(state, block)
  counts.add(nameOf(head.number - number, isDeep))
  machine.take()
  return true
}
/**
 * Blocks far below the highest persisted one cannot be unwound, even after the persisted head moved
 * back.
 */
function canUnwindTo({ highestPersisted, setup, state }: Machine, number: number): boolean {
  const base = state.chain.base.handle.number
  const { undoBlocks } = setup
  return number >= Math.max(base - undoBlocks, highestPersisted - undoWindowOf(setup))
}
function nameOf(back: number, isDeep: boolean): string {
  if (back === 0) return 'replaced'
  if (!isDeep) return 'reorg above the persisted block'
  return `reorg below the persist pass, ${back < 8 ? '1 to 7' : back < 20 ? '8 to 19' : '20 to 40'}`
}

type Pace = { readonly random: Random; readonly between: () => void }

/**
 * Makes blocks from the first flashblock to the decision, while the persistence thread works at its
 * own pace.
 * @throws {Died}
 */
export async function produce(machine: Machine, blocks: number, pace: Pace): Promise<void> {
  const { random, between } = pace
  const { state } = machine
  for (let n = 0; n < blocks; n++) {
    await machine.settle(
      () => state.submitted === undefined && state.fullBlock === undefined,
      between,
    )
    if (!(await complete(machine, pace))) continue
    await canonical(machine, 1)
    const head = state.chain.complete
    await machine.settle(() => state.chain.canonical === head, between)
    const slices = random(4) === 0 ? 40 : random(12)
    for (let slice = 0; slice < slices && machine.persistenceTurn(); slice++)
      if (random(3) === 0) machine.responseTurn()
  }
}

/**
 * Makes complete blocks that their source has not decided.
 * @throws {Died}
 */
export async function runLeading(machine: Machine, blocks: number, pace: Pace): Promise<void> {
  for (let n = 0; n < blocks && (await complete(machine, pace)); n++) machine.counts.add('ahead')
}

/**
 * Makes one more complete block. Returns false when the memory is full or the parent's state is
 * gone.
 */
async function complete(machine: Machine, { random, between }: Pace): Promise<boolean> {
  const { chain } = machine.state
  const before = chain.complete
  payload(machine, random(3), random)
  if (random(2) === 0) flashblock(machine, random(3), random)
  await seal(machine)
  machine.take()
  await machine.settle(() => chain.complete !== before, between)
  return chain.complete !== before
}

/**
 * Leases the parent's state as the writer does, and checks it. When the state is gone, pending is
 * dropped and the result is undefined.
 */
function openOn(machine: Machine, node: Node, random: Random): OpenPart | undefined {
  const lease = machine.lease(WRITER, 'flashblocks')
  const parent = node.parent!
  try {
    checkParentState(machine, lease, { parent, random })
  } catch (error) {
    lease.leased.release()
    const isVoid = error instanceof ViewError && error.reason === 'void'
    if (!isVoid || machine.unwinds.raised === lease.visible.unwinds) throw error
    machine.counts.add('void view of the writer')
    flush(machine.state)
    return undefined
  }
  const execution = new MadeUpExecution(CHAIN, node, machine.salt++)
  return { execution, reader: memoryReader(), release: lease.leased.release }
}

function start(
  machine: Machine,
  block: {
    readonly node: Node
    readonly parent: LiveBlock
    readonly open: OpenPart
    readonly isFullBlock: boolean
  },
): LiveBlock {
  const { node, parent, open, isFullBlock } = block
  // The writer does so too: a full block has no payload, so nobody can ask for its flashblocks.
  const handle = machine.publisher.start(parent.handle, isFullBlock ? undefined : PAYLOAD_ID)
  machine.truth.name(handle.id, node)
  return newBlock('start', {
    handle,
    parent,
    payloadId: PAYLOAD_ID,
    header: parent.header,
    hash: parent.hash,
    open,
    isFullBlock,
  })
}

/** Adds one more flashblock. Returns false when the memory is full; then nothing has changed. */
function grow(
  machine: Machine,
  block: LiveBlock,
  part: { readonly node: Node; readonly transactions: number; readonly random: Random },
): boolean {
  const { node, random } = part
  const execution = block.open!.execution as MadeUpExecution
  const top = node.prefixes.length > 0 ? node : node.parent!
  const before = worldOf(node.parent!)
  const change = changeWorld(worldOf(top), random)
  const isChanged = change.what !== 'nothing'
  const count = isChanged ? random(part.transactions + 1) : 0
  const from = execution.executed.length
  execution.add(pickTransactions(machine.truth, { top, count, random }), isChanged)
  const { attributes, rules } = execution
  const roots = { stateRoot: ZERO_32, withdrawalsRoot: ZERO_32 }
  const { header, hash } = headerOf({ attributes, rules, sums: execution.sums() }, roots)
  const index = node.prefixes.length
  const diff = diffOf(worldOf(top), change.world, before)
  node.prefixes.push({ world: change.world, executed: [...execution.executed], hash })
  const verdict = addIncrement(machine.state, block, { index, header, hash, diff, from })
  if (verdict === 'full') {
    node.prefixes.pop()
    execution.takeBack(isChanged)
    return false
  }
  countChange(machine, node, change)
  return true
}

function countChange(
  { counts }: Machine,
  node: Node,
  { what, account }: ReturnType<typeof changeWorld>,
): void {
  counts.add(`change: ${what}`)
  if (what !== 'created') return
  const isThere = (of: Node | undefined) => of !== undefined && worldOf(of)[account]!.value !== 0
  const wasThere = node.prefixes.some(({ world }) => world[account]!.value !== 0)
  let at = node.parent
  if (isThere(at)) counts.add('created again in the block of the wipe')
  else {
    while (at !== undefined && !isThere(at)) at = at.parent
    if (at !== undefined && wasThere) counts.add('created again in a later block')
  }
}

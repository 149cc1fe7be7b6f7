/**
 * Steps of a block that flashblocks and upstream blocks share, and gas refunds that flashblocks
 * state (specs.optimism.io: Subblocks, post_exec_tx).
 * Each flashblock restates the refunds of the whole block. Refunds change balances that later
 * transactions may read. A changed refund of an earlier transaction therefore restarts the block's
 * execution.
 */
import { postExecIn } from '../../execution/transaction/post-exec.ts'
import type {
  BlockAttributes,
  BlockCheckpoint,
  BlockExecution,
  BlockSums,
} from '../../execution/transaction/types.ts'
import type { Flashblock } from '../../flashblocks/types.ts'
import { encodeHeader } from '../../primitives/header.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import type { StateDiff } from '../../state/diff.ts'
import { FULL_BLOCK_INDEX } from '../../views/types.ts'
import { type Mismatch, mismatch } from './checks.ts'
import { relayEnd } from './feeds.ts'
import {
  contentOf,
  headerOf,
  type LiveBlock,
  newBlock,
  type OpenPart,
  openExecution,
  step,
} from './live-block.ts'
import { emit, type WriterState } from './writer-state.ts'

/**
 * Ends a block with all its transactions. Where there is a trie, the persistence thread computes
 * its root.
 */
export async function end(state: WriterState, block: LiveBlock): Promise<void> {
  await close(state, block)
  requestRoot(state, block)
}

/** Ends the execution and releases the parent's state. */
export async function close(state: WriterState, block: LiveBlock): Promise<void> {
  if (block.open === undefined) throw new Error(`block ${block.handle.number} is not open`)
  block.content = await contentOf(block.open.execution)
  block.open.release()
  block.open = undefined
  step(block, 'end')
  relayEnd(state, block)
}

/** Requests the root after the transactions so far, if the persistence thread has a trie. */
export function requestRoot(state: WriterState, block: LiveBlock): void {
  if (state.options.isLazy === true) return
  block.rootsDue++
  block.rootIndex = block.index
  emit(state, { type: 'persistence', request: { type: 'root', id: block.handle.id } })
}

/** Drops a block that was not added to the chain. */
export function discard({ options }: WriterState, block: LiveBlock): void {
  step(block, 'drop')
  block.open?.release()
  block.open = undefined
  options.publisher.drop(block.handle)
}

/**
 * Adds the newest checked part of an open block to its diff layer and to the persistence thread's
 * trie.
 * @returns 'full' with nothing changed
 */
export function addIncrement(
  state: WriterState,
  block: LiveBlock,
  part: {
    readonly index: number
    readonly header: LiveBlock['header']
    readonly hash: LiveBlock['hash']
    readonly diff: StateDiff
    readonly from: number
  },
): 'added' | 'full' {
  const { execution } = block.open!
  const { index, header, hash, diff } = part
  const transactions = execution.executed.slice(part.from)
  const { publisher, isLazy, emitsChanges } = state.options
  const added = publisher.add(block.handle, { index, diff, header, hash, transactions })
  if (added === 'full') return 'full'
  step(block, 'extend')
  if (emitsChanges === true) block.unpublished.push({ index, header, hash, diff, transactions })
  block.header = header
  block.hash = hash
  block.index = index
  block.partialHeaders.push({
    hash,
    header: encodeHeader(header),
    index,
    transactionCount: execution.executed.length,
  })
  const { id } = block.handle
  const { parent } = block
  const isDeep = parent!.handle.number < state.chain.base.handle.number
  if (!isDeep && isLazy !== true)
    emit(state, {
      type: 'persistence',
      request: { type: 'advance', id, parentId: parent!.handle.id, diff },
    })
  return 'added'
}

/**
 * Adds the transactions after the checkpoint, which are in no flashblock.
 * @returns false when there is no memory for them
 */
export async function addRemainder(
  state: WriterState,
  block: LiveBlock,
  checkpoint: BlockCheckpoint,
): Promise<boolean> {
  const roots = { stateRoot: ZERO_32, withdrawalsRoot: block.header.withdrawalsRoot }
  const { header, hash } = headerOf(partsOf(block), roots)
  const diff = await block.open!.execution.diff(checkpoint)
  const part = { index: FULL_BLOCK_INDEX, header, hash, diff, from: checkpoint.transactions }
  return addIncrement(state, block, part) === 'added'
}

/** Returns the inputs of a block's header, for open and ended blocks. */
export function partsOf(block: LiveBlock): Pick<
  NonNullable<LiveBlock['content']>,
  'attributes' | 'rules'
> & {
  readonly sums: BlockSums
} {
  if (block.content !== undefined) return block.content
  const { attributes, rules } = block.open!.execution
  return { attributes, rules, sums: block.open!.execution.sums() }
}

/** Whether a flashblock changes refunds of earlier transactions of its block. */
export function isRestated(execution: BlockExecution, { delta }: Flashblock): boolean {
  const { postExec } = execution.attributes
  const isSame = execution.refund(postExecIn(delta.postExec))
  if (isSame) execution.refund(postExec)
  return !isSame
}

export const hasPostExec = ({ open }: LiveBlock): boolean =>
  open?.execution.attributes.postExec !== undefined

/**
 * Opens the block of the same payload again with other refunds; nothing is executed yet.
 * @throws {ViewError} when the parent's state is gone
 */
export function reopen(
  state: WriterState,
  { parent, payloadId, feed, open, endFrame, isEndOver }: LiveBlock,
  postExec: BlockAttributes['postExec'],
): LiveBlock & { readonly open: OpenPart } {
  const attributes = { ...open!.execution.attributes, postExec }
  const { handle, header, hash } = parent!
  const reopened = openExecution(state, hash, attributes)
  return Object.assign(
    newBlock('start', {
      handle: state.options.publisher.start(handle, payloadId),
      parent,
      payloadId,
      feed,
      header,
      hash,
      endFrame,
      isEndOver,
    }),
    { open: reopened },
  )
}

/** Executes the visible flashblocks again with the new block's refunds. */
export async function reexecute(
  state: WriterState,
  block: LiveBlock,
  before: LiveBlock,
): Promise<Mismatch | 'full' | undefined> {
  const { execution } = block.open!
  const { executed } = before.open!.execution
  await execution.start()
  // No stated hash covers the new sums, so no root is copied.
  const roots = { stateRoot: ZERO_32, withdrawalsRoot: ZERO_32 }
  for (const { index, transactionCount } of before.partialHeaders) {
    const checkpoint = index === 0 ? undefined : execution.checkpoint()
    const from = execution.executed.length
    for (const { transaction } of executed.slice(from, transactionCount)) {
      const done = await execution.execute(transaction)
      if (done.status === 'invalid')
        return mismatch('transaction', done.reason.message, 'valid with the refunds before')
      if (done.status === 'stopped') throw new Error('an execution without limits was stopped')
    }
    const partial = headerOf(partsOf(block), roots)
    const diff = await execution.diff(checkpoint)
    if (addIncrement(state, block, { index, ...partial, diff, from }) === 'full') return 'full'
  }
  return undefined
}

/**
 * Adds the post-exec transaction that the newest flashblock states, as the last of a block that has
 * all others.
 * @param isRight called with the transaction in the block; false undoes it
 * @returns false when nothing has changed
 */
export async function addPostExec(
  state: WriterState,
  block: LiveBlock,
  isRight: () => boolean = () => true,
): Promise<boolean> {
  const { execution } = block.open!
  const { postExec } = execution.attributes
  if (postExec === undefined) return true
  const checkpoint = execution.checkpoint()
  let isDone = false
  try {
    const { status } = await execution.execute(postExec)
    isDone = status === 'executed' && isRight() && (await addRemainder(state, block, checkpoint))
  } finally {
    if (!isDone) execution.revert(checkpoint)
  }
  return isDone
}

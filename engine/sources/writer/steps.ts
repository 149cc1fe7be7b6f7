/**
 * The small steps of a block's life that both of its sources take, and those of refunds of gas that
 * flashblocks state (specs.optimism.io: Subblocks, post_exec_tx). Each restates the refunds of the
 * whole block. They change balances, which a later transaction may read: where one of an earlier
 * transaction changes, the block is executed again from its start.
 */
import { postExecIn } from '../../execution/transaction/post-exec.ts'
import type {
  BlockAttributes,
  BlockCheckpoint,
  BlockExecution,
  BlockSums,
} from '../../execution/transaction/types.ts'
import type { Flashblock } from '../../flashblocks/types.ts'
import { encodeHeader } from '../../primitives/header-codec.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import type { StateDiff } from '../../state/diff.ts'
import { WHOLE_INDEX } from '../../views/whole-index.ts'
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
import { emit, type WriterState } from './state.ts'

/** All of the block's transactions are there: its root is the keeper's, where it keeps a trie. */
export async function end(state: WriterState, block: LiveBlock): Promise<void> {
  await close(state, block)
  askRoot(state, block)
}

/** Execution is over: the parent's state is let go. */
export async function close(state: WriterState, block: LiveBlock): Promise<void> {
  if (block.open === undefined) throw new Error(`block ${block.handle.number} is not open`)
  block.content = await contentOf(block.open.execution)
  block.open.release()
  block.open = undefined
  step(block, 'end')
  relayEnd(state, block)
}

/** Of the transactions so far. */
export function askRoot(state: WriterState, block: LiveBlock): void {
  if (state.options.isLazy === true) return
  block.rootsDue++
  block.rootIndex = block.index
  emit(state, { type: 'keeper', request: { type: 'root', id: block.handle.id } })
}

/** A block that came to nothing before the chain knew of it. */
export function discard({ options }: WriterState, block: LiveBlock): void {
  step(block, 'drop')
  block.open?.release()
  block.open = undefined
  options.publisher.drop(block.handle)
}

/** Newest part of an open block, all checks passed: into its table, and to the keeper's trie. 'full': nothing was changed. */
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
  const { publisher, isLazy, tellsChanges } = state.options
  const added = publisher.add(block.handle, { index, diff, header, hash, transactions })
  if (added === 'full') return 'full'
  step(block, 'extend')
  if (tellsChanges === true) block.untold.push({ index, header, hash, diff, transactions })
  block.header = header
  block.hash = hash
  block.index = index
  block.momentary.push({
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
      type: 'keeper',
      request: { type: 'advance', id, parentId: parent!.handle.id, diff },
    })
  return 'added'
}

/**
 * Adds what was executed after the checkpoint, which no flashblock has. False: there is no memory
 * for it.
 */
export async function addRest(
  state: WriterState,
  block: LiveBlock,
  checkpoint: BlockCheckpoint,
): Promise<boolean> {
  const roots = { stateRoot: ZERO_32, withdrawalsRoot: block.header.withdrawalsRoot }
  const { header, hash } = headerOf(partsOf(block), roots)
  const diff = await block.open!.execution.diff(checkpoint)
  const part = { index: WHOLE_INDEX, header, hash, diff, from: checkpoint.transactions }
  return addIncrement(state, block, part) === 'added'
}

/** What a header is made of, while transactions may still come and after. */
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

/**
 * Whether a flashblock gives earlier transactions of its block other refunds than they were shown
 * with.
 */
export function isRestated(execution: BlockExecution, { delta }: Flashblock): boolean {
  const { postExec } = execution.attributes
  const isSame = execution.refund(postExecIn(delta.postExec))
  if (isSame) execution.refund(postExec)
  return !isSame
}

export const hasPostExec = ({ open }: LiveBlock): boolean =>
  open?.execution.attributes.postExec !== undefined

/**
 * The block of the same payload with other refunds, in which nothing is executed yet.
 * @throws {ViewError} when the parent's state is gone
 */
export function reopen(
  state: WriterState,
  { parent, payloadId, feed, open, endFrame, isEndOver }: LiveBlock,
  postExec: BlockAttributes['postExec'],
): LiveBlock & { readonly open: OpenPart } {
  const attributes = { ...open!.execution.attributes, postExec }
  const { handle, header, hash } = parent!
  const again = openExecution(state, hash, attributes)
  return Object.assign(
    newBlock('begin', {
      handle: state.options.publisher.begin(handle, payloadId),
      ...{ parent, payloadId, feed, header, hash, endFrame, isEndOver },
    }),
    { open: again },
  )
}

/** Executes the flashblocks that were shown, with the refunds that the new block is opened with. */
export async function executeAgain(
  state: WriterState,
  block: LiveBlock,
  before: LiveBlock,
): Promise<Mismatch | 'full' | undefined> {
  const { execution } = block.open!
  const { executed } = before.open!.execution
  await execution.begin()
  // No hash that was stated covers the new sums, so no root is taken over.
  const roots = { stateRoot: ZERO_32, withdrawalsRoot: ZERO_32 }
  for (const { index, transactionCount } of before.momentary) {
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
 * Adds the post-exec transaction that the newest flashblock states: the last one of a block that is
 * all there.
 * @param isRight asked with the transaction in the block; false undoes it
 * @returns false: nothing has changed
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
    isDone = status === 'executed' && isRight() && (await addRest(state, block, checkpoint))
  } finally {
    if (!isDone) execution.revert(checkpoint)
  }
  return isDone
}

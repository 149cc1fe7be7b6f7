/** The small steps of a block's life that both of its sources take. */
import type { BlockSums } from '../../execution/transaction/types.ts'
import { encodeHeader } from '../../primitives/header-codec.ts'
import type { StateDiff } from '../../state/diff.ts'
import { relayEnd } from './feeds.ts'
import { contentOf, type LiveBlock, step } from './live-block.ts'
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

/** The keeper's answers: what they change in the chain that the writer holds and shows. */
import type { KeeperAnswer } from '../../storage/types.ts'
import { onAppended } from './appended.ts'
import { onRoot } from './ends.ts'
import type { LiveBlock } from './live-block.ts'
import { onBegun, onNotBegun, onRewound, rewound } from './moves.ts'
import { storedBlock } from './recover.ts'
import {
  count,
  emit,
  flush,
  isReplaced,
  publish,
  relabel,
  submitLabels,
  takeLabels,
  type WriterState,
  writeRecord,
} from './state.ts'

/** @throws {Error} for an answer about a block that is not held: a broken invariant of our own memory. */
export function onAnswer(state: WriterState, answer: KeeperAnswer): void {
  switch (answer.type) {
    case 'root': {
      // Of a block that was dropped meanwhile, or will be: nothing waits for it.
      const block = state.chain.byId(answer.id)
      if (block === undefined || isReplaced(state, block)) return
      if (block.state === 'ended' || block.state === 'open') onRoot(state, block, answer)
      return
    }
    case 'appended':
      if (answer.marks !== undefined) takeLabels(state, answer.marks)
      onAppended(state, expected(state, answer.id, 'appended'))
      return
    case 'labelled':
      relabel(state, () => takeLabels(state, answer.marks))
      submitLabels(state)
      return
    case 'folded': {
      const block = expected(state, answer.id, 'folded')
      state.options.publisher.folded(block.handle)
      state.chain.fold(block)
      // A branch beside the folded block is gone with it: its canonical block is tried again.
      if (state.whole?.state === 'dropped') state.whole = undefined
      writeRecord(state)
      return
    }
    case 'unfolded':
      onUnfolded(state, answer)
      return
    case 'begun':
      onBegun(state, answer)
      return
    case 'notBegun':
      onNotBegun(state, answer.reason)
      return
    case 'rewound':
      onRewound(state, answer.hash)
      return
    case 'failed':
      state.failure = answer.message
      emit(state, { type: 'halted', message: answer.message, isFatal: false })
      return
    case 'preview':
    case 'filled':
      return
  }
}

function expected(state: WriterState, id: number, what: string): LiveBlock {
  const block = state.chain.byId(id)
  if (block === undefined)
    throw new Error(`the keeper has ${what} block id ${id}, which is not held`)
  return block
}

function onUnfolded(
  state: WriterState,
  answer: KeeperAnswer & { readonly type: 'unfolded' },
): void {
  const { chain, options } = state
  const handle = options.publisher.unfolded({
    id: answer.toId,
    number: answer.toNumber,
    hash: answer.toHash,
    unfolds: answer.unfolds,
  })
  count(state, 'unfold')
  chain.unfold(chain.byId(answer.toId) ?? storedBlock(options, handle, answer.toHash))
  flush(state)
  rewound(state)
  // Nothing is shown of the state in between: the answer to the append follows.
  if (state.handed === undefined) publish(state)
}

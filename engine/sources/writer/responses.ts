/** Responses of the persistence thread, and their changes to the chain. */
import type { PersistenceResponse } from '../../storage/types.ts'
import { onAppended } from './appended.ts'
import { onRoot } from './ends.ts'
import type { LiveBlock } from './live-block.ts'
import { onResynced, onResyncRefused, onRewound, rewound } from './moves.ts'
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
  writeSnapshot,
} from './writer-state.ts'

/** @throws {Error} for a response about a block that is not in memory: a broken invariant */
export function onResponse(state: WriterState, response: PersistenceResponse): void {
  switch (response.type) {
    case 'root': {
      // A dropped or replaced block does not need its root.
      const block = state.chain.byId(response.id)
      if (block === undefined || isReplaced(state, block)) return
      if (block.state === 'ended' || block.state === 'open') onRoot(state, block, response)
      return
    }
    case 'appended':
      if (response.labelledHeads !== undefined) takeLabels(state, response.labelledHeads)
      onAppended(state, expected(state, response.id, 'appended'))
      return
    case 'labelled':
      relabel(state, () => takeLabels(state, response.labelledHeads))
      submitLabels(state)
      return
    case 'folded': {
      const block = expected(state, response.id, 'folded')
      state.options.publisher.persisted(block.handle)
      state.chain.markPersisted(block)
      // A full block beside the persisted block was dropped. Its canonical block is tried again.
      if (state.fullBlock?.state === 'dropped') state.fullBlock = undefined
      writeSnapshot(state)
      return
    }
    case 'unfolded':
      onUnwound(state, response)
      return
    case 'begun':
      onResynced(state, response)
      return
    case 'notBegun':
      onResyncRefused(state, response.reason)
      return
    case 'rewound':
      onRewound(state, response.hash)
      return
    case 'failed':
      state.failure = response.message
      emit(state, { type: 'halted', message: response.message, isFatal: false })
      return
    case 'preview':
    case 'filled':
      return
  }
}

function expected(state: WriterState, id: number, what: string): LiveBlock {
  const block = state.chain.byId(id)
  if (block === undefined)
    throw new Error(`the persistence thread has ${what} block id ${id}, which is not held`)
  return block
}

function onUnwound(
  state: WriterState,
  response: PersistenceResponse & { readonly type: 'unfolded' },
): void {
  const { chain, options } = state
  const handle = options.publisher.unwound({
    id: response.toId,
    number: response.toNumber,
    hash: response.toHash,
    unwinds: response.unwinds,
  })
  count(state, 'unfold')
  chain.unwindTo(chain.byId(response.toId) ?? storedBlock(options, handle, response.toHash))
  flush(state)
  rewound(state)
  // The state between unwind and append is not published; the response to the append follows.
  if (state.submitted === undefined) publish(state)
}

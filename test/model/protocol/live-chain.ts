/** The blocks that the writer holds and the moves of its heads: engine/sources/{live-block,live-chain,writer-state}.ts. */
import { type BlockEvent, nextState } from '../../../engine/chain/life.ts'
import { allowed } from './allowed.ts'
import { lineOf, publish } from './publisher.ts'
import type { Block, Request, State, World, Writer } from './state.ts'

/** writer-state.ts flush. */
export function flush(world: World, state: State, to = state.writer.complete): State {
  return state.writer.pending === to ? state : publish(world, cutAbove(state, to))
}

export const setWriter = (state: State, changed: Partial<Writer>): State => ({
  ...state,
  writer: { ...state.writer, ...changed },
})

export const request = (state: State, asked: Request): State => ({
  ...state,
  requests: [...state.requests, asked],
})

/** live-block.ts step: the table of engine/chain/life.ts decides. */
export function change(
  state: State,
  id: number,
  event: BlockEvent,
  fields: Partial<Block> = {},
): State {
  const { blocks } = state.writer
  const block = blocks[id]!
  const after = allowed(() => nextState(block.state, event))
  const changed = { ...block, state: after, ...fields }
  return setWriter(state, { blocks: { ...blocks, [id]: changed } })
}

/** LiveChain.cutAbove. */
export function cutAbove(state: State, to: number): State {
  const line = lineOf(state.writer, state.writer.pending)
  const above = line.slice(0, line.indexOf(to))
  const { complete } = state.writer
  const heads = { pending: to, complete: above.includes(complete) ? to : complete }
  return dropWhere(setWriter(state, heads), (id) => above.includes(id))
}

/** LiveChain.drop; the publisher retires its tables at the next record. */
export function dropWhere(state: State, isGone: (id: number, block: Block) => boolean): State {
  let left = state
  for (const [name, block] of Object.entries(state.writer.blocks)) {
    const id = Number(name)
    if (block.state !== 'dropped' && isGone(id, block)) left = change(left, id, 'drop')
  }
  return left
}

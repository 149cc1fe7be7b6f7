/**
 * The writer's blocks and the moves of its heads: live-block.ts, live-chain.ts and writer-state.ts
 * of engine/sources/writer.
 */
import { type BlockEvent, nextState } from '../../../engine/chain/block-state.ts'
import { allowed } from './allowed.ts'
import type { Block, Request, State, World, Writer } from './model-state.ts'
import { lineOf, publish } from './publisher.ts'

/** Models flush of writer-state.ts. */
export function flush(world: World, state: State, to = state.writer.complete): State {
  return state.writer.pending === to ? state : publish(world, cutAbove(state, to))
}

export const setWriter = (state: State, changed: Partial<Writer>): State => ({
  ...state,
  writer: { ...state.writer, ...changed },
})

export const request = (state: State, requested: Request): State => ({
  ...state,
  requests: [...state.requests, requested],
})

/** Models step of live-block.ts: the table of engine/chain/block-state.ts decides. */
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

/** Models LiveChain.cutAbove. */
export function cutAbove(state: State, to: number): State {
  const line = lineOf(state.writer, state.writer.pending)
  const above = line.slice(0, line.indexOf(to))
  const { complete } = state.writer
  const heads = { pending: to, complete: above.includes(complete) ? to : complete }
  return dropWhere(setWriter(state, heads), (id) => above.includes(id))
}

/** Models LiveChain.drop. The publisher retires the diff layers at the next snapshot. */
export function dropWhere(state: State, isGone: (id: number, block: Block) => boolean): State {
  let left = state
  for (const [name, block] of Object.entries(state.writer.blocks)) {
    const id = Number(name)
    if (block.state !== 'dropped' && isGone(id, block)) left = change(left, id, 'drop')
  }
  return left
}

/** The blocks that the writer holds and the moves of its heads: engine/sources/{live-block,live-chain,writer-state}.ts. */
import { type BlockEvent, LifeError, nextState } from '../../../engine/chain/life.ts'
import { Fault } from '../explore.ts'
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
  const changed = { ...block, state: after(block, event), ...fields }
  return setWriter(state, { blocks: { ...blocks, [id]: changed } })
}

function after({ block, state }: Block, event: BlockEvent) {
  try {
    return nextState(state, event)
  } catch (error) {
    if (error instanceof LifeError) throw new Fault(`${block}: ${error.message}`)
    throw error
  }
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

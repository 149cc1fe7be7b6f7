/**
 * A flashblock or a full block on its way into its diff layer: engine/sources/writer/flashblocks.ts
 * and full-block.ts, engine/views/build.ts.
 */
import { nextState } from '../../../engine/chain/block-state.ts'
import type { Step } from '../explore.ts'
import { change, cutAbove, request, setWriter } from './live-chain.ts'
import { type Block, type State, TORN, type World } from './model-state.ts'
import { publish, put } from './publisher.ts'
import { onRoot } from './responses.ts'
import { KEYS, type Key } from './scenario.ts'

export function startBlock(
  { truth }: World,
  state: State,
  {
    name,
    parent,
    isFullBlock,
  }: { readonly name: string; readonly parent: number; readonly isFullBlock: boolean },
): { readonly started: State; readonly id: number } {
  const { blocks, nextId: id } = state.writer
  const { number } = truth.block(name)
  const block: Block = {
    block: name,
    number,
    parent,
    state: nextState('none', 'start'),
    diffLayers: [],
    tag: -1,
    isFullBlock,
  }
  return { started: setWriter(state, { blocks: { ...blocks, [id]: block }, nextId: id + 1 }), id }
}

/** Models Builder.add: entry by entry. The head word comes last (makeVisible, publish). */
export function setJob(
  { rules }: World,
  state: State,
  { id, index, writes }: { readonly id: number; readonly index: number; readonly writes: object },
): State {
  const keys = KEYS.filter((key) => key in writes)
  const puts = keys.flatMap((key) => (rules.slotLast ? [key] : [`~${key}`, key]))
  const { isFullBlock } = state.writer.blocks[id]!
  const left = rules.headLast || isFullBlock ? [...puts, 'head'] : ['head', ...puts]
  return setWriter(state, { job: { id, index, left } })
}

export function jobStep(world: World, state: State): Step<State> {
  const { job, blocks } = state.writer
  const { id, index, left } = job!
  const [next, ...rest] = left
  const { block, isFullBlock, diffLayers } = blocks[id]!
  const flashblockName = `${block}${isFullBlock ? '' : `.${index}`}`
  const after = setWriter(state, { job: rest.length === 0 ? null : { ...job!, left: rest } })
  if (next === 'head')
    return {
      label: isFullBlock
        ? `writer has written ${flashblockName}`
        : `writer publishes ${flashblockName}`,
      run: () =>
        isFullBlock ? endFullBlock(world, after, id) : makeVisible(world, after, { id, index }),
    }
  const isTorn = next!.startsWith('~')
  const key = next!.slice(-1) as Key
  const writes = isFullBlock ? world.truth.diff(block) : world.truth.writes(block, index)
  const value = isTorn ? TORN : writes[key]!
  return {
    label: `writer ${isTorn ? 'points to' : 'writes'} ${key} of ${flashblockName}`,
    // Tag 0 stands for an entry that is not written yet.
    run: () => put(after, { diffLayer: diffLayers.at(-1)!, key, tag: isTorn ? 0 : index, value }),
  }
}

/** Models start, extend and makeVisible of engine/sources/writer/flashblocks.ts. */
function makeVisible(
  world: World,
  state: State,
  { id, index }: { readonly id: number; readonly index: number },
): State {
  const { block, parent } = state.writer.blocks[id]!
  const isStarted = state.writer.blocks[id]!.tag < 0
  const cut = isStarted && state.writer.pending !== parent ? cutAbove(state, parent) : state
  const extended = setWriter(change(cut, id, 'extend', { tag: index }), { pending: id })
  const published = publish(world, extended)
  const isLast = index >= world.truth.block(block).flashblocks.length - 1
  return isLast ? request(change(published, id, 'end'), { type: 'root', id }) : published
}

/**
 * Models executeFullBlock of engine/sources/writer/full-block.ts. Below the persisted head the
 * roots come from the source.
 */
function endFullBlock(world: World, state: State, id: number): State {
  const ended = change(change(state, id, 'extend', { tag: 0 }), id, 'end')
  const { blocks, base } = ended.writer
  const isDeep = blocks[id]!.number - 1 < blocks[base]!.number
  return isDeep ? onRoot(world, ended, id) : request(ended, { type: 'root', id })
}

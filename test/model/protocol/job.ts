/** A flashblock, or a whole block, on its way into its table: engine/sources/writer/packets.ts, engine/views/build.ts. */
import { nextState } from '../../../engine/chain/life.ts'
import type { Step } from '../explore.ts'
import { onRoot } from './answers.ts'
import { change, cutAbove, request, setWriter } from './live-chain.ts'
import { publish, put } from './publisher.ts'
import { KEYS, type Key } from './scenario.ts'
import { type Block, type State, TORN, type World } from './state.ts'

export function beginBlock(
  { truth }: World,
  state: State,
  {
    name,
    parent,
    isWhole,
  }: { readonly name: string; readonly parent: number; readonly isWhole: boolean },
): { readonly begun: State; readonly id: number } {
  const { blocks, nextId: id } = state.writer
  const { number } = truth.block(name)
  const block: Block = {
    block: name,
    number,
    parent,
    state: nextState('none', 'begin'),
    tables: [],
    tag: -1,
    isWhole,
  }
  return { begun: setWriter(state, { blocks: { ...blocks, [id]: block }, nextId: id + 1 }), id }
}

/** Builder.add: entry by entry; the head word comes last (show, publish). */
export function setJob(
  { rules }: World,
  state: State,
  { id, index, writes }: { readonly id: number; readonly index: number; readonly writes: object },
): State {
  const keys = KEYS.filter((key) => key in writes)
  const puts = keys.flatMap((key) => (rules.slotLast ? [key] : [`~${key}`, key]))
  const { isWhole } = state.writer.blocks[id]!
  const left = rules.headLast || isWhole ? [...puts, 'head'] : ['head', ...puts]
  return setWriter(state, { job: { id, index, left } })
}

export function jobStep(world: World, state: State): Step<State> {
  const { job, blocks } = state.writer
  const { id, index, left } = job!
  const [next, ...rest] = left
  const { block, isWhole, tables } = blocks[id]!
  const shown = `${block}${isWhole ? '' : `.${index}`}`
  const after = setWriter(state, { job: rest.length === 0 ? null : { ...job!, left: rest } })
  if (next === 'head')
    return {
      label: isWhole ? `writer has written ${shown}` : `writer publishes ${shown}`,
      run: () => (isWhole ? endWhole(world, after, id) : show(world, after, { id, index })),
    }
  const isTorn = next!.startsWith('~')
  const key = next!.slice(-1) as Key
  const writes = isWhole ? world.truth.diff(block) : world.truth.writes(block, index)
  const value = isTorn ? TORN : writes[key]!
  return {
    label: `writer ${isTorn ? 'points to' : 'writes'} ${key} of ${shown}`,
    // What is not written yet has tag 0.
    run: () => put(after, { table: tables.at(-1)!, key, tag: isTorn ? 0 : index, value }),
  }
}

/** engine/sources/writer/packets.ts: begin, extend, show. */
function show(
  world: World,
  state: State,
  { id, index }: { readonly id: number; readonly index: number },
): State {
  const { block, parent } = state.writer.blocks[id]!
  const isBegun = state.writer.blocks[id]!.tag < 0
  const cut = isBegun && state.writer.pending !== parent ? cutAbove(state, parent) : state
  const extended = setWriter(change(cut, id, 'extend', { tag: index }), { pending: id })
  const published = publish(world, extended)
  const isLast = index >= world.truth.block(block).flashblocks.length - 1
  return isLast ? request(change(published, id, 'end'), { type: 'root', id }) : published
}

/** writer-sealed.ts executeWhole: below the fold head the roots are its source's. */
function endWhole(world: World, state: State, id: number): State {
  const ended = change(change(state, id, 'extend', { tag: 0 }), id, 'end')
  const { blocks, base } = ended.writer
  const isDeep = blocks[id]!.number - 1 < blocks[base]!.number
  return isDeep ? onRoot(world, ended, id) : request(ended, { type: 'root', id })
}

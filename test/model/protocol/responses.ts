/**
 * The writer handles the responses of the persistence thread: responses.ts, ends.ts, appended.ts
 * and submit.ts of engine/sources/writer.
 */
import { Fault, type Step } from '../explore.ts'
import { change, dropWhere, request, setWriter } from './live-chain.ts'
import type { Block, ModelResponse, State, World } from './model-state.ts'
import { lineOf, publish } from './publisher.ts'
import { FINAL } from './scenario.ts'

export function responseSteps(world: World, state: State): Step<State>[] {
  const [response] = state.responses
  if (response === undefined) return []
  const rest = { ...state, responses: state.responses.slice(1) }
  const name =
    response.type === 'unwound' ? response.block : state.writer.blocks[response.id]?.block
  return [
    {
      label: `writer hears ${response.type} ${name}`,
      run: () => onResponse(world, rest, response),
    },
  ]
}

function onResponse(world: World, state: State, response: ModelResponse): State {
  switch (response.type) {
    case 'root':
      return state.writer.blocks[response.id]?.state === 'ended'
        ? onRoot(world, state, response.id)
        : state
    case 'appended':
      return onAppended(world, state, response.id)
    case 'persisted':
      return onPersisted(world, state, response.id)
    case 'unwound':
      return onUnwound(world, state, response)
  }
}

/**
 * Models onRoot of ends.ts. The final header is one more entry; a full block goes on to the
 * persistence thread.
 */
export function onRoot(world: World, state: State, id: number): State {
  const finished = change(state, id, 'finish', { tag: FINAL })
  if (finished.writer.blocks[id]!.isFullBlock) return submit(world, finished, id)
  return publish(world, setWriter(finished, { complete: id }))
}

/** Models submitForPersistence of submit.ts. */
export function submit(world: World, state: State, id: number): State {
  const { upstreamTaken } = state.writer
  const submitted = setWriter(change(state, id, 'submit'), {
    submitted: id,
    fullBlock: 0,
    upstreamTaken: upstreamTaken + 1,
  })
  const { block } = submitted.writer.blocks[id]!
  const requested = request(submitted, { type: 'append', id, block })
  return world.rules.appendFirst
    ? requested
    : moveCanonical(world, change(requested, id, 'append'), id)
}

/** Models onAppended of appended.ts. */
function onAppended(world: World, state: State, id: number): State {
  const done = setWriter(state, { submitted: 0 })
  if (state.writer.blocks[id] === undefined)
    throw new Fault('the persistence thread appended what is not held')
  if (!world.rules.appendFirst) return done
  return moveCanonical(world, change(done, id, 'append'), id)
}

/** Models LiveChain.moveCanonical, then one snapshot. */
function moveCanonical(world: World, state: State, id: number): State {
  const { writer } = state
  const isOn = (head: number) => lineOf(writer, head).includes(id)
  const complete = isOn(writer.complete) ? writer.complete : id
  const pending = isOn(writer.pending) ? writer.pending : id
  const retained = new Set(lineOf(writer, pending))
  const moved = setWriter(state, { canonical: id, complete, pending })
  const isGone = (each: number, { state: blockState }: Block) =>
    !retained.has(each) && blockState !== 'persisted' && blockState !== 'submitted'
  return publish(world, dropWhere(moved, isGone))
}

/** Models onResponse to 'folded', Publisher.persisted and LiveChain.markPersisted. */
function onPersisted(world: World, state: State, id: number): State {
  const block = state.writer.blocks[id]
  if (block === undefined)
    throw new Fault('the persistence thread persisted a block that is not held')
  const persisted = setWriter(change(state, id, 'persist', { parent: 0 }), { base: id })
  const isGone = (_: number, { number, state: blockState }: Block) =>
    number <= block.number && blockState !== 'persisted' && blockState !== 'submitted'
  const left = dropWhere(persisted, isGone)
  const { fullBlock, blocks } = left.writer
  const isFullBlockGone = blocks[fullBlock]?.state === 'dropped'
  return publish(world, isFullBlockGone ? setWriter(left, { fullBlock: 0 }) : left)
}

/**
 * Models onUnwound of responses.ts, Publisher.unwound and LiveChain.unwindTo. Nothing is visible
 * before the response to the append.
 */
function onUnwound(
  world: World,
  state: State,
  { id, block: name, unwinds }: ModelResponse & { readonly type: 'unwound' },
): State {
  const { writer } = state
  const base = writer.blocks[id]
  if (base === undefined)
    throw new Fault(`the persistence thread unwound to ${name}, which has no name here`)
  const blocks = Object.fromEntries(
    Object.entries(writer.blocks).map(([at, block]) => {
      const isOnBase = block.parent !== 0 && world.truth.block(block.block).parent === name
      return [at, isOnBase ? { ...block, parent: id } : block]
    }),
  )
  const heads = { base: id, canonical: id, complete: id, pending: id }
  const back = setWriter(state, { blocks, unwinds, ...heads })
  const isGone = (each: number, { number, state: blockState }: Block) =>
    !(blockState === 'persisted' && number <= base.number) &&
    blockState !== 'submitted' &&
    !lineOf(back.writer, each).includes(id)
  return dropWhere(back, isGone)
}

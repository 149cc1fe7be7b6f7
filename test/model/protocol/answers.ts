/** What the writer makes of the keeper's answers: engine/sources/{writer-answers,writer-sealed}.ts. */
import { Fault, type Step } from '../explore.ts'
import { change, dropWhere, request, setWriter } from './live-chain.ts'
import { lineOf, publish } from './publisher.ts'
import { FINAL } from './scenario.ts'
import type { Answer, Block, State, World } from './state.ts'

export function answerSteps(world: World, state: State): Step<State>[] {
  const [answer] = state.answers
  if (answer === undefined) return []
  const rest = { ...state, answers: state.answers.slice(1) }
  const name = answer.type === 'unfolded' ? answer.block : state.writer.blocks[answer.id]?.block
  return [
    { label: `writer hears ${answer.type} ${name}`, run: () => onAnswer(world, rest, answer) },
  ]
}

function onAnswer(world: World, state: State, answer: Answer): State {
  switch (answer.type) {
    case 'root':
      return state.writer.blocks[answer.id]?.state === 'ended'
        ? onRoot(world, state, answer.id)
        : state
    case 'appended':
      return onAppended(world, state, answer.id)
    case 'folded':
      return onFolded(world, state, answer.id)
    case 'unfolded':
      return onUnfolded(world, state, answer)
  }
}

/** writer-sealed.ts onRoot: the final header is an entry more; a whole block goes on to the keeper. */
export function onRoot(world: World, state: State, id: number): State {
  const finished = change(state, id, 'finish', { tag: FINAL })
  if (finished.writer.blocks[id]!.isWhole) return handOver(world, finished, id)
  return publish(world, setWriter(finished, { complete: id }))
}

/** writer-sealed.ts handOver. */
export function handOver(world: World, state: State, id: number): State {
  const { sealed } = state.writer
  const handed = setWriter(change(state, id, 'handOver'), {
    handed: id,
    whole: 0,
    sealed: sealed + 1,
  })
  const { block } = handed.writer.blocks[id]!
  const asked = request(handed, { type: 'append', id, block })
  return world.rules.appendFirst ? asked : moveCanonical(world, change(asked, id, 'append'), id)
}

/** writer-sealed.ts onAppended. */
function onAppended(world: World, state: State, id: number): State {
  const done = setWriter(state, { handed: 0 })
  if (state.writer.blocks[id] === undefined) throw new Fault('the keeper appended what is not held')
  if (!world.rules.appendFirst) return done
  return moveCanonical(world, change(done, id, 'append'), id)
}

/** LiveChain.moveCanonical, then one record. */
function moveCanonical(world: World, state: State, id: number): State {
  const { writer } = state
  const isOn = (head: number) => lineOf(writer, head).includes(id)
  const complete = isOn(writer.complete) ? writer.complete : id
  const pending = isOn(writer.pending) ? writer.pending : id
  const kept = new Set(lineOf(writer, pending))
  const moved = setWriter(state, { canonical: id, complete, pending })
  const isGone = (each: number, { state: life }: Block) =>
    !kept.has(each) && life !== 'folded' && life !== 'handed'
  return publish(world, dropWhere(moved, isGone))
}

/** onAnswer 'folded', Publisher.folded, LiveChain.fold. */
function onFolded(world: World, state: State, id: number): State {
  const block = state.writer.blocks[id]
  if (block === undefined) throw new Fault('the keeper folded a block that is not held')
  const folded = setWriter(change(state, id, 'fold', { parent: 0 }), { base: id })
  const isGone = (_: number, { number, state: life }: Block) =>
    number <= block.number && life !== 'folded' && life !== 'handed'
  const left = dropWhere(folded, isGone)
  const { whole, blocks } = left.writer
  const isWholeGone = blocks[whole]?.state === 'dropped'
  return publish(world, isWholeGone ? setWriter(left, { whole: 0 }) : left)
}

/** writer-answers.ts onUnfolded, Publisher.unfolded, LiveChain.unfold: nothing is shown before the answer to the append. */
function onUnfolded(
  world: World,
  state: State,
  { id, block: name, unfolds }: Answer & { readonly type: 'unfolded' },
): State {
  const { writer } = state
  const base = writer.blocks[id]
  if (base === undefined) throw new Fault(`the keeper unfolded to ${name}, which has no name here`)
  const blocks = Object.fromEntries(
    Object.entries(writer.blocks).map(([at, block]) => {
      const isOnBase = block.parent !== 0 && world.truth.block(block.block).parent === name
      return [at, isOnBase ? { ...block, parent: id } : block]
    }),
  )
  const heads = { base: id, canonical: id, complete: id, pending: id }
  const back = setWriter(state, { blocks, unfolds, ...heads })
  const isGone = (each: number, { number, state: life }: Block) =>
    !(life === 'folded' && number <= base.number) &&
    life !== 'handed' &&
    !lineOf(back.writer, each).includes(id)
  return dropWhere(back, isGone)
}

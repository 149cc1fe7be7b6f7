/** Walks from a head down to the base of its snapshot: engine/views/walk.ts. */
import { Fault } from '../explore.ts'
import { type DiffLayer, type Position, type State, TORN, type World } from './model-state.ts'
import { FINAL, type Key } from './scenario.ts'
import type { Thread } from './thread.ts'

/** Models findInChain: the newest entry of a key that belongs to the view. */
export function findInChain({ world, state, me }: Thread, key: Key): string | undefined {
  const { at, base } = me.view!
  const { rules } = world
  let { diffLayer, height, tag: limit } = at
  while (rules.stopAtBase ? height > base.height : diffLayer !== 0) {
    const diffs = diffLayerAt(state, diffLayer)
    const isOwn = height === at.height
    const entry = diffs.entries[key]?.find(([tag]) => !rules.tags || !isOwn || tag <= limit)
    if (entry !== undefined) {
      if (entry[1] === TORN) throw new Fault(`a torn entry of ${key} is read`)
      return entry[1]
    }
    if (diffs.parentHeight !== height) limit = FINAL
    height = diffs.parentHeight
    diffLayer = diffs.parent
  }
  return undefined
}

export function diffLayerAt({ diffLayers }: State, diffLayer: number): DiffLayer {
  if (diffLayer === 0) throw new Fault('the chain of diff layers has a hole')
  const found = diffLayers[diffLayer]
  if (found === null || found === undefined)
    throw new Fault(`recycled pages of diff layer ${diffLayer} are read`)
  return found
}

/** Models blocksOf of walk.ts: the head's own block, then complete ones down to the base. */
export function blocksOf(state: State, from: Position, base: number): readonly Position[] {
  if (from.diffLayer === 0) return []
  const found = [from]
  let { diffLayer, height } = from
  for (;;) {
    const { parent, parentHeight } = diffLayerAt(state, diffLayer)
    if (parentHeight <= base) return found
    if (parentHeight !== height) {
      const { id, block } = diffLayerAt(state, parent)
      found.push({ id, height: parentHeight, diffLayer: parent, tag: FINAL, block })
    }
    diffLayer = parent
    height = parentHeight
  }
}

export const hasTransaction = ({ truth }: World, name: string, tag: number): boolean => {
  const { transaction } = truth.block(name)
  return transaction !== undefined && transaction <= tag
}

/**
 * Models isComplete of openFlatCheck: blocks are compared by id. With a rule off, they are compared
 * by height, or a block between two flashblocks counts too.
 */
export function isComplete(thread: Thread, word: number): boolean {
  const { world, state, me } = thread
  const { at, base } = me.view!
  const { rules } = world
  const blocks = blocksOf(state, at, base.height).filter(
    ({ tag }) => tag === FINAL || !rules.completeBlocks,
  )
  const complete = [base, ...blocks]
  if (rules.persistById) return complete.some(({ id }) => id === word)
  const height = heightOf(thread, word)
  return complete.some((each) => each.height === height)
}

/**
 * Returns the height of a block by its id. The product has it from its own diff layers, or in the
 * word itself where that is a height.
 */
export function heightOf({ world, state, me }: Thread, id: number): number {
  const { at, base } = me.view!
  if (id === base.id) return base.height
  const own = blocksOf(state, at, base.height).find((each) => each.id === id)
  if (own !== undefined) return own.height
  const named = state.persistence.blocks[id]?.block ?? state.writer.blocks[id]?.block
  return named === undefined ? -1 : world.truth.block(named).number
}

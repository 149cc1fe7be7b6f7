/** Walks from a head down to the base of its record: engine/views/walk.ts. */
import { Fault } from '../explore.ts'
import { FINAL, type Key } from './scenario.ts'
import { type Position, type State, type Table, TORN, type World } from './state.ts'
import type { Thread } from './thread.ts'

/** findInChain: the newest entry of a key that belongs to the view. */
export function findInChain({ world, state, me }: Thread, key: Key): string | undefined {
  const { at, base } = me.view!
  const { rules } = world
  let { table, height, tag: limit } = at
  while (rules.stopAtBase ? height > base.height : table !== 0) {
    const here = tableAt(state, table)
    const isOwn = height === at.height
    const entry = here.entries[key]?.find(([tag]) => !rules.tags || !isOwn || tag <= limit)
    if (entry !== undefined) {
      if (entry[1] === TORN) throw new Fault(`a torn entry of ${key} is read`)
      return entry[1]
    }
    if (here.parentHeight !== height) limit = FINAL
    height = here.parentHeight
    table = here.parent
  }
  return undefined
}

export function tableAt({ tables }: State, table: number): Table {
  if (table === 0) throw new Fault('the chain of tables has a hole')
  const found = tables[table]
  if (found === null || found === undefined)
    throw new Fault(`recycled pages of table ${table} are read`)
  return found
}

/** walk.ts blocksOf: the head's own block, then whole ones down to the base. */
export function blocksOf(state: State, from: Position, base: number): readonly Position[] {
  if (from.table === 0) return []
  const found = [from]
  let { table, height } = from
  for (;;) {
    const { parent, parentHeight } = tableAt(state, table)
    if (parentHeight <= base) return found
    if (parentHeight !== height) {
      const { id, block } = tableAt(state, parent)
      found.push({ id, height: parentHeight, table: parent, tag: FINAL, block })
    }
    table = parent
    height = parentHeight
  }
}

export const hasTransaction = ({ truth }: World, name: string, tag: number): boolean => {
  const { transaction } = truth.block(name)
  return transaction !== undefined && transaction <= tag
}

/** openFold's heights: by id. Off: by height, or with the own block between two flashblocks. */
export function isHeld(thread: Thread, word: number): boolean {
  const { world, state, me } = thread
  const { at, base } = me.view!
  const { rules } = world
  const blocks = blocksOf(state, at, base.height).filter(
    ({ tag }) => tag === FINAL || !rules.wholeBlocks,
  )
  const held = [base, ...blocks]
  if (rules.foldById) return held.some(({ id }) => id === word)
  const height = heightOf(thread, word)
  return held.some((each) => each.height === height)
}

/** The height of a block by its id: the product has it from its own tables, or in the word itself where that is a height. */
export function heightOf({ world, state, me }: Thread, id: number): number {
  const { at, base } = me.view!
  if (id === base.id) return base.height
  const own = blocksOf(state, at, base.height).find((each) => each.id === id)
  if (own !== undefined) return own.height
  const named = state.keeper.blocks[id]?.block ?? state.writer.blocks[id]?.block
  return named === undefined ? -1 : world.truth.block(named).number
}

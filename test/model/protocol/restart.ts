/**
 * Checks the reads after kill -9 at any moment, and after another kill during the recovery of
 * engine/storage/blocks/recover.ts.
 */
import { Fault } from '../explore.ts'
import type { Database, State, World } from './model-state.ts'
import { persistKeys, persistRows, unwindBlock } from './persistence.ts'
import { FINAL, KEYS, type Key } from './scenario.ts'

/** @throws {Fault} when a start on this database would contradict what was visible. */
export function checkRestart(world: World, state: State): void {
  const { scenario } = world
  const { database, snapshots, words } = state
  const order = ['g', ...scenario.upstreamBlocks]
  const visible = snapshots[words.head]!.canonical.block
  if (order.indexOf(database.durableHead) < order.indexOf(visible))
    throw new Fault(`after kill -9 the head is ${database.durableHead}, and ${visible} was shown`)
  const found = recover(world, database)
  // The next kill can come after each commit of the recovery.
  for (const between of found) checkRecovered(world, recover(world, between).at(-1)!)
}

/**
 * Lists the states of the database from the kill to the first reader: leaveOtherBranch, then
 * repeatPersist.
 */
function recover(world: World, killed: Database): readonly Database[] {
  const { rules, truth } = world
  const found = [killed]
  const at = () => found.at(-1)!
  const isOnHead = (name: string) => truth.isAncestor(name, killed.durableHead)
  if (rules.openUnwinds) {
    if (rules.persistUndone && at().persisting !== null && !isOnHead(at().persisting!))
      found.push(unwindBlock(world, at()))
    while (!isOnHead(at().persistedHead)) found.push(unwindBlock(world, at()))
  }
  if (rules.persistRepeated && at().persisting !== null) {
    const block = at().persisting!
    found.push(persistKeys(world, at(), block, KEYS.slice(0, 2)))
    found.push(persistRows(world, persistKeys(world, at(), block, KEYS.slice(2)), block))
  }
  return found
}

/**
 * Checks the state of every block as a fresh node reads it. Unpersisted blocks are in diff layers,
 * the others in flat state and history.
 */
function checkRecovered(world: World, database: Database): void {
  const { truth } = world
  const { durableHead, persistedHead, oldest } = database
  const top = truth.block(durableHead).number
  for (let number = oldest; number <= top; number++)
    for (const key of KEYS) {
      const block = truth.ancestor(durableHead, number)
      const got = valueAt(world, database, { block, key })
      const want = truth.state(block, FINAL)[key]
      if (got !== want)
        throw new Fault(
          `after kill -9, head ${durableHead}, persisted head ${persistedHead}: ${key} of ${block} is ${got}, must be ${want}`,
        )
    }
}

function valueAt(
  { truth }: World,
  database: Database,
  { block, key }: { readonly block: string; readonly key: Key },
): string {
  const persisted = truth.block(database.persistedHead).number
  let at = truth.block(block)
  // A reader of the persisted head reads flat state without history.
  for (; at.number > persisted; at = truth.block(at.parent)) {
    const value = truth.diff(at.name)[key]
    if (value !== undefined) return value
  }
  if (at.number === persisted) return database.flat[key]
  const entry = (database.history[key] ?? []).find(([height]) => height > at.number)
  return entry === undefined ? database.flat[key] : entry[1]
}

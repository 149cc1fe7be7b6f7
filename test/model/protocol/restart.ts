/** kill -9 at any moment, and again while engine/storage/blocks/recover.ts puts in order what it finds: what is read after that. */
import { Fault } from '../explore.ts'
import { foldKeys, foldRows, unfoldBlock } from './keeper.ts'
import { FINAL, KEYS, type Key } from './scenario.ts'
import type { Database, State, World } from './state.ts'

/** @throws {Fault} when a start on this database would show anything else than what was shown. */
export function checkRestart(world: World, state: State): void {
  const { scenario } = world
  const { database, records, words } = state
  const order = ['g', ...scenario.sealed]
  const shown = records[words.head]!.canonical.block
  if (order.indexOf(database.durableHead) < order.indexOf(shown))
    throw new Fault(`after kill -9 the head is ${database.durableHead}, and ${shown} was shown`)
  const found = recover(world, database)
  // Each commit of the recovery is a moment for the next kill.
  for (const between of found) checkRecovered(world, recover(world, between).at(-1)!)
}

/** Every state of the database from the kill to the first reader: leaveOtherBranch, repeatFold. */
function recover(world: World, killed: Database): readonly Database[] {
  const { rules, truth } = world
  const found = [killed]
  const at = () => found.at(-1)!
  const isOnHead = (name: string) => truth.isAncestor(name, killed.durableHead)
  if (rules.openUnfolds) {
    if (rules.foldUndone && at().folding !== null && !isOnHead(at().folding!))
      found.push(unfoldBlock(world, at()))
    while (!isOnHead(at().foldHead)) found.push(unfoldBlock(world, at()))
  }
  if (rules.foldRepeated && at().folding !== null) {
    const block = at().folding!
    found.push(foldKeys(world, at(), block, KEYS.slice(0, 2)))
    found.push(foldRows(world, foldKeys(world, at(), block, KEYS.slice(2)), block))
  }
  return found
}

/** State of every block as a reader of a fresh node has it: tables of unfolded blocks, else flat state and history. */
function checkRecovered(world: World, database: Database): void {
  const { truth } = world
  const { durableHead, foldHead, oldest } = database
  const top = truth.block(durableHead).number
  for (let number = oldest; number <= top; number++)
    for (const key of KEYS) {
      const block = truth.ancestor(durableHead, number)
      const got = valueAt(world, database, { block, key })
      const want = truth.state(block, FINAL)[key]
      if (got !== want)
        throw new Fault(
          `after kill -9, head ${durableHead}, fold head ${foldHead}: ${key} of ${block} is ${got}, must be ${want}`,
        )
    }
}

function valueAt(
  { truth }: World,
  database: Database,
  { block, key }: { readonly block: string; readonly key: Key },
): string {
  const folded = truth.block(database.foldHead).number
  let at = truth.block(block)
  // A reader of the fold head sees flat state as it is.
  for (; at.number > folded; at = truth.block(at.parent)) {
    const value = truth.diff(at.name)[key]
    if (value !== undefined) return value
  }
  if (at.number === folded) return database.flat[key]
  const entry = (database.history[key] ?? []).find(([height]) => height > at.number)
  return entry === undefined ? database.flat[key] : entry[1]
}

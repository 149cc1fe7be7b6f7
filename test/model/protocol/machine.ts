/**
 * The shared views as a model: one writer, one keeper, two fronts with a worker each, every order of their steps, and a kill after each. A step
 * is one store to shared memory, one load that another thread may change meanwhile, or one commit of the database; each function names
 * the one of the product that it stands for. Every answer is compared with plain execution.
 *
 * Not in it: loads and stores that the machine puts in another order, blobs and keys of one hash, tries, execution and the lease that
 * the writer has meanwhile (it reads as the front does, while its own steps stand still). Threads and histories on the product have those.
 */
import { type Explored, explore, Fault, type Model } from '../explore.ts'
import { keeperSteps } from './keeper.ts'
import { readerSteps } from './reader.ts'
import { checkRestart } from './restart.ts'
import type { Rules } from './rules.ts'
import { type Scenario, truthOf } from './scenario.ts'
import { type Database, firstState, type State, type World } from './state.ts'
import { isWriterDone, writerSteps } from './writer.ts'

export function exploreScenario(scenario: Scenario, rules: Rules, maxStates: number): Explored {
  const truth = truthOf(scenario, rules)
  return explore(modelOf({ scenario, rules, truth }), maxStates)
}

function modelOf(world: World): Model<State> {
  /** By database: the canonical heads under which its restart was looked at. */
  const restarted = new Map<Database, Set<string>>()
  return {
    initial: firstState(world.scenario),
    steps: (state) => [
      ...writerSteps(world, state),
      ...keeperSteps(world, state),
      ...([0, 1, 2, 3] as const).flatMap((row) => readerSteps(world, state, row)),
    ],
    check(state, isLast) {
      const { database, records, words } = state
      checkPages(state)
      const shown = records[words.head]!.canonical.block
      const seen = restarted.get(database) ?? new Set()
      if (!seen.has(shown)) {
        checkRestart(world, state)
        restarted.set(database, seen.add(shown))
      }
      if (isLast && !isWriterDone(world, state)) throw new Fault('nothing can move any more')
    },
  }
}

/** Each page is free, or belongs to one block, or is retired. */
function checkPages({ tables, writer }: State): void {
  const owners = tables.map(() => 0)
  for (const { tables: own } of Object.values(writer.blocks))
    for (const table of own) owners[table]!++
  for (const { table } of writer.retired) owners[table]!++
  for (const [table, count] of owners.entries()) {
    const isFree = (tables[table] ?? null) === null
    if (count !== (isFree ? 0 : 1)) throw new Fault(`table ${table} has ${count} owners`)
  }
}

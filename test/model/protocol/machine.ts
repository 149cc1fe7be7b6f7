/**
 * The shared views as a model, with one writer, one persistence thread, and two fronts with a
 * worker each. It tries every order of their steps, and a kill after each step. A step is one store
 * to shared memory or one commit of the database. A load that another thread may change meanwhile
 * is also a step. Each function names the function of the product that it stands for. Every
 * response is compared with plain execution.
 *
 * The model leaves out loads and stores that the processor reorders, blobs, keys with equal hashes,
 * tries and execution. It also leaves out the writer's own lease: the writer reads as a front does,
 * and takes no step meanwhile. The torture test and the random histories cover these on the
 * product.
 */
import { type Explored, explore, Fault, type Model } from '../explore.ts'
import { type Database, firstState, type State, type World } from './model-state.ts'
import { persistenceSteps } from './persistence.ts'
import { readerSteps } from './reader.ts'
import { checkRestart } from './restart.ts'
import type { Rules } from './rules.ts'
import { type Scenario, truthOf } from './scenario.ts'
import { isWriterDone, writerSteps } from './writer.ts'

export function exploreScenario(scenario: Scenario, rules: Rules, maxStates: number): Explored {
  const truth = truthOf(scenario, rules)
  return explore(modelOf({ scenario, rules, truth }), maxStates)
}

function modelOf(world: World): Model<State> {
  /** Canonical heads under which the restart from each database was checked. */
  const restarted = new Map<Database, Set<string>>()
  return {
    initial: firstState(world.scenario),
    steps: (state) => [
      ...writerSteps(world, state),
      ...persistenceSteps(world, state),
      ...([0, 1, 2, 3] as const).flatMap((row) => readerSteps(world, state, row)),
    ],
    check(state, isLast) {
      const { database, snapshots, words } = state
      checkPages(state)
      const visible = snapshots[words.head]!.canonical.block
      const seen = restarted.get(database) ?? new Set()
      if (!seen.has(visible)) {
        checkRestart(world, state)
        restarted.set(database, seen.add(visible))
      }
      if (isLast && !isWriterDone(world, state)) throw new Fault('nothing can move any more')
    },
  }
}

/** Each page is free, or belongs to one block, or is retired. */
function checkPages({ diffLayers, writer }: State): void {
  const owners = diffLayers.map(() => 0)
  for (const { diffLayers: own } of Object.values(writer.blocks))
    for (const diffLayer of own) owners[diffLayer]!++
  for (const { diffLayer } of writer.retired) owners[diffLayer]!++
  for (const [diffLayer, count] of owners.entries()) {
    const isFree = (diffLayers[diffLayer] ?? null) === null
    if (count !== (isFree ? 0 : 1)) throw new Fault(`diff layer ${diffLayer} has ${count} owners`)
  }
}

/**
 * The persistence thread of engine/storage/persistence/persistence-state.ts and of append, persist,
 * unwind and prune in engine/storage/blocks. A commit is one step, and so is each store to a shared
 * word.
 */
import { Fault, type Step } from '../explore.ts'
import type {
  Database,
  History,
  ModelResponse,
  Persistence,
  Request,
  State,
  World,
} from './model-state.ts'
import { KEYS, type Key } from './scenario.ts'

/**
 * Messages and slices come in any order, but a message never interrupts a slice (serve in
 * workers/persistence/persistence.ts).
 */
export function persistenceSteps(world: World, state: State): Step<State>[] {
  const { persistence } = state
  const { persisting, unwind } = persistence
  const isInSlice =
    (persisting !== null &&
      (persisting.at === 'stamp' || persisting.at === 'answer' || persisting.at === 'late')) ||
    (unwind !== null && !unwind.isCounted) ||
    persistence.prune === 'word'
  if (isInSlice) return sliceSteps(world, state)
  return [...requestSteps(world, state), ...sliceSteps(world, state)]
}

/**
 * Models Persistence.handle. Appends that arrive during an unwind wait, because the writer sends
 * none before its response.
 */
function requestSteps(world: World, state: State): Step<State>[] {
  const [request] = state.requests
  if (request === undefined) return []
  const rest = { ...state, requests: state.requests.slice(1) }
  if (request.type === 'root')
    return [{ label: 'persistence thread answers a root', run: () => respond(rest, request) }]
  if (state.persistence.unwind !== null) return []
  return [
    {
      label: `persistence thread appends ${request.block}`,
      run: () => append(world, rest, request),
    },
  ]
}

/** Models PersistenceState.#append: one commit, then the response or an unwind. */
function append(
  world: World,
  state: State,
  { id, block }: Request & { readonly type: 'append' },
): State {
  const { rules, truth } = world
  const { persistence, database } = state
  const parent = truth.block(block).parent
  const at = Number(
    Object.keys(persistence.blocks).find(
      (known) => persistence.blocks[Number(known)]!.block === parent,
    ) ?? 0,
  )
  const isOnPersisted =
    at !== 0 && isOn(persistence, at, persistence.persisting?.id ?? persistence.base)
  const durable = commitAppend(world, database, block)
  if (isOnPersisted) {
    const blocks = { ...persistence.blocks, [id]: { block, parent: at } }
    const known = {
      ...state,
      persistence: { ...persistence, blocks, durable: id },
      database: durable,
    }
    return respond(known, { type: 'appended', id })
  }
  if (database.numbers[truth.block(parent).number] !== parent)
    throw new Fault(`the persistence thread has ${block} before its parent`)
  const unwind = { id, block, to: parent, isCounted: false }
  return {
    ...state,
    persistence: { ...persistence, unwind, persisting: null, prune: null },
    database: rules.appendBeforeUnwind ? durable : database,
  }
}

/** Models appendBlock: everything by hash, and the durable head. */
function commitAppend({ rules, truth }: World, database: Database, block: string): Database {
  const { transaction, number } = truth.block(block)
  return {
    ...database,
    durableHead: block,
    ...(rules.indexAtPersist || transaction === undefined ? {} : { transaction: number }),
  }
}

/**
 * Returns whether a block is `ancestor` or stands on it (isOn in
 * engine/storage/persistence/blocks.ts).
 */
function isOn({ blocks }: Persistence, block: number, ancestor: number): boolean {
  for (let at = block; at !== 0; at = blocks[at]?.parent ?? 0) if (at === ancestor) return true
  return false
}

/** Models Persistence.step: unwind, then persist, then prune. */
function sliceSteps(world: World, state: State): Step<State>[] {
  const { persistence } = state
  if (persistence.unwind !== null) return [unwindStep(world, state)]
  if (persistence.persisting !== null) return [persistStep(world, state)]
  const id = nextToPersist(world, state)
  if (id !== undefined) {
    const { block } = persistence.blocks[id]!
    return [
      {
        label: `persistence thread begins to persist ${block}`,
        run: () => startPersist(world, state, id),
      },
    ]
  }
  return persistence.prune === null ? [] : [pruneStep(world, state)]
}

/** Models PersistenceState.#nextToPersist: the block on the base, when it is deep enough. */
function nextToPersist({ scenario, truth }: World, { persistence }: State): number | undefined {
  const number = (id: number) => truth.block(persistence.blocks[id]!.block).number
  if (number(persistence.durable) - number(persistence.base) <= scenario.foldDepth) return undefined
  let at = persistence.durable
  while (persistence.blocks[at]!.parent !== persistence.base) at = persistence.blocks[at]!.parent
  return at
}

/**
 * Models PersistenceState.#startPersisting: blocks that do not descend from this one are void, and
 * the persisted-id word names it.
 */
function startPersist({ rules }: World, state: State, id: number): State {
  const { persistence, words } = state
  const blocks = Object.fromEntries(
    Object.entries(persistence.blocks).filter(
      ([known]) => Number(known) === persistence.base || isOn(persistence, Number(known), id),
    ),
  )
  const persisting = { id, at: 'first' } as const
  const named = rules.persistWordFirst ? { ...words, persistedId: id } : words
  return { ...state, persistence: { ...persistence, blocks, persisting }, words: named }
}

const FIRST_SLICE: readonly Key[] = ['a', 'x']
const LAST_SLICE: readonly Key[] = ['y']

/**
 * Models persistBlock in two slices, the last one with the index rows and the persisted head, then
 * PersistenceState.#stepPersisting.
 */
function persistStep(world: World, state: State): Step<State> {
  const { rules, truth } = world
  const { persistence, database, words } = state
  const { id, at } = persistence.persisting!
  const { block } = persistence.blocks[id]!
  const go = (
    next: NonNullable<Persistence['persisting']>['at'],
    change: Partial<State>,
  ): State => ({
    ...state,
    ...change,
    persistence: { ...persistence, persisting: { id, at: next } },
  })
  const stamped = () => {
    const { number } = truth.block(block)
    const stamps = { ...words.stamps }
    for (const key of keysOf(truth.diff(block))) stamps[key] = number
    return { ...words, stamps }
  }
  switch (at) {
    case 'first':
      return {
        label: `persistence thread persists a and x of ${block}`,
        run: () => {
          const started = { ...database, persisting: block }
          const first = rules.pair
            ? persistKeys(world, started, block, FIRST_SLICE)
            : { ...started, flat: { ...started.flat, ...truth.diff(block) } }
          return go('last', { database: first })
        },
      }
    case 'last':
      return {
        label: `persistence thread persists y and the rows of ${block}`,
        run: () => {
          const keys = rules.pair ? LAST_SLICE : KEYS
          const persisted = persistRows(world, persistKeys(world, database, block, keys), block)
          return go(rules.persistWordFirst ? 'stamp' : 'word', { database: persisted })
        },
      }
    case 'word':
      return {
        label: `persistence thread sets the persisted-id word to ${block} late`,
        run: () => go('stamp', { words: { ...words, persistedId: id } }),
      }
    case 'stamp':
      return {
        label: `persistence thread stamps the keys of ${block}`,
        run: () => go('answer', rules.stampFirst ? { words: stamped() } : {}),
      }
    case 'answer':
      return {
        label: `persistence thread answers persisted ${block}`,
        run: () =>
          rules.stampFirst
            ? respond(endPersist(world, state), { type: 'persisted', id })
            : respond(go('late', {}), { type: 'persisted', id }),
      }
    case 'late':
      return {
        label: `persistence thread stamps the keys of ${block} late`,
        run: () => ({ ...endPersist(world, state), words: stamped() }),
      }
  }
}

/** Models KnownBlocks.persisted. One pass of prune follows. */
function endPersist({ scenario, truth }: World, state: State): State {
  const { persistence, database } = state
  const { id } = persistence.persisting!
  const { [persistence.base]: _, ...rest } = persistence.blocks
  const { block } = persistence.blocks[id]!
  const { pruned = 0 } = scenario
  const isDue = database.pruned < pruned && truth.block(block).number > pruned
  return {
    ...state,
    persistence: {
      ...persistence,
      base: id,
      blocks: { ...rest, [id]: { block, parent: 0 } },
      persisted: { ...persistence.persisted, [block]: id },
      persisting: null,
      prune: isDue ? 'horizon' : null,
    },
  }
}

/**
 * Models PersistenceState.#stepUnwind: the unwind count, one commit per block, then the
 * persisted-id word and the responses.
 */
function unwindStep(world: World, state: State): Step<State> {
  const { rules, truth } = world
  const { persistence, database, words } = state
  const { id, block, to, isCounted } = persistence.unwind!
  const counted = { ...words, unwinds: words.unwinds + 1 }
  const unwind = { id, block, to, isCounted: true }
  if (!isCounted)
    return {
      label: 'persistence thread raises the unwind count',
      run: () => ({
        ...state,
        words: rules.unwindFirst ? counted : words,
        persistence: { ...persistence, unwind },
      }),
    }
  const isAbove = truth.block(database.persistedHead).number > truth.block(to).number
  const started = rules.persistUndone ? database.persisting : null
  if (started !== null || isAbove)
    return {
      label: `persistence thread unwinds ${started ?? database.persistedHead}`,
      run: () => {
        const back = unwindBlock(world, database)
        const lowered = { ...back, durableHead: back.persistedHead }
        return { ...state, database: rules.appendBeforeUnwind ? back : lowered }
      },
    }
  return {
    label: `persistence thread sets the persisted-id word back to ${to}`,
    run: () => {
      const base = persistence.persisted[to]!
      const blocks = { [base]: { block: to, parent: 0 }, [id]: { block, parent: base } }
      const moved = { ...(rules.unwindFirst ? words : counted), persistedId: base }
      const done: State = {
        ...state,
        words: moved,
        persistence: { ...persistence, base, durable: id, blocks, unwind: null },
        database: rules.appendBeforeUnwind ? database : commitAppend(world, database, block),
      }
      const unwound = { type: 'unwound', id: base, block: to, unwinds: moved.unwinds } as const
      return respond(respond(done, unwound), { type: 'appended', id })
    },
  }
}

/**
 * Models pruneHistory of engine/storage/blocks/prune.ts: the horizon becomes durable, then it
 * changes in memory, then the rows go.
 */
function pruneStep({ rules, scenario }: World, state: State): Step<State> {
  const { persistence, database, words } = state
  const number = scenario.pruned!
  const raised = { ...words, oldest: number }
  const go = (prune: Persistence['prune'], change: Partial<State>): State => ({
    ...state,
    ...change,
    persistence: { ...persistence, prune },
  })
  switch (persistence.prune!) {
    case 'horizon':
      return {
        label: 'persistence thread stores the horizon',
        run: () => {
          const stored = rules.horizonDurable ? { ...database, oldest: number } : database
          return go(rules.pruneFirst ? 'word' : 'rows', { database: stored })
        },
      }
    case 'word':
      return {
        label: 'persistence thread raises the horizon',
        run: () => go('rows', { words: raised }),
      }
    case 'rows':
      return {
        label: 'persistence thread prunes',
        run: () => {
          const history: Partial<Record<Key, readonly History[]>> = {}
          for (const key of KEYS)
            history[key] = (database.history[key] ?? []).filter(([height]) => height > number)
          const pruned = { ...database, history, pruned: number }
          return go(rules.pruneFirst ? null : 'lateWord', { database: pruned })
        },
      }
    case 'lateWord':
      return {
        label: 'persistence thread raises the horizon late',
        run: () => go(null, { words: raised }),
      }
  }
}

/**
 * Models putRow: flat value and history entry of a key. The previous value is that of the appended
 * diff.
 */
export function persistKeys(
  { rules, truth }: World,
  database: Database,
  block: string,
  keys: readonly Key[],
): Database {
  const { number, parent } = truth.block(block)
  const diff = truth.diff(block)
  const before = rules.prevStored ? truth.state(parent, -1) : database.flat
  const flat = { ...database.flat }
  const history = { ...database.history }
  for (const key of keys) {
    const value = diff[key]
    if (value === undefined) continue
    const others = (history[key] ?? []).filter(([height]) => height !== number)
    history[key] = [...others, [number, before[key]] as const].sort(([a], [b]) => a - b)
    flat[key] = value
  }
  return { ...database, flat, history }
}

/** Models putIndexes and the write of the persisted head. */
export function persistRows({ truth }: World, database: Database, block: string): Database {
  const { number, transaction } = truth.block(block)
  return {
    ...database,
    numbers: { ...database.numbers, [number]: block },
    transaction: transaction === undefined ? database.transaction : number,
    persistedHead: block,
    persisting: null,
  }
}

/**
 * Models unwindBlock in one commit: it undoes an unfinished persist pass first, otherwise the
 * persisted head.
 */
export function unwindBlock({ rules, truth }: World, database: Database): Database {
  const started = rules.persistUndone ? database.persisting : null
  const block = started ?? database.persistedHead
  const { number, parent, transaction } = truth.block(block)
  const before = truth.state(parent, -1)
  const flat = { ...database.flat }
  const history = { ...database.history }
  for (const key of keysOf(truth.diff(block))) {
    flat[key] = before[key]
    history[key] = (history[key] ?? []).filter(([height]) => height !== number)
  }
  const back = { ...database, flat, history, persisting: null }
  if (started !== null) return back
  const { [number]: _, ...numbers } = database.numbers
  return {
    ...back,
    numbers,
    transaction: transaction === undefined ? database.transaction : null,
    persistedHead: parent,
  }
}

const keysOf = (diff: object) => KEYS.filter((key) => key in diff)

const respond = (state: State, given: ModelResponse): State => ({
  ...state,
  responses: [...state.responses, given],
})

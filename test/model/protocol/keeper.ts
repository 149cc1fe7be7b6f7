/** The keeper of engine/storage/{keeper,append,fold,unfold,prune}.ts: a commit is a step, and so is each store to a shared word. */
import { Fault, type Step } from '../explore.ts'
import { KEYS, type Key } from './scenario.ts'
import type { Answer, Database, History, Keeper, Request, State, World } from './state.ts'

/** Messages and slices in any order; inside a slice nothing else is done (workers/keeper/keeper.ts serve). */
export function keeperSteps(world: World, state: State): Step<State>[] {
  const { keeper } = state
  const { fold, unfold } = keeper
  const isInSlice =
    (fold !== null && (fold.at === 'stamp' || fold.at === 'answer' || fold.at === 'late')) ||
    (unfold !== null && !unfold.isCounted) ||
    keeper.prune === 'word'
  if (isInSlice) return sliceSteps(world, state)
  return [...requestSteps(world, state), ...sliceSteps(world, state)]
}

/** Keeper.handle. Appends that come during an unfold wait; the writer sends none before its answer. */
function requestSteps(world: World, state: State): Step<State>[] {
  const [asked] = state.requests
  if (asked === undefined) return []
  const rest = { ...state, requests: state.requests.slice(1) }
  if (asked.type === 'root')
    return [{ label: 'keeper answers a root', run: () => answer(rest, asked) }]
  if (state.keeper.unfold !== null) return []
  return [{ label: `keeper appends ${asked.block}`, run: () => append(world, rest, asked) }]
}

/** KeeperState.#append: one commit; then the answer, or an unfold. */
function append(
  world: World,
  state: State,
  { id, block }: Request & { readonly type: 'append' },
): State {
  const { rules, truth } = world
  const { keeper, database } = state
  const parent = truth.block(block).parent
  const at = Number(
    Object.keys(keeper.blocks).find((known) => keeper.blocks[Number(known)]!.block === parent) ?? 0,
  )
  const isOnFold = at !== 0 && isOn(keeper, at, keeper.fold?.id ?? keeper.base)
  const durable = commitAppend(world, database, block)
  if (isOnFold) {
    const blocks = { ...keeper.blocks, [id]: { block, parent: at } }
    const known = { ...state, keeper: { ...keeper, blocks, durable: id }, database: durable }
    return answer(known, { type: 'appended', id })
  }
  if (database.numbers[truth.block(parent).number] !== parent)
    throw new Fault(`the keeper has ${block} before its parent`)
  const unfold = { id, block, to: parent, isCounted: false }
  return {
    ...state,
    keeper: { ...keeper, unfold, fold: null, prune: null },
    database: rules.appendBeforeUnfold ? durable : database,
  }
}

/** appendBlock: everything by hash, and the durable head. */
function commitAppend({ rules, truth }: World, database: Database, block: string): Database {
  const { transaction, number } = truth.block(block)
  return {
    ...database,
    durableHead: block,
    ...(rules.indexAtFold || transaction === undefined ? {} : { transaction: number }),
  }
}

/** Whether a block is `ancestor` or stands on it (keeper-blocks.ts isOn). */
function isOn({ blocks }: Keeper, block: number, ancestor: number): boolean {
  for (let at = block; at !== 0; at = blocks[at]?.parent ?? 0) if (at === ancestor) return true
  return false
}

/** Keeper.step: unfold, then fold, then prune. */
function sliceSteps(world: World, state: State): Step<State>[] {
  const { keeper } = state
  if (keeper.unfold !== null) return [unfoldStep(world, state)]
  if (keeper.fold !== null) return [foldStep(world, state)]
  const id = nextFold(world, state)
  if (id !== undefined) {
    const { block } = keeper.blocks[id]!
    return [{ label: `keeper begins to fold ${block}`, run: () => beginFold(world, state, id) }]
  }
  return keeper.prune === null ? [] : [pruneStep(world, state)]
}

/** KeeperState.#nextFold: the block on the base, when it is deep enough. */
function nextFold({ scenario, truth }: World, { keeper }: State): number | undefined {
  const number = (id: number) => truth.block(keeper.blocks[id]!.block).number
  if (number(keeper.durable) - number(keeper.base) <= scenario.foldDepth) return undefined
  let at = keeper.durable
  while (keeper.blocks[at]!.parent !== keeper.base) at = keeper.blocks[at]!.parent
  return at
}

/** KeeperState.#startFold: what stands beside the block is void, the fold word names it. */
function beginFold({ rules }: World, state: State, id: number): State {
  const { keeper, words } = state
  const blocks = Object.fromEntries(
    Object.entries(keeper.blocks).filter(
      ([known]) => Number(known) === keeper.base || isOn(keeper, Number(known), id),
    ),
  )
  const fold = { id, at: 'first' } as const
  const named = rules.foldWordFirst ? { ...words, fold: id } : words
  return { ...state, keeper: { ...keeper, blocks, fold }, words: named }
}

const FIRST_SLICE: readonly Key[] = ['a', 'x']
const LAST_SLICE: readonly Key[] = ['y']

/** foldBlock: two slices, the last one with the index rows and the fold head; then KeeperState.#stepFold. */
function foldStep(world: World, state: State): Step<State> {
  const { rules, truth } = world
  const { keeper, database, words } = state
  const { id, at } = keeper.fold!
  const { block } = keeper.blocks[id]!
  const go = (next: NonNullable<Keeper['fold']>['at'], change: Partial<State>): State => ({
    ...state,
    ...change,
    keeper: { ...keeper, fold: { id, at: next } },
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
        label: `keeper folds a and x of ${block}`,
        run: () => {
          const begun = { ...database, folding: block }
          const first = rules.pair
            ? foldKeys(world, begun, block, FIRST_SLICE)
            : { ...begun, flat: { ...begun.flat, ...truth.diff(block) } }
          return go('last', { database: first })
        },
      }
    case 'last':
      return {
        label: `keeper folds y and the rows of ${block}`,
        run: () => {
          const keys = rules.pair ? LAST_SLICE : KEYS
          const folded = foldRows(world, foldKeys(world, database, block, keys), block)
          return go(rules.foldWordFirst ? 'stamp' : 'word', { database: folded })
        },
      }
    case 'word':
      return {
        label: `keeper sets the fold word to ${block} late`,
        run: () => go('stamp', { words: { ...words, fold: id } }),
      }
    case 'stamp':
      return {
        label: `keeper stamps the keys of ${block}`,
        run: () => go('answer', rules.stampFirst ? { words: stamped() } : {}),
      }
    case 'answer':
      return {
        label: `keeper answers folded ${block}`,
        run: () =>
          rules.stampFirst
            ? answer(endFold(world, state), { type: 'folded', id })
            : answer(go('late', {}), { type: 'folded', id }),
      }
    case 'late':
      return {
        label: `keeper stamps the keys of ${block} late`,
        run: () => ({ ...endFold(world, state), words: stamped() }),
      }
  }
}

/** KnownBlocks.folded; one pass of prune after it. */
function endFold({ scenario, truth }: World, state: State): State {
  const { keeper, database } = state
  const { id } = keeper.fold!
  const { [keeper.base]: _, ...rest } = keeper.blocks
  const { block } = keeper.blocks[id]!
  const { pruned = 0 } = scenario
  const isDue = database.pruned < pruned && truth.block(block).number > pruned
  return {
    ...state,
    keeper: {
      ...keeper,
      base: id,
      blocks: { ...rest, [id]: { block, parent: 0 } },
      folded: { ...keeper.folded, [block]: id },
      fold: null,
      prune: isDue ? 'horizon' : null,
    },
  }
}

/** KeeperState.#stepUnfold: the count, block by block one commit, the fold word and the answers. */
function unfoldStep(world: World, state: State): Step<State> {
  const { rules, truth } = world
  const { keeper, database, words } = state
  const { id, block, to, isCounted } = keeper.unfold!
  const counted = { ...words, unfolds: words.unfolds + 1 }
  const unfold = { id, block, to, isCounted: true }
  if (!isCounted)
    return {
      label: 'keeper raises the unfold count',
      run: () => ({
        ...state,
        words: rules.unfoldFirst ? counted : words,
        keeper: { ...keeper, unfold },
      }),
    }
  const isAbove = truth.block(database.foldHead).number > truth.block(to).number
  const begun = rules.foldUndone ? database.folding : null
  if (begun !== null || isAbove)
    return {
      label: `keeper unfolds ${begun ?? database.foldHead}`,
      run: () => {
        const back = unfoldBlock(world, database)
        const lowered = { ...back, durableHead: back.foldHead }
        return { ...state, database: rules.appendBeforeUnfold ? back : lowered }
      },
    }
  return {
    label: `keeper sets the fold word back to ${to}`,
    run: () => {
      const base = keeper.folded[to]!
      const blocks = { [base]: { block: to, parent: 0 }, [id]: { block, parent: base } }
      const moved = { ...(rules.unfoldFirst ? words : counted), fold: base }
      const done: State = {
        ...state,
        words: moved,
        keeper: { ...keeper, base, durable: id, blocks, unfold: null },
        database: rules.appendBeforeUnfold ? database : commitAppend(world, database, block),
      }
      const unfolded = { type: 'unfolded', id: base, block: to, unfolds: moved.unfolds } as const
      return answer(answer(done, unfolded), { type: 'appended', id })
    },
  }
}

/** prune.ts pruneHistory: the horizon durable, then in memory, then the rows. */
function pruneStep({ rules, scenario }: World, state: State): Step<State> {
  const { keeper, database, words } = state
  const number = scenario.pruned!
  const raised = { ...words, oldest: number }
  const go = (prune: Keeper['prune'], change: Partial<State>): State => ({
    ...state,
    ...change,
    keeper: { ...keeper, prune },
  })
  switch (keeper.prune!) {
    case 'horizon':
      return {
        label: 'keeper stores the horizon',
        run: () => {
          const stored = rules.horizonDurable ? { ...database, oldest: number } : database
          return go(rules.pruneFirst ? 'word' : 'rows', { database: stored })
        },
      }
    case 'word':
      return { label: 'keeper raises the horizon', run: () => go('rows', { words: raised }) }
    case 'rows':
      return {
        label: 'keeper prunes',
        run: () => {
          const history: Partial<Record<Key, readonly History[]>> = {}
          for (const key of KEYS)
            history[key] = (database.history[key] ?? []).filter(([height]) => height > number)
          const pruned = { ...database, history, pruned: number }
          return go(rules.pruneFirst ? null : 'lateWord', { database: pruned })
        },
      }
    case 'lateWord':
      return { label: 'keeper raises the horizon late', run: () => go(null, { words: raised }) }
  }
}

/** putRow: flat value and history entry of a key; the previous value is that of the appended diff. */
export function foldKeys(
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

/** putIndexes, and the fold head. */
export function foldRows({ truth }: World, database: Database, block: string): Database {
  const { number, transaction } = truth.block(block)
  return {
    ...database,
    numbers: { ...database.numbers, [number]: block },
    transaction: transaction === undefined ? database.transaction : number,
    foldHead: block,
    folding: null,
  }
}

/** unfoldBlock: a fold that was begun first, else the fold head; one commit. */
export function unfoldBlock({ rules, truth }: World, database: Database): Database {
  const begun = rules.foldUndone ? database.folding : null
  const block = begun ?? database.foldHead
  const { number, parent, transaction } = truth.block(block)
  const before = truth.state(parent, -1)
  const flat = { ...database.flat }
  const history = { ...database.history }
  for (const key of keysOf(truth.diff(block))) {
    flat[key] = before[key]
    history[key] = (history[key] ?? []).filter(([height]) => height !== number)
  }
  const back = { ...database, flat, history, folding: null }
  if (begun !== null) return back
  const { [number]: _, ...numbers } = database.numbers
  return {
    ...back,
    numbers,
    transaction: transaction === undefined ? database.transaction : null,
    foldHead: parent,
  }
}

const keysOf = (diff: object) => KEYS.filter((key) => key in diff)

const answer = (state: State, given: Answer): State => ({
  ...state,
  answers: [...state.answers, given],
})

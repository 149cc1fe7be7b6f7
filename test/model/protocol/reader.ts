/** What a reading thread does next: reads of engine/views/{reader,cache}.ts and engine/chain/view-blocks.ts. */
import { Fault, type Step } from '../explore.ts'
import {
  confirmRow,
  deadSteps,
  lookAtFloor,
  lookAtFront,
  mortalSteps,
  openRecord,
  releaseLease,
  setRow,
  takeNumber,
  takeRowBack,
} from './lease.ts'
import type { Rules } from './rules.ts'
import { type Ask, FINAL, KEYS, type Key } from './scenario.ts'
import type { Position, Reader, State, World } from './state.ts'
import { NAMES, type Row, set, step, type Thread } from './thread.ts'
import { blocksOf, findInChain, hasTransaction, heightOf, isHeld, tableAt } from './walk.ts'

export function readerSteps(world: World, state: State, row: Row): Step<State>[] {
  const reading = world.scenario.readers[row]
  if (reading === undefined) return []
  const thread = { world, state, row, me: state[NAMES[row]], reading }
  const { me } = thread
  if (me.isDead) return deadSteps(thread)
  return [...(PROGRAM[me.at]?.(thread) ?? []), ...mortalSteps(thread)]
}

/** What the thread does next, by where it stands. */
const PROGRAM: Readonly<Record<string, (thread: Thread) => Step<State>[]>> = {
  idle: takeNumber,
  row: setRow,
  floor: lookAtFloor,
  confirm: confirmRow,
  front: lookAtFront,
  back: takeRowBack,
  open: openRecord,
  walk: walkTables,
  stamp: lookAtStamp,
  cached: readCached,
  flat: readFlat,
  fold: lookAtFold,
  unfolds: lookAtUnfolds,
  latest: readLatest,
  history: readHistory,
  horizon: lookAtHorizon,
  place: readPlace,
  placeValid: validatePlace,
  number: readNumber,
  valid: validateRow,
  release: releaseLease,
}

/**
 * findInChain and the walks beside it, in one step: of the tables of a chain only the newest still changes, and of it one index word is
 * loaded for a key.
 */
function walkTables(thread: Thread): Step<State>[] {
  const { world, row, me } = thread
  const { ask } = me.view!
  const run = () => {
    const { at, base } = me.view!
    if (ask === 'header') return headerOf(thread)
    if (ask === 'transaction') {
      const found = blocksOf(thread.state, at, base.height).find(
        ({ block, height, tag }) => height > base.height && hasTransaction(world, block, tag),
      )
      if (found === undefined) return set(thread, { at: 'place' })
      return answer(thread, found.block, 'its table')
    }
    if (ask[0] === '#') return numberOf(thread, Number(ask.slice(1)))
    return stateOf(thread, ask as Key)
  }
  return [{ label: `${NAMES[row]} looks for ${ask} in the tables`, run }]
}

/** chain/block.ts tableBlock: header and body of a head are in its own table, also when it is the base. */
function headerOf(thread: Thread): State {
  const { at } = thread.me.view!
  if (at.table === 0) return answer(thread, at.block, 'the store')
  return answer(thread, tableAt(thread.state, at.table).block, 'its table')
}

/** readBlockHash. Off: the row of the database is asked, whatever the height. */
function numberOf(thread: Thread, number: number): State {
  const { world, state, me } = thread
  const { at, base } = me.view!
  if (number > base.height && world.rules.numberFromChain) {
    const found = blocksOf(state, at, base.height).find(({ height }) => height === number)
    if (found === undefined) throw new Fault(`no table of height ${number} in the chain`)
    return answer(thread, found.block, 'its table')
  }
  if (number === base.height) return answer(thread, base.block, 'the record')
  return set(thread, { at: 'number' })
}

/** openState's read. */
function stateOf(thread: Thread, key: Key): State {
  const { world, me } = thread
  const { at, base } = me.view!
  const isFolded = at.height <= base.height
  if (at.tag !== FINAL && isFolded && world.rules.prefixOfBase)
    return set(thread, { at: 'release' })
  if (at.height < base.height && at.tag === FINAL) return set(thread, { at: 'latest' })
  const value = findInChain(thread, key)
  if (value !== undefined) return answer(thread, value, 'a table')
  if (world.scenario.hasCache === true && me.cache[key] !== undefined)
    return set(thread, { at: 'stamp' })
  return set(thread, { at: orderOf(world.rules)[0]! })
}

/** isFresh: the stamp is a load of its own. */
function lookAtStamp(thread: Thread): Step<State>[] {
  const { world, state, me } = thread
  const { rules } = world
  const { base, unfolds, ask } = me.view!
  const key = ask as Key
  const cached = me.cache[key]!
  const run = (): State => {
    const isFresh =
      (!rules.cacheUnfolds || cached.unfolds === unfolds) &&
      (!rules.cacheStamp || state.words.stamps[key] <= cached.height) &&
      (!rules.cacheInChain || cached.height <= base.height || isHeld(thread, cached.id))
    if (isFresh && rules.cacheVoid) return set(thread, { at: 'cached' })
    if (isFresh) return answer(thread, cached.value, 'its cache')
    return set(thread, { at: orderOf(rules)[0]! })
  }
  return [{ label: `${NAMES[thread.row]} looks at the stamp of ${key}`, run }]
}

/** What follows the tables: flat value, fold word, unfold count. */
function orderOf({ checkAfter, unfoldLast }: Rules): readonly FlatStep[] {
  if (!checkAfter) return ['fold', 'unfolds', 'flat']
  return unfoldLast ? ['flat', 'fold', 'unfolds'] : ['flat', 'unfolds', 'fold']
}
type FlatStep = 'flat' | 'fold' | 'unfolds'

/** On to the next of them; the last one has all that is to be judged. */
function follow(thread: Thread, done: FlatStep, change: Partial<Reader>): State {
  const order = orderOf(thread.world.rules)
  const next = order[order.indexOf(done) + 1]
  if (next !== undefined) return set(thread, { ...change, at: next })
  return judge({ ...thread, me: { ...thread.me, ...change } })
}

/** isFresh: after the stamp, which the fold of another branch may have set back. */
function readCached(thread: Thread): Step<State>[] {
  const { me, row } = thread
  const run = () =>
    isVoid(thread)
      ? set(thread, { at: 'release' })
      : answer(thread, me.cache[me.view!.ask as Key]!.value, 'its cache')
  return [{ label: `${NAMES[row]} looks at the unfold count`, run }]
}

function readFlat(thread: Thread): Step<State>[] {
  const { state, me, row } = thread
  const key = me.view!.ask as Key
  const value = state.database.flat[key]
  const run = () => follow(thread, 'flat', { value })
  return [{ label: `${NAMES[row]} reads ${key} from flat state: ${value}`, run }]
}

/** isOvertaken. */
function lookAtFold(thread: Thread): Step<State>[] {
  const word = thread.state.words.fold
  const run = () => follow(thread, 'fold', { word })
  return [{ label: `${NAMES[thread.row]} looks at the fold word: ${word}`, run }]
}

/** assertValid. */
function lookAtUnfolds(thread: Thread): Step<State>[] {
  const run = () =>
    isVoid(thread) ? set(thread, { at: 'release' }) : follow(thread, 'unfolds', {})
  return [{ label: `${NAMES[thread.row]} looks at the unfold count`, run }]
}

const isVoid = ({ world, state, me }: Thread) =>
  world.rules.unfoldCheck && state.words.unfolds !== me.view!.unfolds

/** The flat value is the view's when the fold word names the base or a block that the view holds to the end. */
function judge(thread: Thread): State {
  const { world, me } = thread
  const { word } = me
  const { rules, scenario } = world
  const { unfolds, ask } = me.view!
  const isRight = !rules.foldCheck || isHeld(thread, word)
  if (!isRight)
    return set(thread, { at: rules.flatThenHistory ? 'latest' : 'history', value: null })
  const answered = answer(thread, me.value!, 'flat state')
  if (scenario.hasCache !== true || !rules.foldCheck) return answered
  const height = heightOf(thread, word)
  const cached = { value: me.value!, id: word, height, unfolds }
  const reader = answered[NAMES[thread.row]]
  return {
    ...answered,
    [NAMES[thread.row]]: { ...reader, cache: { ...reader.cache, [ask]: cached } },
  }
}

/** history(): flat value, entry after the height, unfold count, horizon. */
function readLatest(thread: Thread): Step<State>[] {
  const { world, state, me } = thread
  const value = state.database.flat[me.view!.ask as Key]
  const at = world.rules.flatThenHistory ? 'history' : 'horizon'
  return [
    step(thread, `reads ${me.view!.ask} from flat state for history: ${value}`, { at, value }),
  ]
}

function readHistory(thread: Thread): Step<State>[] {
  const { world, state, me } = thread
  const number = historyHeight(thread)
  const entries = state.database.history[me.view!.ask as Key] ?? []
  const entry = entries.find(([height]) => height > number)?.[1] ?? null
  const at = world.rules.flatThenHistory ? 'horizon' : 'latest'
  return [step(thread, `seeks its history after ${number}: ${entry}`, { at, entry })]
}

/** A whole block below the base by its own height, whoever is overtaken by the base. */
function historyHeight({ world, me }: Thread): number {
  const { at, base } = me.view!
  return at.height < base.height || !world.rules.historyAtBase ? at.height : base.height
}

function lookAtHorizon(thread: Thread): Step<State>[] {
  const { world, state, me } = thread
  const { rules } = world
  const run = (): State => {
    if (isVoid(thread)) return set(thread, { at: 'release' })
    if (rules.pruneCheck && historyHeight(thread) < state.words.oldest)
      return set(thread, { at: 'release' })
    return answer(thread, me.entry ?? me.value!, 'history')
  }
  return [{ label: `${NAMES[thread.row]} looks at unfold count and horizon`, run }]
}

/** findTransaction: the row of the database, then the block of that number. */
function readPlace(thread: Thread): Step<State>[] {
  const height = thread.state.database.transaction ?? -1
  return [
    step(thread, `reads the row of the transaction: ${height}`, { at: 'placeValid', word: height }),
  ]
}

function validatePlace(thread: Thread): Step<State>[] {
  const { world, me } = thread
  const { base } = me.view!
  const run = (): State => {
    if (isVoid(thread)) return set(thread, { at: 'release' })
    const isAbove = me.word > base.height && world.rules.rowsAbove
    if (me.word < 0 || isAbove) return answer(thread, null, 'a row')
    if (me.word === base.height) return answer(thread, base.block, 'a row')
    return set(thread, { at: 'number' })
  }
  return [{ label: `${NAMES[thread.row]} looks at the unfold count`, run }]
}

function readNumber(thread: Thread): Step<State>[] {
  const { state, me } = thread
  const { ask } = me.view!
  const number = ask === 'transaction' ? me.word : Number(ask.slice(1))
  const value = state.database.numbers[number] ?? null
  return [step(thread, `reads number ${number}: ${value}`, { at: 'valid', value })]
}

/** assertValid after a row. */
function validateRow(thread: Thread): Step<State>[] {
  const run = () =>
    isVoid(thread) ? set(thread, { at: 'release' }) : answer(thread, thread.me.value, 'a row')
  return [{ label: `${NAMES[thread.row]} looks at the unfold count`, run }]
}

/** @throws {Fault} for anything but what plain execution gives. */
function answer(thread: Thread, got: string | null, where: string): State {
  const { world, me } = thread
  const { at, ask } = me.view!
  const want = wanted(world, at, ask)
  const shown = `${at.block}${at.tag === FINAL ? '' : `.${at.tag}`}`
  if (got !== want) throw new Fault(`${ask} at ${shown} is ${got} in ${where}, must be ${want}`)
  return set(thread, { at: 'release' })
}

function wanted({ truth }: World, at: Position, ask: Ask): string | null {
  if (ask === 'header') return at.block
  if (ask === 'transaction') return truth.transaction(at.block, at.tag) ?? null
  if (KEYS.includes(ask as Key)) return truth.state(at.block, at.tag)[ask as Key]
  return truth.ancestor(at.block, Number(ask.slice(1)))
}

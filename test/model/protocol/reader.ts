/**
 * The steps of a reading thread: reads of engine/views/reader.ts and cache.ts, and of
 * engine/chain/view-blocks.ts.
 */
import { Fault, type Step } from '../explore.ts'
import {
  confirmRow,
  deadSteps,
  mortalSteps,
  openRecord,
  readFloor,
  readFront,
  releaseLease,
  setRow,
  takeNumber,
  takeRowBack,
} from './lease.ts'
import type { Position, Reader, State, World } from './model-state.ts'
import type { Rules } from './rules.ts'
import { FINAL, KEYS, type Key, type Query } from './scenario.ts'
import { NAMES, type Row, set, step, type Thread } from './thread.ts'
import { blocksOf, diffLayerAt, findInChain, hasTransaction, heightOf, isComplete } from './walk.ts'

export function readerSteps(world: World, state: State, row: Row): Step<State>[] {
  const reading = world.scenario.readers[row]
  if (reading === undefined) return []
  const thread = { world, state, row, me: state[NAMES[row]], reading }
  const { me } = thread
  if (me.isDead) return deadSteps(thread)
  return [...(PROGRAM[me.at]?.(thread) ?? []), ...mortalSteps(thread)]
}

/** Next step of the thread, by its state. */
const PROGRAM: Readonly<Record<string, (thread: Thread) => Step<State>[]>> = {
  idle: takeNumber,
  row: setRow,
  floor: readFloor,
  confirm: confirmRow,
  front: readFront,
  back: takeRowBack,
  open: openRecord,
  walk: walkDiffLayers,
  stamp: readStamp,
  cached: readCached,
  flat: readFlat,
  persistedId: readPersistedId,
  unwinds: readUnwinds,
  latest: readLatest,
  history: readHistory,
  horizon: readHorizon,
  location: readLocation,
  locationValid: validateLocation,
  number: readNumber,
  valid: validateRow,
  release: releaseLease,
}

/**
 * Models findInChain and the walks beside it in one step. Only the newest diff layer of a chain
 * still changes. A reader loads one of that layer's index words for a key.
 */
function walkDiffLayers(thread: Thread): Step<State>[] {
  const { world, row, me } = thread
  const { request } = me.view!
  const run = () => {
    const { at, base } = me.view!
    if (request === 'header') return headerOf(thread)
    if (request === 'transaction') {
      const found = blocksOf(thread.state, at, base.height).find(
        ({ block, height, tag }) => height > base.height && hasTransaction(world, block, tag),
      )
      if (found === undefined) return set(thread, { at: 'location' })
      return respond(thread, found.block, 'its diff layer')
    }
    if (request[0] === '#') return numberOf(thread, Number(request.slice(1)))
    return stateOf(thread, request as Key)
  }
  return [{ label: `${NAMES[row]} looks for ${request} in the diff layers`, run }]
}

/**
 * Models diffLayerBlock of engine/chain/block.ts. Header and body of a head are in its own diff
 * layer, even when the head is the base.
 */
function headerOf(thread: Thread): State {
  const { at } = thread.me.view!
  if (at.diffLayer === 0) return respond(thread, at.block, 'the store')
  return respond(thread, diffLayerAt(thread.state, at.diffLayer).block, 'its diff layer')
}

/** Models readBlockHash. With the rule off, the row of the database answers at every height. */
function numberOf(thread: Thread, number: number): State {
  const { world, state, me } = thread
  const { at, base } = me.view!
  if (number > base.height && world.rules.numberFromChain) {
    const found = blocksOf(state, at, base.height).find(({ height }) => height === number)
    if (found === undefined) throw new Fault(`no diff layer of height ${number} in the chain`)
    return respond(thread, found.block, 'its diff layer')
  }
  if (number === base.height) return respond(thread, base.block, 'the snapshot')
  return set(thread, { at: 'number' })
}

/** Models the read of openState. */
function stateOf(thread: Thread, key: Key): State {
  const { world, me } = thread
  const { at, base } = me.view!
  const isPersisted = at.height <= base.height
  if (at.tag !== FINAL && isPersisted && world.rules.prefixOfBase)
    return set(thread, { at: 'release' })
  if (at.height < base.height && at.tag === FINAL) return set(thread, { at: 'latest' })
  const value = findInChain(thread, key)
  if (value !== undefined) return respond(thread, value, 'a diff layer')
  if (world.scenario.hasCache === true && me.cache[key] !== undefined)
    return set(thread, { at: 'stamp' })
  return set(thread, { at: orderOf(world.rules)[0]! })
}

/** Models isFresh: the stamp is a load of its own. */
function readStamp(thread: Thread): Step<State>[] {
  const { world, state, me } = thread
  const { rules } = world
  const { base, unwinds, request } = me.view!
  const key = request as Key
  const cached = me.cache[key]!
  const run = (): State => {
    const isFresh =
      (!rules.cacheUnwinds || cached.unwinds === unwinds) &&
      (!rules.cacheStamp || state.words.stamps[key] <= cached.height) &&
      (!rules.cacheInChain || cached.height <= base.height || isComplete(thread, cached.id))
    if (isFresh && rules.cacheVoid) return set(thread, { at: 'cached' })
    if (isFresh) return respond(thread, cached.value, 'its cache')
    return set(thread, { at: orderOf(rules)[0]! })
  }
  return [{ label: `${NAMES[thread.row]} looks at the stamp of ${key}`, run }]
}

/** The steps after the diff layers read flat value, persisted-id word and unwind count. */
function orderOf({ checkAfter, unwindLast }: Rules): readonly FlatStep[] {
  if (!checkAfter) return ['persistedId', 'unwinds', 'flat']
  return unwindLast ? ['flat', 'persistedId', 'unwinds'] : ['flat', 'unwinds', 'persistedId']
}
type FlatStep = 'flat' | 'persistedId' | 'unwinds'

/** Goes on to the next of these steps; after the last one everything is known. */
function follow(thread: Thread, done: FlatStep, change: Partial<Reader>): State {
  const order = orderOf(thread.world.rules)
  const next = order[order.indexOf(done) + 1]
  if (next !== undefined) return set(thread, { ...change, at: next })
  return judge({ ...thread, me: { ...thread.me, ...change } })
}

/**
 * Models the end of isFresh, after the stamp: the persist pass of another branch may have set the
 * stamp back.
 */
function readCached(thread: Thread): Step<State>[] {
  const { me, row } = thread
  const run = () =>
    isVoid(thread)
      ? set(thread, { at: 'release' })
      : respond(thread, me.cache[me.view!.request as Key]!.value, 'its cache')
  return [{ label: `${NAMES[row]} looks at the unwind count`, run }]
}

function readFlat(thread: Thread): Step<State>[] {
  const { state, me, row } = thread
  const key = me.view!.request as Key
  const value = state.database.flat[key]
  const run = () => follow(thread, 'flat', { value })
  return [{ label: `${NAMES[row]} reads ${key} from flat state: ${value}`, run }]
}

/** Models isOvertaken. */
function readPersistedId(thread: Thread): Step<State>[] {
  const word = thread.state.words.persistedId
  const run = () => follow(thread, 'persistedId', { word })
  return [{ label: `${NAMES[thread.row]} looks at the persisted-id word: ${word}`, run }]
}

/** Models assertValid. */
function readUnwinds(thread: Thread): Step<State>[] {
  const run = () =>
    isVoid(thread) ? set(thread, { at: 'release' }) : follow(thread, 'unwinds', {})
  return [{ label: `${NAMES[thread.row]} looks at the unwind count`, run }]
}

const isVoid = ({ world, state, me }: Thread) =>
  world.rules.unwindCheck && state.words.unwinds !== me.view!.unwinds

/**
 * The flat value is right when the persisted-id word names the base or a complete block of the
 * view.
 */
function judge(thread: Thread): State {
  const { world, me } = thread
  const { word } = me
  const { rules, scenario } = world
  const { unwinds, request } = me.view!
  const isRight = !rules.persistCheck || isComplete(thread, word)
  if (!isRight)
    return set(thread, { at: rules.flatThenHistory ? 'latest' : 'history', value: null })
  const response = respond(thread, me.value!, 'flat state')
  if (scenario.hasCache !== true || !rules.persistCheck) return response
  const height = heightOf(thread, word)
  const cached = { value: me.value!, id: word, height, unwinds }
  const reader = response[NAMES[thread.row]]
  return {
    ...response,
    [NAMES[thread.row]]: { ...reader, cache: { ...reader.cache, [request]: cached } },
  }
}

/** Models openHistory: flat value, entry after the height, unwind count, horizon. */
function readLatest(thread: Thread): Step<State>[] {
  const { world, state, me } = thread
  const value = state.database.flat[me.view!.request as Key]
  const at = world.rules.flatThenHistory ? 'history' : 'horizon'
  return [
    step(thread, `reads ${me.view!.request} from flat state for history: ${value}`, { at, value }),
  ]
}

function readHistory(thread: Thread): Step<State>[] {
  const { world, state, me } = thread
  const number = historyHeight(thread)
  const entries = state.database.history[me.view!.request as Key] ?? []
  const entry = entries.find(([height]) => height > number)?.[1] ?? null
  const at = world.rules.flatThenHistory ? 'horizon' : 'latest'
  return [step(thread, `seeks its history after ${number}: ${entry}`, { at, entry })]
}

/**
 * A complete block below the base reads history at its own height. An overtaken view reads it at
 * the base.
 */
function historyHeight({ world, me }: Thread): number {
  const { at, base } = me.view!
  return at.height < base.height || !world.rules.historyAtBase ? at.height : base.height
}

function readHorizon(thread: Thread): Step<State>[] {
  const { world, state, me } = thread
  const { rules } = world
  const run = (): State => {
    if (isVoid(thread)) return set(thread, { at: 'release' })
    if (rules.pruneCheck && historyHeight(thread) < state.words.oldest)
      return set(thread, { at: 'release' })
    return respond(thread, me.entry ?? me.value!, 'history')
  }
  return [{ label: `${NAMES[thread.row]} looks at unwind count and horizon`, run }]
}

/** Models findTransaction: the row of the database, then the block of that number. */
function readLocation(thread: Thread): Step<State>[] {
  const height = thread.state.database.transaction ?? -1
  return [
    step(thread, `reads the row of the transaction: ${height}`, {
      at: 'locationValid',
      word: height,
    }),
  ]
}

function validateLocation(thread: Thread): Step<State>[] {
  const { world, me } = thread
  const { base } = me.view!
  const run = (): State => {
    if (isVoid(thread)) return set(thread, { at: 'release' })
    const isAbove = me.word > base.height && world.rules.rowsAbove
    if (me.word < 0 || isAbove) return respond(thread, null, 'a row')
    if (me.word === base.height) return respond(thread, base.block, 'a row')
    return set(thread, { at: 'number' })
  }
  return [{ label: `${NAMES[thread.row]} looks at the unwind count`, run }]
}

function readNumber(thread: Thread): Step<State>[] {
  const { state, me } = thread
  const { request } = me.view!
  const number = request === 'transaction' ? me.word : Number(request.slice(1))
  const value = state.database.numbers[number] ?? null
  return [step(thread, `reads number ${number}: ${value}`, { at: 'valid', value })]
}

/** Models assertValid after a row. */
function validateRow(thread: Thread): Step<State>[] {
  const run = () =>
    isVoid(thread) ? set(thread, { at: 'release' }) : respond(thread, thread.me.value, 'a row')
  return [{ label: `${NAMES[thread.row]} looks at the unwind count`, run }]
}

/** @throws {Fault} when the response differs from plain execution. */
function respond(thread: Thread, got: string | null, where: string): State {
  const { world, me } = thread
  const { at, request } = me.view!
  const want = wanted(world, at, request)
  const positionName = `${at.block}${at.tag === FINAL ? '' : `.${at.tag}`}`
  if (got !== want)
    throw new Fault(`${request} at ${positionName} is ${got} in ${where}, must be ${want}`)
  return set(thread, { at: 'release' })
}

function wanted({ truth }: World, at: Position, request: Query): string | null {
  if (request === 'header') return at.block
  if (request === 'transaction') return truth.transaction(at.block, at.tag) ?? null
  if (KEYS.includes(request as Key)) return truth.state(at.block, at.tag)[request as Key]
  return truth.ancestor(at.block, Number(request.slice(1)))
}

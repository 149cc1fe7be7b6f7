/** How a thread comes to a record and gives it back: engine/views/lease.ts. */
import { Fault, type Step } from '../explore.ts'
import { forgetRecords } from './publisher.ts'
import { type Ask, type Choice, FINAL } from './scenario.ts'
import type { Position, State } from './state.ts'
import { frontOf, isFront, NAMES, set, step, type Thread, taskOf, withRow } from './thread.ts'
import { blocksOf } from './walk.ts'

/** Leases.lease: the head word; Leases.adopt: what the front said. */
export function takeNumber(thread: Thread): Step<State>[] {
  const { state, me } = thread
  if (me.left === 0) return []
  if (!isAdopting(thread)) {
    const number = state.words.head
    return [step(thread, `loads head ${number}`, { at: 'row', number })]
  }
  const task = taskOf(thread.row)
  if (state[task] === null) return []
  const { record: number, session } = state[task]
  return [step(thread, `is told of ${number}`, { at: 'row', number, session }, { [task]: null })]
}

const isAdopting = ({ reading, me }: Thread) =>
  reading.isAdopter === true && (reading.isLateAdopter !== true || me.left === 1)

/** enter(): a row that covers the record already is left as it is. */
export function setRow(thread: Thread): Step<State>[] {
  const { world, state, me, row } = thread
  const before = Math.abs(state.words.rows[row]!)
  if (before !== 0 && before <= me.number) return [step(thread, 'has an older row', { at: 'open' })]
  const isMarked = isFront(row) && world.rules.coverChecked
  const words = withRow(state, row, isMarked ? -me.number : me.number)
  const at = world.rules.recheck ? 'floor' : 'open'
  return [step(thread, `sets its row to ${me.number}`, { at }, { words })]
}

export function lookAtFloor(thread: Thread): Step<State>[] {
  const { world, state, me, row } = thread
  const isBelow = state.words.floor > me.number
  const isMarked = isFront(row) && world.rules.coverChecked
  const passed = isMarked ? 'confirm' : 'open'
  const refused = !isFront(row) && world.rules.covered ? 'front' : 'back'
  return [step(thread, 'looks at the floor', { at: isBelow ? refused : passed })]
}

/** From here on the row covers workers too. */
export function confirmRow(thread: Thread): Step<State>[] {
  const words = withRow(thread.state, thread.row, thread.me.number)
  return [step(thread, 'confirms its row', { at: 'open' }, { words })]
}

export function lookAtFront(thread: Thread): Step<State>[] {
  const { world, state, me, row } = thread
  const front = state.words.rows[world.rules.ownFront ? frontOf(row) : 0]!
  const isCovered = front > 0 && front <= me.number
  return [step(thread, 'looks at the row of the front', { at: isCovered ? 'open' : 'back' })]
}

export function takeRowBack(thread: Thread): Step<State>[] {
  const { state, me, row } = thread
  const run = (): State => {
    const front = state[NAMES[frontOf(row)]]
    const isAdopter = isAdopting(thread)
    if (isAdopter && front.leases.includes(me.number) && front.left === me.session)
      throw new Fault(`the worker is refused record ${me.number}, which its front holds`)
    const words = withRow(state, row, me.leases.length === 0 ? 0 : Math.min(...me.leases))
    // "View gone" ends the request; a lease of the newest record is tried again.
    const left = isAdopter ? me.left - 1 : me.left
    return set(thread, { at: 'idle', number: 0, session: 0, left }, { words })
  }
  return [{ label: `${NAMES[row]} takes its row back`, run }]
}

/** hold(): readRecord, which the thread keeps; the view and the question are any of the scenario's. */
export function openRecord(thread: Thread): Step<State>[] {
  const { state, me, reading, row } = thread
  if (reading.isNested === true && me.leases.length === 0)
    return [step(thread, 'takes a second lease', { at: 'idle', leases: [me.number], number: 0 })]
  return reading.choices.flatMap((choice) =>
    reading.asks.map((ask) => ({
      label: `${NAMES[row]} opens ${choiceName(choice)} of ${me.number}, asks for ${ask}`,
      run: () => {
        const record = state.records[me.number]
        if (record === undefined)
          throw new Fault(`record ${me.number} is overwritten under a lease`)
        const leases = [...me.leases, me.number]
        const at = choose(thread, choice)
        const isAsked = at !== undefined && isFit(at, choice, ask)
        const isTold = isFront(row) && thread.world.scenario.readers[row + 1]?.isAdopter === true
        const task = taskOf(row)
        const what = { record: me.number, session: me.left }
        const told = isTold && state[task] === null ? { [task]: what } : {}
        if (!isAsked) return set(thread, { at: 'release', leases, number: 0 }, told)
        const { base, unfolds } = record
        const view = { at, base, unfolds, ask }
        // The older of two leases goes back first: the row must stay at the other.
        const next = leases.length > 1 ? 'release' : 'walk'
        return set(thread, { at: next, leases, number: 0, view }, told)
      },
    })),
  )
}

/** Transactions are looked for in the whole chain of a head, numbers only up to the view's own. */
const isFit = (at: Position, choice: Choice, ask: Ask): boolean =>
  ask === 'transaction'
    ? typeof choice === 'string'
    : ask[0] !== '#' || Number(ask.slice(1)) <= at.height

const choiceName = (choice: Choice) =>
  typeof choice === 'object' ? `${choice.block}.${choice.index}` : `${choice}`

/** blockAt, findHash: the place in the chain of the head. */
function choose({ world, state, me }: Thread, choice: Choice): Position | undefined {
  const record = state.records[me.number]!
  if (typeof choice === 'string') return record[choice]
  const top = record.pending
  const { base } = record
  if (typeof choice === 'object') {
    const isHere = ({ block }: Position) => block === choice.block
    const found = blocksOf(state, top, base.height).find(isHere)
    if (found === undefined || choice.index > found.tag) return undefined
    return { ...found, tag: choice.index }
  }
  if (choice >= top.height) return undefined
  const found = blocksOf(state, top, base.height).find(({ height }) => height === choice)
  if (found !== undefined) return found
  const block = world.truth.ancestor(top.block, choice)
  return { id: 0, height: choice, table: 0, tag: FINAL, block }
}

/** release(): the row goes to the oldest record that is left. */
export function releaseLease(thread: Thread): Step<State>[] {
  const { world, state, me, row } = thread
  const leases = me.leases.slice(1)
  const oldest = leases.length === 0 || !world.rules.oldestRow ? 0 : Math.min(...leases)
  const words = withRow(state, row, oldest)
  const done = { at: 'idle', leases, view: null, value: null, word: 0, entry: null }
  const change =
    leases.length > 0
      ? { at: me.view === null ? 'release' : 'walk', leases }
      : { ...done, left: me.left - 1 }
  return [
    {
      label: `${NAMES[row]} releases ${me.leases[0]}`,
      run: () => forgetRecords(set(thread, change, { words })),
    },
  ]
}

/** workers/pool/open.ts: the row of a thread that has ended is cleared on its `exit`. */
export function deadSteps(thread: Thread): Step<State>[] {
  const { world, state, row } = thread
  if (!world.rules.clearDead || state.words.rows[row] === 0) return []
  const words = withRow(state, row, 0)
  return [step(thread, 'has ended, its row is cleared', {}, { words })]
}

export function mortalSteps(thread: Thread): Step<State>[] {
  const { world, state, me, row, reading } = thread
  if (reading.isMortal !== true || me.leases.length === 0) return []
  const dead = { isDead: true, at: 'dead', view: null, value: null, leases: [], left: 0 }
  const steps = [step(thread, 'dies', dead)]
  if (!world.rules.clearAfterExit && state.words.rows[row] !== 0)
    steps.push(step(thread, 'is late, its row is cleared', {}, { words: withRow(state, row, 0) }))
  return steps
}

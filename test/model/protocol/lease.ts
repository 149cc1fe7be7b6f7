/** Threads lease a snapshot and release it: engine/views/lease.ts. */
import { Fault, type Step } from '../explore.ts'
import type { Position, State } from './model-state.ts'
import { forgetSnapshots } from './publisher.ts'
import { type Choice, FINAL, type Query } from './scenario.ts'
import { frontOf, isFront, NAMES, set, step, type Thread, taskOf, withRow } from './thread.ts'
import { blocksOf } from './walk.ts'

/**
 * Models Leases.lease, which reads the head word, and Leases.adopt, which takes the number from the
 * front.
 */
export function takeNumber(thread: Thread): Step<State>[] {
  const { state, me } = thread
  if (me.left === 0) return []
  if (!isAdopting(thread)) {
    const number = state.words.head
    return [step(thread, `loads head ${number}`, { at: 'row', number })]
  }
  const task = taskOf(thread.row)
  if (state[task] === null) return []
  const { snapshot: number, session } = state[task]
  return [step(thread, `is told of ${number}`, { at: 'row', number, session }, { [task]: null })]
}

const isAdopting = ({ reading, me }: Thread) =>
  reading.isAdopter === true && (reading.isLateAdopter !== true || me.left === 1)

/** Models enter(): a row that already covers the snapshot stays as it is. */
export function setRow(thread: Thread): Step<State>[] {
  const { world, state, me, row } = thread
  const before = Math.abs(state.words.rows[row]!)
  if (before !== 0 && before <= me.number) return [step(thread, 'has an older row', { at: 'open' })]
  const isMarked = isFront(row) && world.rules.coverChecked
  const words = withRow(state, row, isMarked ? -me.number : me.number)
  const at = world.rules.recheck ? 'floor' : 'open'
  return [step(thread, `sets its row to ${me.number}`, { at }, { words })]
}

export function readFloor(thread: Thread): Step<State>[] {
  const { world, state, me, row } = thread
  const isBelow = state.words.floor > me.number
  const isMarked = isFront(row) && world.rules.coverChecked
  const passed = isMarked ? 'confirm' : 'open'
  const refused = !isFront(row) && world.rules.covered ? 'front' : 'back'
  return [step(thread, 'looks at the floor', { at: isBelow ? refused : passed })]
}

/** After this step the row covers workers too. */
export function confirmRow(thread: Thread): Step<State>[] {
  const words = withRow(thread.state, thread.row, thread.me.number)
  return [step(thread, 'confirms its row', { at: 'open' }, { words })]
}

export function readFront(thread: Thread): Step<State>[] {
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
      throw new Fault(`the worker is refused snapshot ${me.number}, which its front holds`)
    const words = withRow(state, row, me.leases.length === 0 ? 0 : Math.min(...me.leases))
    // "View gone" ends the request; a lease of the newest snapshot is tried again.
    const left = isAdopter ? me.left - 1 : me.left
    return set(thread, { at: 'idle', number: 0, session: 0, left }, { words })
  }
  return [{ label: `${NAMES[row]} takes its row back`, run }]
}

/**
 * Models pin(): the thread keeps the snapshot that readSnapshot returns. View and question are any
 * of the scenario's.
 */
export function openRecord(thread: Thread): Step<State>[] {
  const { state, me, reading, row } = thread
  if (reading.isNested === true && me.leases.length === 0)
    return [step(thread, 'takes a second lease', { at: 'idle', leases: [me.number], number: 0 })]
  return reading.choices.flatMap((choice) =>
    reading.requests.map((request) => ({
      label: `${NAMES[row]} opens ${choiceName(choice)} of ${me.number}, asks for ${request}`,
      run: () => {
        const snapshot = state.snapshots[me.number]
        if (snapshot === undefined)
          throw new Fault(`snapshot ${me.number} is overwritten under a lease`)
        const leases = [...me.leases, me.number]
        const at = choose(thread, choice)
        const isRequested = at !== undefined && isSuitable(at, choice, request)
        const isOffered = isFront(row) && thread.world.scenario.readers[row + 1]?.isAdopter === true
        const task = taskOf(row)
        const what = { snapshot: me.number, session: me.left }
        const offered = isOffered && state[task] === null ? { [task]: what } : {}
        if (!isRequested) return set(thread, { at: 'release', leases, number: 0 }, offered)
        const { base, unwinds } = snapshot
        const view = { at, base, unwinds, request }
        // The older of two leases is released first: the row must stay at the other one.
        const next = leases.length > 1 ? 'release' : 'walk'
        return set(thread, { at: next, leases, number: 0, view }, offered)
      },
    })),
  )
}

/**
 * A transaction is searched in the full chain of a head, a number only up to the view's own height.
 */
const isSuitable = (at: Position, choice: Choice, request: Query): boolean =>
  request === 'transaction'
    ? typeof choice === 'string'
    : request[0] !== '#' || Number(request.slice(1)) <= at.height

const choiceName = (choice: Choice) =>
  typeof choice === 'object' ? `${choice.block}.${choice.index}` : `${choice}`

/** Models blockAt and findHash: the position in the chain of the head. */
function choose({ world, state, me }: Thread, choice: Choice): Position | undefined {
  const snapshot = state.snapshots[me.number]!
  if (typeof choice === 'string') return snapshot[choice]
  const top = snapshot.pending
  const { base } = snapshot
  if (typeof choice === 'object') {
    const isSameBlock = ({ block }: Position) => block === choice.block
    const found = blocksOf(state, top, base.height).find(isSameBlock)
    if (found === undefined || choice.index > found.tag) return undefined
    return { ...found, tag: choice.index }
  }
  if (choice >= top.height) return undefined
  const found = blocksOf(state, top, base.height).find(({ height }) => height === choice)
  if (found !== undefined) return found
  const block = world.truth.ancestor(top.block, choice)
  return { id: 0, height: choice, diffLayer: 0, tag: FINAL, block }
}

/** Models release(): the row moves to the oldest snapshot that is still leased. */
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
      run: () => forgetSnapshots(set(thread, change, { words })),
    },
  ]
}

/** Models workers/pool/threads.ts, which clears the row of a thread on its `exit`. */
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

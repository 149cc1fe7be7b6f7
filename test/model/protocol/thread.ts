/** A reading thread and the parts of its steps. */
import type { Step } from '../explore.ts'
import type { Reader, State, World } from './model-state.ts'
import type { Reading } from './scenario.ts'

/** By row: a front and its worker, then another front and its worker. */
export const NAMES = ['front', 'worker', 'secondFront', 'secondWorker'] as const
export type Row = 0 | 1 | 2 | 3
const FRONT_OF = [0, 0, 2, 2] as const
export const frontOf = (row: Row) => FRONT_OF[row]
export const isFront = (row: Row) => frontOf(row) === row
/** Name of the variable in which a front offers a snapshot to its worker. */
export const taskOf = (row: Row) => (frontOf(row) === 0 ? 'task' : 'secondTask')

export type Thread = {
  readonly world: World
  readonly state: State
  readonly row: Row
  readonly me: Reader
  readonly reading: Reading
}

export function step(
  thread: Thread,
  label: string,
  change: Partial<Reader>,
  more: Partial<State> = {},
): Step<State> {
  return { label: `${NAMES[thread.row]} ${label}`, run: () => set(thread, change, more) }
}

export function set(
  { state, row, me }: Thread,
  change: Partial<Reader>,
  more: Partial<State> = {},
): State {
  return { ...state, ...more, [NAMES[row]!]: { ...me, ...change } }
}

export const withRow = ({ words }: State, row: number, value: number) => ({
  ...words,
  rows: words.rows.with(row, value),
})

/** A reading thread, and what its steps are made of. */
import type { Step } from '../explore.ts'
import type { Reading } from './scenario.ts'
import type { Reader, State, World } from './state.ts'

export const FRONT = 0
export const NAMES = ['front', 'worker'] as const

export type Thread = {
  readonly world: World
  readonly state: State
  readonly row: 0 | 1
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

/** The writer's clocks: the machine's, a recording one, and that of a replay. */
import type { Taken } from '../record/lines.ts'

export interface WriterClock {
  /** Monotonic milliseconds. */
  now(): number
  /** Milliseconds since 1970. */
  wallMs(): number
}

export const MACHINE: WriterClock = { now: () => performance.now(), wallMs: () => Date.now() }

/** Records every reading between `start` and `end`; meanwhile the wall clock stands still. */
export interface TakingClock extends WriterClock {
  start(): void
  end(): Taken
}

export function takingClock(): TakingClock {
  let taken: number[] | undefined
  let wall = MACHINE.wallMs()
  return {
    now() {
      // Nanoseconds are noise, and would make up a third of the recording.
      const value = Math.round(MACHINE.now() * 1_000) / 1_000
      taken?.push(value)
      return value
    },
    wallMs: () => wall,
    start() {
      taken = []
      wall = MACHINE.wallMs()
    },
    end() {
      const now = taken ?? []
      taken = undefined
      return { now, wall }
    },
  }
}

/** Returns the recorded readings in order; further calls repeat the last one. */
export interface GivingClock extends WriterClock {
  set(taken: Taken): void
}

export function givingClock(): GivingClock {
  let taken: Taken = { now: [], wall: 0 }
  let at = 0
  let newest = 0
  return {
    now() {
      newest = taken.now[at++] ?? newest
      return newest
    },
    wallMs: () => taken.wall,
    set(next) {
      taken = next
      at = 0
    },
  }
}

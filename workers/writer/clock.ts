/** The writer's clocks: those of the machine, the same taken down, or those of a record. */
import type { Taken } from '../record/lines.ts'

export interface WriterClock {
  /** Monotonic milliseconds. */
  now(): number
  /** Milliseconds since 1970. */
  wallMs(): number
}

export const MACHINE: WriterClock = { now: () => performance.now(), wallMs: () => Date.now() }

/** Between `begin` and `end` every answer is taken down, and the wall clock stands still. */
export interface TakingClock extends WriterClock {
  begin(): void
  end(): Taken
}

export function takingClock(): TakingClock {
  let taken: number[] | undefined
  let wall = MACHINE.wallMs()
  return {
    now() {
      // Nanoseconds are noise, and a third of the record.
      const value = Math.round(MACHINE.now() * 1_000) / 1_000
      taken?.push(value)
      return value
    },
    wallMs: () => wall,
    begin() {
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

/** What was taken down, in its order; who asks more often is told the last again. */
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

/**
 * The lanes of the pool, one row each, and all that is read from the rows. Nothing else knows a lane by its name: a further one is a row
 * here and a line in limits.ts for each limit of its own (ADR 28).
 */
import type { Limits } from './limits.ts'

export type LaneRow = {
  /** What a method `runs` whose calls come here; a kind of work may have several lanes. */
  readonly runs: string
  /** Predicted cost in microseconds from which its calls come here; undefined: those that nobody can predict. The first is 0. */
  readonly fromUs: number | undefined
  /** How many calls may wait; lanes of one limit count together. */
  readonly queue: keyof Limits
  /** How long a call may take, time in the queue included. */
  readonly deadline: keyof Limits
  /** When a client that was refused may come again. */
  readonly retryAfterMs: number
  /** A task holds at most this much predicted work in microseconds, or one call: it answers as one. */
  readonly taskUs: number
  /** What an address takes in its turn, in microseconds. */
  readonly turnUs: number
  /** A task holds calls of several addresses. */
  readonly isMixed: boolean
  /** May run for long: no address has every worker for such calls, and all together have the last one only as a guest. */
  readonly isLong: boolean
  /** Less predicted work than this, in microseconds, is not worth a further worker: the one that runs such calls takes it next. */
  readonly wakeUs: number
  /** What waits is shared among the workers that are free: worth waking each of them for. */
  readonly isSpread: boolean
  /** Results leave in pieces, as they are made. */
  readonly isStreamed: boolean
}

/** What costs as much is long. */
export const DEAR_US = 10_000

const PLAIN = { wakeUs: 0, isSpread: false, isStreamed: false } as const
const CALL = {
  ...PLAIN,
  runs: 'call',
  queue: 'callQueue',
  deadline: 'callMs',
  retryAfterMs: 200,
} as const
const QUICK = { isMixed: true, isLong: false } as const
/** Each call is a task. */
const ALONE = { taskUs: 0, turnUs: DEAR_US, isMixed: false, isLong: true } as const
/** One for all calls of a kind. */
const SINGLE = { ...PLAIN, ...ALONE, fromUs: 0, retryAfterMs: 1_000 } as const

/** In the order of their turns. The last one of a kind by cost runs each call alone. */
const ROWS = {
  light: { ...CALL, ...QUICK, fromUs: 0, taskUs: 1_500, turnUs: 300, wakeUs: 300 },
  medium: { ...CALL, ...QUICK, fromUs: 300, taskUs: 3_000, turnUs: 1_000, isSpread: true },
  /** Taken for light, but nobody knows yet, or their address has shown otherwise: in one task before calls of nobody else. */
  unsure: {
    ...CALL,
    fromUs: undefined,
    taskUs: 1_500,
    turnUs: 1_500,
    isMixed: false,
    isLong: true,
  },
  dear: { ...CALL, ...ALONE, fromUs: DEAR_US },
  logs: { ...SINGLE, runs: 'logs', queue: 'logsQueue', deadline: 'logsMs' },
  trace: { ...SINGLE, runs: 'trace', queue: 'traceQueue', deadline: 'traceMs', isStreamed: true },
  sidecar: { ...SINGLE, runs: 'sidecar', queue: 'sidecarQueue', deadline: 'sidecarMs' },
} as const satisfies Readonly<Record<string, LaneRow>>

export type Lane = keyof typeof ROWS
/** The limits that say how long calls may take. */
export type Deadlines = Pick<Limits, (typeof ROWS)[Lane]['deadline']>
type QueueLimit = (typeof ROWS)[Lane]['queue']
/** The limits that say how much may wait: calls of a lane, and bytes of all. */
export type QueueLimits = Pick<Limits, QueueLimit | 'callQueueBytes'>
/** Of a method: it answers on the front, from memory or by a point read, or a worker runs it, which may execute code or scan. */
export type Runs = 'front' | (typeof ROWS)[Lane]['runs']

export const LANES: Readonly<Record<Lane, LaneRow & { readonly queue: QueueLimit }>> = ROWS
export const LANE_NAMES = Object.keys(ROWS) as readonly Lane[]

export const forEachLane = <T>(make: (lane: Lane) => T): Record<Lane, T> =>
  Object.fromEntries(LANE_NAMES.map((lane) => [lane, make(lane)])) as Record<Lane, T>

/** The lanes of a kind of work: those by cost, dearest first, and the one for what cannot be predicted. */
type Kind = {
  readonly byCost: readonly { readonly lane: Lane; readonly fromUs: number }[]
  readonly unsure: Lane | undefined
}
const kinds: ReadonlyMap<string, Kind> = new Map(
  LANE_NAMES.map((name) => {
    const own = LANE_NAMES.filter((lane) => LANES[lane].runs === LANES[name].runs)
    const byCost = own.flatMap((lane) => {
      const { fromUs } = LANES[lane]
      return fromUs === undefined ? [] : { lane, fromUs }
    })
    return [
      LANES[name].runs,
      {
        byCost: byCost.toSorted((a, b) => b.fromUs - a.fromUs),
        unsure: own.find((lane) => LANES[lane].fromUs === undefined),
      },
    ]
  }),
)
/** What a worker does for a method of the front is a call like others. */
const kindOf = (runs: string): Kind => kinds.get(runs === 'front' ? CALL.runs : runs)!

/** @param micros what a call is predicted to cost @param isKnown it is more than a guess */
export function laneFor(runs: Runs, micros: number, isKnown = true): Lane {
  const { byCost, unsure } = kindOf(runs)
  const { lane } = byCost.find(({ fromUs }) => micros >= fromUs)!
  return isKnown || unsure === undefined || LANES[lane].isLong ? lane : unsure
}

/** Calls of this kind may be quick: what one costs is learned by what it calls, not by its method. */
export const isByTarget = (runs: Runs): boolean => kindOf(runs).byCost.length > 1

/** Where a call of a lane waits that is to have a task of its own. */
export const aloneLane = (lane: Lane): Lane => kindOf(LANES[lane].runs).byCost[0]!.lane

/** Milliseconds that a method's calls may take, time in the queue included. */
export const laneMs = (runs: Runs, limits: Deadlines): number =>
  limits[ROWS[laneFor(runs, 0)].deadline]

/** Milliseconds that any call may take. */
export const longestMs = (limits: Deadlines): number =>
  Math.max(...LANE_NAMES.map((lane) => limits[ROWS[lane].deadline]))

/**
 * The queue classes of the pool, one row each, and everything derived from the rows. Other code
 * does not use class names. A new class needs a row here and a line in limits.ts for each own limit
 * (ADR 28).
 */
import type { Limits } from './limits.ts'

export type QueueClassRow = {
  /** Kind of work (`runs` of a method). One kind may have several queue classes. */
  readonly runs: string
  /**
   * Predicted cost in microseconds from which calls use this class; the first row has 0. undefined:
   * calls with unpredictable cost.
   */
  readonly fromUs: number | undefined
  /** Limit on waiting calls. Queue classes with the same limit count together. */
  readonly queue: keyof Limits
  /** Limit on the time of a call, queue time included. */
  readonly deadline: keyof Limits
  /** Milliseconds after which a refused client may retry. */
  readonly retryAfterMs: number
  /**
   * Maximum predicted work of a task in microseconds; a single call may exceed it. All calls of a
   * task are answered together.
   */
  readonly taskUs: number
  /** Microseconds that an address gets in its turn. */
  readonly turnUs: number
  /** A task may contain calls of several addresses. */
  readonly isMixed: boolean
  /**
   * Calls may run for long, so one address never occupies every worker. The last worker takes such
   * a call only as a guest that can be evicted.
   */
  readonly isLong: boolean
  /**
   * Waiting work in microseconds that justifies another worker. Less work waits for the worker that
   * already runs this class.
   */
  readonly wakeUs: number
  /** Waiting calls are divided among all free workers, so each of them is woken. */
  readonly isSpread: boolean
  /** Results are sent in pieces during the call. */
  readonly isStreamed: boolean
}

/** Predicted microseconds from which a call is long. */
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
/** Each call is a task of its own. */
const ALONE = { taskUs: 0, turnUs: DEAR_US, isMixed: false, isLong: true } as const
/** One queue class for all calls of a kind. */
const SINGLE = { ...PLAIN, ...ALONE, fromUs: 0, retryAfterMs: 1_000 } as const

/** Rows in the order of their turns. The most expensive class of a kind runs each call alone. */
const ROWS = {
  light: { ...CALL, ...QUICK, fromUs: 0, taskUs: 1_500, turnUs: 300, wakeUs: 300 },
  medium: { ...CALL, ...QUICK, fromUs: 300, taskUs: 3_000, turnUs: 1_000, isSpread: true },
  /**
   * Calls with a light prediction but without a measurement, or from an address with mispredicted
   * calls. A task has calls of one address only.
   */
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
} as const satisfies Readonly<Record<string, QueueClassRow>>

export type QueueClass = keyof typeof ROWS
/** Limits on the time of calls. */
export type Deadlines = Pick<Limits, (typeof ROWS)[QueueClass]['deadline']>
type QueueLimit = (typeof ROWS)[QueueClass]['queue']
/** Limits on waiting calls of a queue class, and on bytes of all waiting calls. */
export type QueueLimits = Pick<Limits, QueueLimit | 'callQueueBytes'>
/**
 * Runner of a method: the front (memory or point reads), or a worker (may execute code or scan).
 */
export type Runs = 'front' | (typeof ROWS)[QueueClass]['runs']

export const QUEUE_CLASSES: Readonly<
  Record<QueueClass, QueueClassRow & { readonly queue: QueueLimit }>
> = ROWS
export const QUEUE_CLASS_NAMES = Object.keys(ROWS) as readonly QueueClass[]

export const forEachQueueClass = <T>(make: (queueClass: QueueClass) => T): Record<QueueClass, T> =>
  Object.fromEntries(
    QUEUE_CLASS_NAMES.map((queueClass) => [queueClass, make(queueClass)]),
  ) as Record<QueueClass, T>

/**
 * Queue classes of a kind of work: by cost in descending order, and the one for unpredictable
 * calls.
 */
type Kind = {
  readonly byCost: readonly { readonly queueClass: QueueClass; readonly fromUs: number }[]
  readonly unsure: QueueClass | undefined
}
const kinds: ReadonlyMap<string, Kind> = new Map(
  QUEUE_CLASS_NAMES.map((name) => {
    const own = QUEUE_CLASS_NAMES.filter(
      (queueClass) => QUEUE_CLASSES[queueClass].runs === QUEUE_CLASSES[name].runs,
    )
    const byCost = own.flatMap((queueClass) => {
      const { fromUs } = QUEUE_CLASSES[queueClass]
      return fromUs === undefined ? [] : { queueClass, fromUs }
    })
    return [
      QUEUE_CLASSES[name].runs,
      {
        byCost: byCost.toSorted((a, b) => b.fromUs - a.fromUs),
        unsure: own.find((queueClass) => QUEUE_CLASSES[queueClass].fromUs === undefined),
      },
    ]
  }),
)
/** Returns the kind of a method. A method of the front that runs in a worker counts as a call. */
const kindOf = (runs: string): Kind => kinds.get(runs === 'front' ? CALL.runs : runs)!

/**
 * Chooses the queue class of a call.
 * @param micros predicted cost
 * @param isKnown the prediction is more than a guess
 */
export function queueClassFor(runs: Runs, micros: number, isKnown = true): QueueClass {
  const { byCost, unsure } = kindOf(runs)
  const { queueClass } = byCost.find(({ fromUs }) => micros >= fromUs)!
  return isKnown || unsure === undefined || QUEUE_CLASSES[queueClass].isLong ? queueClass : unsure
}

/**
 * Tells whether the cost of a call depends on its target. Only kinds with several cost classes
 * learn costs by target.
 */
export const isByTarget = (runs: Runs): boolean => kindOf(runs).byCost.length > 1

/** Returns the queue class for a call that must have a task of its own. */
export const singleCallClass = (queueClass: QueueClass): QueueClass =>
  kindOf(QUEUE_CLASSES[queueClass].runs).byCost[0]!.queueClass

/** Returns the milliseconds that a call of a method may take, queue time included. */
export const timeoutMsOf = (runs: Runs, limits: Deadlines): number =>
  limits[ROWS[queueClassFor(runs, 0)].deadline]

/** Returns the longest time that any call on the pool may take, in milliseconds. */
export const longestMs = (limits: Deadlines): number =>
  Math.max(...QUEUE_CLASS_NAMES.map((queueClass) => limits[ROWS[queueClass].deadline]))

/** Limits on the time for a response, on the pool and elsewhere. */
export type ResponseTimes = Deadlines &
  Pick<
    Limits,
    | 'announcedHoldMs'
    | 'forwardMs'
    | 'legacyMs'
    | 'placeWaitMs'
    | 'sequencerMs'
    | 'shownHoldMs'
    | 'syncSendMs'
  >

/**
 * Returns the longest time for any response, in milliseconds. A call may wait for its flashblock
 * and its block first, and a synchronous send for the sequencer.
 */
export const longestResponseMs = (limits: ResponseTimes): number =>
  Math.max(
    longestMs(limits) + limits.placeWaitMs + limits.shownHoldMs + limits.announcedHoldMs,
    limits.sequencerMs + limits.syncSendMs,
    limits.legacyMs,
    limits.forwardMs,
  )

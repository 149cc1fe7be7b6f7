/**
 * A caller exceeds its rate with one key from several addresses. HAProxy sends them to several
 * replicas, which must count together.
 */
import { bodyOf } from '../../../kit/client.ts'
import { type Observations, pause, request } from './observations.ts'
import { metricOf, type Replica } from './replica.ts'
import { KEY, LIMIT } from './world.ts'

/** The pace of one address; six addresses send 200 a second. */
const PACE_MS = 30
/** The maximum number of open requests of one address. */
const MAX_OPEN = 20
const WATCH_MS = 500
const WINDOW_MS = 5_000
const PHASE_MS = 100
/** A longer window is given up. */
const MAX_MS = 15_000
/** This many refusals in a row mean that the limit is used up; some hundred come in each second. */
const FULL = 20
/** Nodes find Redis again within this time. */
const BACK_MS = 3_000

type TimedResponse = { readonly at: number; readonly isServed: boolean }
export type Limited = {
  /** Gives the result, after the last request. */
  report(): {
    readonly windows: number
    readonly wrong: readonly string[]
    readonly left: number
    readonly served: number
  }
}

export async function requestTooMuch(
  {
    url,
    addresses,
    observations,
    isOver,
  }: {
    readonly url: string
    /** The addresses are spread evenly over all replicas. */
    readonly addresses: readonly string[]
    readonly observations: Observations
    readonly isOver: () => boolean
  },
  replicas: () => readonly Replica[],
): Promise<Limited> {
  const responses: TimedResponse[] = []
  const stalls: number[] = []
  const body = bodyOf('eth_chainId')
  const headers = { 'x-api-key': KEY }
  const clients = addresses.map(async (from) => {
    const open = new Set<Promise<void>>()
    for (; !isOver(); await pause(PACE_MS)) {
      if (open.size >= MAX_OPEN) continue
      const one = request(observations, { url: `${url}/`, body, from, headers }).then((said) => {
        if (said === undefined) return
        if (said.status !== 200 && said.status !== 429)
          observations.fault('refused', `${from}: ${said.status} ${said.text.slice(0, 200)}`)
        responses.push({ at: performance.now(), isServed: said.status === 200 })
      })
      open.add(one)
      void one.finally(() => open.delete(one))
    }
    await Promise.all(open)
  })
  await Promise.all([...clients, watchStalls(stalls, replicas, isOver)])
  return { report: () => judge(responses, observations, stalls) }
}

/**
 * Records when a node stood still. Such a node returns points to everybody, so counts of that time
 * prove nothing.
 */
async function watchStalls(
  stalls: number[],
  replicas: () => readonly Replica[],
  isOver: () => boolean,
): Promise<void> {
  const known = new Map<string, number>()
  while (!isOver()) {
    await Promise.all(
      replicas().map(async (replica) => {
        const seconds = await metricOf(replica, 'flashnode_front_stalled_seconds_total')
        if (seconds === undefined) return
        // A new process counts from zero.
        if (seconds !== (known.get(replica.name) ?? 0)) stalls.push(performance.now())
        known.set(replica.name, seconds)
      }),
    )
    await pause(WATCH_MS)
  }
}

/**
 * Judges the windows between two used-up seconds of the limit: all points in between must have been
 * served.
 */
function judge(
  responses: readonly TimedResponse[],
  observations: Observations,
  stalls: readonly number[],
) {
  const moments = fullMoments(responses)
  const wrong: string[] = []
  let [windows, left, total] = [0, 0, 0]
  let from = moments[0]
  for (const to of moments) {
    if (from === undefined || to - from < WINDOW_MS) continue
    // On a busy machine responses come out of order, and then a run of refusals is cut in two.
    const offMs = Math.abs(to - from - 1_000 * Math.round((to - from) / 1_000))
    if (offMs > PHASE_MS && to - from < MAX_MS) continue
    if (offMs > PHASE_MS || !isFullThroughout(responses, from, to)) left++
    else if (isUncertain({ from, to }, observations, stalls)) left++
    else {
      const served = responses.filter(
        ({ at, isServed }) => isServed && at > from! && at <= to,
      ).length
      const seconds = Math.round((to - from) / 1_000)
      const expected = LIMIT * seconds
      windows++
      total += served
      // Requests without a response have used their points.
      const lost = observations.lost.filter(({ ended }) => ended > from! && ended <= to).length
      if (served > expected * 1.01 || served + lost < expected * 0.99)
        wrong.push(
          `${served} in ${seconds} s until ${observations.seconds(to)} (${((to - from) / 1_000).toFixed(2)} s), ${lost} lost`,
        )
    }
    from = to
  }
  return { windows, wrong, left, served: total }
}

function isUncertain(
  { from, to }: { readonly from: number; readonly to: number },
  observations: Observations,
  stalls: readonly number[],
): boolean {
  if (stalls.some((at) => at >= from - WATCH_MS && at <= to + 2 * WATCH_MS)) return true
  return observations.happenings.some(
    (one) => ['redis', 'stop'].includes(one.kind) && one.from <= to && one.to + BACK_MS >= from,
  )
}

/** Whether each second has a refusal, so that the requests exceeded the limit throughout. */
function isFullThroughout(responses: readonly TimedResponse[], from: number, to: number): boolean {
  const full = new Set<number>()
  for (const { at, isServed } of responses)
    if (!isServed && at > from && at <= to) full.add(Math.floor((to - at) / 1_000))
  return full.size >= Math.round((to - from) / 1_000)
}

/**
 * Gives the middle of each run of refusals. There all responses of the second before were received,
 * and none of the next one was.
 */
function fullMoments(responses: readonly TimedResponse[]): readonly number[] {
  const moments: number[] = []
  let run: number[] = []
  for (const { at, isServed } of responses)
    if (!isServed) run.push(at)
    else {
      if (run.length >= FULL) moments.push((run[0]! + run.at(-1)!) / 2)
      run = []
    }
  return moments
}

/** A caller who asks more often than it may, by a key, from several addresses: HAProxy has them at several replicas, and all count together. */
import { bodyOf } from '../../../kit/client.ts'
import { ask, type Notes, pause } from './notes.ts'
import { metricOf, type Replica } from './replica.ts'
import { KEY, LIMIT } from './world.ts'

/** Of one address: 200 a second of six. */
const PACE_MS = 30
/** Unanswered of one address. */
const MOST_OPEN = 20
const WATCH_MS = 500
const WINDOW_MS = 5_000
const PHASE_MS = 100
/** Then it is given up. */
const MOST_MS = 15_000
/** Refusals in a row, of some hundred in each second: it is used up. */
const FULL = 20
/** After Redis is there again nodes find it. */
const BACK_MS = 3_000

type Answer = { readonly at: number; readonly isServed: boolean }
export type Limited = {
  /** To be called when nothing is asked any more. */
  report(): {
    readonly windows: number
    readonly wrong: readonly string[]
    readonly left: number
    readonly served: number
  }
}

export async function askTooMuch(
  {
    url,
    addresses,
    notes,
    isOver,
  }: {
    readonly url: string
    /** At all of them, as many at each. */
    readonly addresses: readonly string[]
    readonly notes: Notes
    readonly isOver: () => boolean
  },
  replicas: () => readonly Replica[],
): Promise<Limited> {
  const answers: Answer[] = []
  const stalls: number[] = []
  const body = bodyOf('eth_chainId')
  const headers = { 'x-api-key': KEY }
  const asking = addresses.map(async (from) => {
    const open = new Set<Promise<void>>()
    for (; !isOver(); await pause(PACE_MS)) {
      if (open.size >= MOST_OPEN) continue
      const one = ask(notes, { url: `${url}/`, body, from, headers }).then((said) => {
        if (said === undefined) return
        if (said.status !== 200 && said.status !== 429)
          notes.fault('refused', `${from}: ${said.status} ${said.text.slice(0, 200)}`)
        answers.push({ at: performance.now(), isServed: said.status === 200 })
      })
      open.add(one)
      void one.finally(() => open.delete(one))
    }
    await Promise.all(open)
  })
  await Promise.all([...asking, watchStalls(stalls, replicas, isOver)])
  return { report: () => judge(answers, notes, stalls) }
}

/** A node that stood still gives its seconds to everybody, so what is counted then says nothing. */
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
        // A process that is new counts from nothing.
        if (seconds !== (known.get(replica.name) ?? 0)) stalls.push(performance.now())
        known.set(replica.name, seconds)
      }),
    )
    await pause(WATCH_MS)
  }
}

/** From where one second of the limit is used up to where a later one is: the points between are all served, or the limit is not one. */
function judge(answers: readonly Answer[], notes: Notes, stalls: readonly number[]) {
  const moments = fullMoments(answers)
  const wrong: string[] = []
  let [windows, left, total] = [0, 0, 0]
  let from = moments[0]
  for (const to of moments) {
    if (from === undefined || to - from < WINDOW_MS) continue
    // Answers of a busy machine come in another order than they were counted: a run of refusals is cut in two then.
    const offMs = Math.abs(to - from - 1_000 * Math.round((to - from) / 1_000))
    if (offMs > PHASE_MS && to - from < MOST_MS) continue
    if (offMs > PHASE_MS || !isFullThroughout(answers, from, to)) left++
    else if (isUncertain({ from, to }, notes, stalls)) left++
    else {
      const served = answers.filter(({ at, isServed }) => isServed && at > from! && at <= to).length
      const seconds = Math.round((to - from) / 1_000)
      const expected = LIMIT * seconds
      windows++
      total += served
      // Points of requests that nobody answered are used.
      const lost = notes.lost.filter(({ ended }) => ended > from! && ended <= to).length
      if (served > expected * 1.01 || served + lost < expected * 0.99)
        wrong.push(
          `${served} in ${seconds} s until ${notes.seconds(to)} (${((to - from) / 1_000).toFixed(2)} s), ${lost} lost`,
        )
    }
    from = to
  }
  return { windows, wrong, left, served: total }
}

function isUncertain(
  { from, to }: { readonly from: number; readonly to: number },
  notes: Notes,
  stalls: readonly number[],
): boolean {
  if (stalls.some((at) => at >= from - WATCH_MS && at <= to + 2 * WATCH_MS)) return true
  return notes.happenings.some(
    (one) => ['redis', 'stop'].includes(one.kind) && one.from <= to && one.to + BACK_MS >= from,
  )
}

/** Somebody was refused in each second: as much was asked for as there is. */
function isFullThroughout(answers: readonly Answer[], from: number, to: number): boolean {
  const full = new Set<number>()
  for (const { at, isServed } of answers)
    if (!isServed && at > from && at <= to) full.add(Math.floor((to - at) / 1_000))
  return full.size >= Math.round((to - from) / 1_000)
}

/** The middle of each run of refusals: what was served of the second before is read long ago, of the next nothing is. */
function fullMoments(answers: readonly Answer[]): readonly number[] {
  const moments: number[] = []
  let run: number[] = []
  for (const { at, isServed } of answers)
    if (!isServed) run.push(at)
    else {
      if (run.length >= FULL) moments.push((run[0]! + run.at(-1)!) / 2)
      run = []
    }
  return moments
}

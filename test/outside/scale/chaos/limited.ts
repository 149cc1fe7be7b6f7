/** A caller who asks more often than it may, by a key, from several addresses: HAProxy has them at several replicas, and all count together. */
import { bodyOf } from '../client.ts'
import { ask, type Notes, pause } from './notes.ts'
import { metricOf, type Replica } from './replica.ts'
import { KEY, LIMIT } from './world.ts'

/** Of one address: 200 a second of six. */
const PACE_MS = 30
/** Unanswered of one address. */
const MOST_OPEN = 20
const WATCH_MS = 500
/** The points of a stall go to whoever asks so soon after it; as much again for the look at it. */
const GRANTED_MS = 2_000
/** A shorter stretch says little: at its ends it may have two seconds more than it is long. */
const STRETCH_MS = 5_000

type Answer = { readonly begun: number; readonly at: number; readonly isServed: boolean }
type Span = { readonly from: number; readonly to: number }
export type Limited = {
  /** To be called when nothing is asked any more. */
  report(): {
    /** Stretches of time in which all replicas counted in Redis, and none of them stood still. */
    readonly stretches: readonly string[]
    readonly wrong: readonly string[]
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
  const uncertain: Span[] = []
  const body = bodyOf('eth_chainId')
  const headers = { 'x-api-key': KEY }
  const asking = addresses.map(async (from) => {
    const open = new Set<Promise<void>>()
    for (; !isOver(); await pause(PACE_MS)) {
      if (open.size >= MOST_OPEN) continue
      const begun = performance.now()
      const one = ask(notes, { url: `${url}/`, body, from, headers }).then((said) => {
        if (said === undefined) return
        if (said.status !== 200 && said.status !== 429)
          notes.fault('refused', `${from}: ${said.status} ${said.text.slice(0, 200)}`)
        answers.push({ begun, at: performance.now(), isServed: said.status === 200 })
      })
      open.add(one)
      void one.finally(() => open.delete(one))
    }
    await Promise.all(open)
  })
  await Promise.all([...asking, watch(uncertain, replicas, isOver)])
  return { report: () => judge(answers, notes, uncertain) }
}

/** Seconds of stalls are given to everybody; what a replica decides alone, Redis does not count. */
const WATCHED = [
  'flashnode_front_stalled_seconds_total',
  'flashnode_front{what="limitStoreAlone"}',
] as const

/** Notes the time in which one of these has changed. */
async function watch(
  uncertain: Span[],
  replicas: () => readonly Replica[],
  isOver: () => boolean,
): Promise<void> {
  const known = new Map<string, { readonly values: string; readonly at: number }>()
  const look = async (replica: Replica) => {
    const at = performance.now()
    const all = await Promise.all(WATCHED.map((name) => metricOf(replica, name)))
    if (all.includes(undefined)) return
    const values = all.join()
    const before = known.get(replica.name)
    known.set(replica.name, { values, at })
    // A new process counts from nothing.
    if (values === (before?.values ?? '0,0')) return
    uncertain.push({ from: before?.at ?? 0, to: performance.now() + GRANTED_MS })
  }
  while (!isOver()) {
    await Promise.all(replicas().map(look))
    await pause(WATCH_MS)
  }
  await Promise.all(replicas().map(look))
}

/**
 * In a stretch no more is served than the points of the seconds that it touches, and nothing is
 * refused for which there were points, however late requests and answers are.
 */
function judge(answers: readonly Answer[], notes: Notes, uncertain: readonly Span[]) {
  const stretches: string[] = []
  const wrong: string[] = []
  for (const { from, to } of stretchesOf(answers, uncertain)) {
    const inside = answers.filter(({ begun, at }) => begun >= from && at <= to)
    const served = inside.filter(({ isServed }) => isServed).length
    const most = LIMIT * (Math.floor((to - from) / 1_000) + 2)
    const refusals = inside.filter(({ begun, isServed }) => !isServed && begun - 1_000 >= from)
    const bad = refusals.filter((one) => countedBefore(one, answers, notes) < LIMIT)
    const text = `${served} served from ${notes.seconds(from)} to ${notes.seconds(to)}, ${refusals.length} refused`
    if (refusals.length > 0) stretches.push(text)
    if (served > most) wrong.push(`${text}: at most ${most} may be`)
    if (bad.length > 0) wrong.push(`${text}: ${bad.length} of these although there were points`)
  }
  return { stretches, wrong }
}

/** Requests that may have been counted in its second before it. A lost one may have been, too. */
function countedBefore(refusal: Answer, answers: readonly Answer[], { lost }: Notes): number {
  const isNear = (begun: number, ended: number) =>
    begun <= refusal.at && ended >= refusal.begun - 1_000
  const served = answers.filter(({ begun, at, isServed }) => isServed && isNear(begun, at))
  return served.length + lost.filter(({ begun, ended }) => isNear(begun, ended)).length
}

/** Between the first answer and the last, where nothing is uncertain. */
function stretchesOf(answers: readonly Answer[], uncertain: readonly Span[]): readonly Span[] {
  const end = Math.max(...answers.map(({ at }) => at))
  const spans: Span[] = []
  let from = Math.min(...answers.map(({ begun }) => begun))
  for (const span of [...uncertain, { from: end, to: end }].sort((a, b) => a.from - b.from)) {
    const to = Math.min(span.from, end)
    if (to - from >= STRETCH_MS) spans.push({ from, to })
    from = Math.max(from, span.to)
  }
  return spans
}

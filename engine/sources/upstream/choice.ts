/** Which upstream is asked: who rests and why, and what all of them say where two say different things. */
import type { Hex } from '../../primitives/bytes.ts'
import {
  type Asked,
  ask,
  count,
  emit,
  isUsable,
  type RestWhy,
  replan,
  type Source,
  type TrackerState,
  type Vote,
} from './tracker-state.ts'
import type { TrackedBlock } from './tracker-types.ts'
import { mostVoices } from './voices.ts'

/** Over as soon as there is nobody else. */
const SOFT: ReadonlySet<RestWhy> = new Set(['limited', 'errs', 'lags'])

/** It is asked, now or where nobody else is left. */
export const mayAnswer = ({ rest }: Source): boolean => rest === undefined || SOFT.has(rest.why)

/** Those that are asked now: all that do not rest; where all do, those whose fault may be over. */
export function candidates<B extends TrackedBlock>({
  sources,
}: TrackerState<B>): readonly Source[] {
  const usable = sources.filter(isUsable)
  if (usable.length > 0) return usable
  return sources.filter(mayAnswer)
}

/** The one that is followed: the first named that has told its head. */
export const leaderOf = <B extends TrackedBlock>(state: TrackerState<B>): Source | undefined =>
  state.sources.find((source) => isUsable(source) && source.head !== undefined)

/** Ends the rests that are over. None is followed before it tells its head again: it may lag as before. */
export function wakeUp<B extends TrackedBlock>({ sources, options }: TrackerState<B>): void {
  const now = options.now()
  for (const source of sources)
    if (source.rest !== undefined && source.rest.untilMs <= now) {
      source.rest = undefined
      source.head = undefined
      source.pollAtMs = now
    }
}

/** It has answered as it should: where it is asked although it rests, it rests no more. */
export function answered<B extends TrackedBlock>(state: TrackerState<B>, source: Source): void {
  source.failures = 0
  if (!isUsable(source) && candidates(state).includes(source)) source.rest = undefined
}

export function rest<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  { why, message, ms }: { readonly why: RestWhy; readonly message: string; readonly ms?: number },
): void {
  const { now, limits, times } = state.options
  if (source.rest?.why === 'foreign') return
  // One that fails again and again is said once, until it has answered.
  const isNew = !SOFT.has(why) || (source.rest === undefined && source.failures === 0)
  source.failures++
  const backoffMs = times.backoffMs * 2 ** Math.min(20, source.failures - 1)
  // What it asked for itself is waited for in any case.
  const quietMs = why === 'limited' ? (ms ?? 0) : 0
  source.retryAtMs = now() + Math.max(quietMs, Math.min(times.maxBackoffMs, backoffMs))
  source.pollAtMs = source.retryAtMs
  source.rest = { why, message, untilMs: now() + (ms ?? limits.upstreamRestMs) }
  count(state, why === 'limited' ? 'upstream_limited' : 'upstream_rests')
  if (isNew && why !== 'limited')
    emit(state, { type: 'warning', message: `${source.name} is not asked for a while: ${message}` })
  if (state.branch?.source === source) state.branch = undefined
  if (isBehindPlan(state, source)) replan(state)
}

/** Whether what is fetched or under way comes from it. */
function isBehindPlan<B extends TrackedBlock>(
  { asked, fetched, plan }: TrackerState<B>,
  source: Source,
): boolean {
  const isUnderWay = (one: Asked) =>
    one.type === 'range' && one.plan === plan && one.source === source
  return (
    [...asked.values()].some(isUnderWay) ||
    [...fetched.values()].some((one) => one.source === source)
  )
}

/** Whether it is so far behind the others that it rests. One other upstream is believed only while this one stands still. */
export function checkLag<B extends TrackedBlock>(state: TrackerState<B>, source: Source): void {
  const { now, limits, times } = state.options
  const others = state.sources.filter((one) => one !== source && isUsable(one))
  const heads = others.flatMap(({ head }) => (head === undefined ? [] : [head.number]))
  const [best, second] = heads.toSorted((a, b) => b - a)
  const reference = second ?? best
  if (source.head === undefined || reference === undefined || !isUsable(source)) return
  const behind = reference - source.head.number
  const isBelieved = second !== undefined || now() - source.movedAtMs >= times.standsMs
  if (behind > limits.upstreamLagBlocks && isBelieved)
    rest(state, source, {
      why: 'lags',
      message: `its head is ${behind} blocks behind that of others`,
    })
}

/** Asks all others which block they have at a height; `claims` are known. */
export function startVote<B extends TrackedBlock>(
  state: TrackerState<B>,
  number: number,
  claims: ReadonlyMap<Source, Hex>,
): void {
  const { now, times } = state.options
  const others = state.sources.filter((source) => isUsable(source) && !claims.has(source))
  const vote: Vote = { number, claims: new Map(claims), waiting: others.length }
  state.vote = vote
  state.voteAtMs = now() + times.voteMs
  for (const source of others)
    emit(state, { type: 'ask', ...ask(state, { type: 'vote', source, vote }), number })
  if (others.length === 0) settle(state, vote)
}

/** @param hash undefined: it has no block there, or has not answered */
export function onClaim<B extends TrackedBlock>(
  state: TrackerState<B>,
  { vote, source }: { readonly vote: Vote; readonly source: Source },
  hash: Hex | undefined,
): void {
  if (hash !== undefined) vote.claims.set(source, hash)
  vote.waiting--
  if (vote.waiting === 0) settle(state, vote)
}

function settle<B extends TrackedBlock>(state: TrackerState<B>, vote: Vote): void {
  if (state.vote === vote) state.vote = undefined
  const claims = state.sources.flatMap((source) => {
    const hash = source.rest?.why === 'foreign' ? undefined : vote.claims.get(source)
    return hash === undefined ? [] : [[source, hash] as const]
  })
  if (claims.length === 0) return
  const { doubts } = mostVoices(vote.number, claims)
  if (doubts.length > 0) count(state, 'upstream_disagrees')
  for (const { source, message } of doubts) rest(state, source, { why: 'contradicts', message })
}

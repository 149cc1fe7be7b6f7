/**
 * Choice of the upstream: backoffs with their reasons, and votes on blocks that differ, at the
 * start and while the chain is followed.
 */
import type { Hex } from '../../primitives/bytes.ts'
import {
  type BackoffReason,
  count,
  emit,
  isUsable,
  openRequest,
  replan,
  type Source,
  type TrackerState,
  type UpstreamRequest,
  type Vote,
} from './tracker-state.ts'
import type { TrackedBlock } from './tracker-types.ts'

/** Reasons for a backoff that end when no other upstream is usable. */
const SOFT: ReadonlySet<BackoffReason> = new Set(['limited', 'errs', 'lags'])

/** Whether the upstream is asked now, or when no other one is usable. */
export const mayRespond = ({ backoff }: Source): boolean =>
  backoff === undefined || SOFT.has(backoff.why)

/** Returns upstreams without a backoff, or those whose backoff may end if there are none. */
export function candidates<B extends TrackedBlock>({
  sources,
}: TrackerState<B>): readonly Source[] {
  const usable = sources.filter(isUsable)
  if (usable.length > 0) return usable
  return sources.filter(mayRespond)
}

/** Returns the followed upstream: the first named one with a known head. */
export const leaderOf = <B extends TrackedBlock>(state: TrackerState<B>): Source | undefined =>
  state.sources.find((source) => isUsable(source) && source.head !== undefined)

/**
 * Ends backoffs whose time is over. The upstream is followed only after a new head, because its
 * head may still lag.
 */
export function wakeUp<B extends TrackedBlock>({ sources, options }: TrackerState<B>): void {
  const now = options.now()
  for (const source of sources)
    if (source.backoff !== undefined && source.backoff.untilMs <= now) {
      source.backoff = undefined
      source.head = undefined
      source.pollAtMs = now
    }
}

/** Notes a good response, which ends the backoff of an upstream that was asked in spite of it. */
export function noteResponse<B extends TrackedBlock>(state: TrackerState<B>, source: Source): void {
  source.failures = 0
  if (!isUsable(source) && candidates(state).includes(source)) source.backoff = undefined
}

export function backoff<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  {
    why,
    message,
    ms,
  }: { readonly why: BackoffReason; readonly message: string; readonly ms?: number },
): void {
  const { now, limits, times } = state.options
  const lasting = source.backoff?.why
  if (lasting === 'foreign' || (lasting === 'contradicts' && SOFT.has(why))) return
  // Repeated failures are logged once, until the upstream answers.
  const isNew = !SOFT.has(why) || (source.backoff === undefined && source.failures === 0)
  source.failures++
  const backoffMs = times.backoffMs * 2 ** Math.min(20, source.failures - 1)
  // A delay that the upstream requested is always respected.
  const quietMs = why === 'limited' ? (ms ?? 0) : 0
  source.retryAtMs = now() + Math.max(quietMs, Math.min(times.maxBackoffMs, backoffMs))
  source.pollAtMs = source.retryAtMs
  source.backoff = { why, message, untilMs: now() + (ms ?? limits.upstreamRestMs) }
  count(state, why === 'limited' ? 'upstream_limited' : 'upstream_rests')
  if (isNew && why !== 'limited')
    emit(state, { type: 'warning', message: `${source.name} is not asked for a while: ${message}` })
  if (state.ancestorSearch?.source === source) state.ancestorSearch = undefined
  if (isBelowPlan(state, source)) replan(state)
}

/** Whether fetched or requested blocks come from this upstream. */
function isBelowPlan<B extends TrackedBlock>(
  { requested, fetched, plan }: TrackerState<B>,
  source: Source,
): boolean {
  const isUnderWay = (one: UpstreamRequest) =>
    one.type === 'range' && one.plan === plan && one.source === source
  return (
    [...requested.values()].some(isUnderWay) ||
    [...fetched.values()].some((one) => one.source === source)
  )
}

/**
 * Puts an upstream that lags behind the others into backoff. A single other upstream counts only
 * while this one's head does not move.
 */
export function checkLag<B extends TrackedBlock>(state: TrackerState<B>, source: Source): void {
  const { now, limits, times } = state.options
  const others = state.sources.filter((one) => one !== source && isUsable(one))
  const heads = others.flatMap(({ head }) => (head === undefined ? [] : [head.number]))
  const [best, second] = heads.toSorted((a, b) => b - a)
  const reference = second ?? best
  if (source.head === undefined || reference === undefined || !isUsable(source)) return
  const lagBlocks = reference - source.head.number
  const isBelieved = second !== undefined || now() - source.movedAtMs >= times.standsMs
  if (lagBlocks > limits.upstreamLagBlocks && isBelieved)
    backoff(state, source, {
      why: 'lags',
      message: `its head is ${lagBlocks} blocks behind that of others`,
    })
}

/**
 * Whether the upstream votes. One that lost a vote votes again, because it may have been right:
 * others that have its block now may have lacked it then.
 */
const votes = ({ backoff }: Source): boolean =>
  backoff === undefined || backoff.why === 'contradicts'

/** Asks all other upstreams for their hash at a height; `claims` are known. */
export function startVote<B extends TrackedBlock>(
  state: TrackerState<B>,
  number: number,
  claims: ReadonlyMap<Source, Hex>,
): void {
  const { now, times } = state.options
  const others = state.sources.filter((source) => votes(source) && !claims.has(source))
  const vote: Vote = { number, claims: new Map(claims), waiting: others.length }
  state.vote = vote
  state.voteAtMs = now() + times.voteMs
  for (const source of others)
    emit(state, { type: 'ask', ...openRequest(state, { type: 'vote', source, vote }), number })
  if (others.length === 0) settle(state, vote)
}

/**
 * Counts a vote.
 * @param hash undefined: the upstream has no block there, or gave no response
 */
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
  // Upstreams that lost a vote come last, so they do not win a tie.
  const voters = state.sources.toSorted((a, b) => Number(isUsable(b)) - Number(isUsable(a)))
  const claims = voters.flatMap((source) => {
    const hash = source.backoff?.why === 'foreign' ? undefined : vote.claims.get(source)
    return hash === undefined ? [] : [[source, hash] as const]
  })
  if (claims.length === 0) return
  const { by, suspicions } = plurality(vote.number, claims)
  if (suspicions.length > 0) count(state, 'upstream_disagrees')
  for (const source of suspicions.length > 0 ? by : [])
    if (source.backoff?.why === 'contradicts') source.backoff = undefined
  for (const { source, message } of suspicions)
    backoff(state, source, { why: 'contradicts', message })
}

/** The vote of one upstream; undefined: it has no block at that height. */
export type Claim<One> = readonly [source: One, hash: Hex | undefined]
export type VoteCount<One> = {
  readonly hash: Hex | undefined
  /** Upstreams that agree with the result, in the order of the claims. */
  readonly by: readonly One[]
  readonly suspicions: readonly { readonly source: One; readonly message: string }[]
}

/**
 * Returns the hash with the most votes; a tie goes to the first claim.
 * @param claims at least one
 */
export function plurality<One extends { readonly name: string }>(
  number: number,
  claims: readonly Claim<One>[],
): VoteCount<One> {
  // Groups are in the order of their first named upstream, so the first of the largest wins.
  const groups = [...Map.groupBy(claims, ([, hash]) => hash)].toSorted(
    ([, a], [, b]) => b.length - a.length,
  )
  const [hash, winners] = groups[0]!
  const by = winners.map(([source]) => source)
  const names = by.map(({ name }) => name).join(' and ')
  const what = (one: Hex | undefined) => one ?? 'not there'
  const suspicions = groups
    .slice(1)
    .flatMap(([, losers]) => losers)
    .map(([source, other]) => ({
      source,
      message: `block ${number} is ${what(other)} there, ${what(hash)} at ${names}`,
    }))
  return { hash, by, suspicions }
}

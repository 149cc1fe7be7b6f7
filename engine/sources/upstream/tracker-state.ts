/**
 * State of the tracker between two events, and small steps that its parts share. Also the
 * suspicions about upstreams, and the reasons for a halt, that operators see.
 */
import type { Hex } from '../../primitives/bytes.ts'
import type { Suspicion } from '../suspicion.ts'
import type { Head } from './header-json.ts'
import type { Progress } from './progress.ts'
import type {
  Halt,
  Halted,
  Point,
  Question,
  Refusal,
  TrackedBlock,
  TrackerCount,
  TrackerEffect,
  TrackerOptions,
} from './tracker-types.ts'

/**
 * `limited`, `errs` and `lags` end when no other upstream is usable. `contradicts` (the others),
 * `final` (a final block) and `suspected` (gave a refused block) last for their time. `foreign`
 * lasts for ever.
 */
export type BackoffReason =
  | 'limited'
  | 'errs'
  | 'lags'
  | 'contradicts'
  | 'final'
  | 'suspected'
  | 'foreign'
export type Backoff = {
  readonly why: BackoffReason
  readonly message: string
  readonly untilMs: number
}

export type Source = {
  readonly at: number
  readonly name: string
  /** undefined: the upstream has announced no head since its last backoff. */
  head: Head | undefined
  /** Block of its newest head, and the time since when. */
  movedTo: Hex | undefined
  movedAtMs: number
  backoff: Backoff | undefined
  /** Failures since the last response, and the time of the next try without other upstreams. */
  failures: number
  retryAtMs: number
  pollAtMs: number
  /** Time since when the upstream does not give blocks that it has announced. */
  emptySinceMs: number | undefined
  /** Request number of the open poll. */
  polling: number | undefined
}

/** A request and the upstream that got it. */
export type UpstreamRequest =
  | { readonly type: 'poll'; readonly source: Source }
  | {
      readonly type: 'range'
      readonly source: Source
      readonly first: number
      readonly count: number
      readonly plan: number
    }
  | { readonly type: 'ancestors'; readonly source: Source; readonly ancestorSearch: object }
  | { readonly type: 'vote'; readonly source: Source; readonly vote: Vote }

/** A vote of all usable upstreams on their block at a height. */
export type Vote = {
  readonly number: number
  readonly claims: Map<Source, Hex>
  waiting: number
}

/** Search from the top of another chain down to a block of ours. */
export type AncestorSearch<B> = {
  readonly source: Source
  /** Blocks of the branch, oldest first. */
  blocks: B[]
  /** Height of the next block down. */
  number: number
  hash: Hex
  isRequested: boolean
  /** The other upstreams have voted on the lowest block that differs. */
  isVoted: boolean
}

export type Sent = Point & {
  readonly gasUsed: number
  readonly bytes: number
  readonly source: Source
}
export type Tags = { readonly safe: Point | undefined; readonly finalized: Point | undefined }

export type TrackerState<B extends TrackedBlock> = {
  readonly options: TrackerOptions
  readonly sources: readonly Source[]
  readonly requested: Map<number, UpstreamRequest>
  requests: number
  canonical: Point
  finalized: number
  safe: number
  /** Blocks that the writer has and has not made canonical yet, oldest first. */
  sent: Sent[]
  /** Fetched blocks that wait for an earlier one. */
  readonly fetched: Map<number, { readonly block: B; readonly source: Source }>
  /** Number of the fetch plan; responses to requests of an older plan are ignored. */
  plan: number
  /** Highest requested block. */
  requestedTo: number
  ancestorSearch: AncestorSearch<B> | undefined
  vote: Vote | undefined
  voteAtMs: number
  /** Labelled heads as last announced; they count once our chain has reached them. */
  tags: Tags
  tagsAtMs: number
  /** Blocks that the writer has refused, by hash, with the upstreams that gave them. */
  readonly refused: Map<Hex, Refusal & { readonly by: Set<Source>; readonly isClaimed?: boolean }>
  /** Time before which nothing is fetched. */
  pausedUntilMs: number
  halted: { readonly why: Halt; readonly message: string } | undefined
  /** Start of the lazy state, as in the options until a resync. */
  lazyStart: number | undefined
  isResyncing: boolean
  /** Earliest time of the next effect `left`. */
  leftAtMs: number
  /** Blocks returned without available state since the last canonical block. */
  stateLosses: number
  readonly progress: Progress
  statusAtMs: number
  effects: TrackerEffect<B>[]
}

export const emit = <B extends TrackedBlock>(
  state: TrackerState<B>,
  effect: TrackerEffect<B>,
): void => void state.effects.push(effect)

export const count = <B extends TrackedBlock>(
  state: TrackerState<B>,
  what: TrackerCount,
  by = 1,
): void => emit(state, { type: 'count', what, by })

/** Opens a request, which is remembered until its response. */
export function openRequest<B extends TrackedBlock>(
  state: TrackerState<B>,
  requested: UpstreamRequest,
): Question {
  const request = ++state.requests
  state.requested.set(request, requested)
  const { source } = requested
  const hasOthers = state.sources.some((one) => one !== source && responds(one))
  return { request, upstream: source.at, hasOthers }
}

export const isUsable = ({ backoff }: Source): boolean => backoff === undefined

/** Whether the upstream is expected to answer; a limited one may soon accept calls again. */
const responds = ({ backoff }: Source): boolean =>
  backoff === undefined || backoff.why === 'limited'

/** Returns the newest block that the writer has. */
export const tipOf = <B extends TrackedBlock>({ sent, canonical }: TrackerState<B>): Point =>
  sent.at(-1) ?? canonical

/** Returns the hash of our canonical block. */
export const ownHash = <B extends TrackedBlock>(
  { canonical, options }: TrackerState<B>,
  number: number,
): Hex | undefined => (number === canonical.number ? canonical.hash : options.hashOf(number))

/** Returns the hash on the chain that the writer is about to make canonical. */
export function lineHash<B extends TrackedBlock>(
  state: TrackerState<B>,
  number: number,
): Hex | undefined {
  const { sent } = state
  const first = sent[0]
  if (first !== undefined && number >= first.number) return sent[number - first.number]?.hash
  return ownHash(state, number)
}

/** Drops fetched blocks and open requests, which are then requested again. */
export function replan<B extends TrackedBlock>(state: TrackerState<B>): void {
  state.plan++
  state.fetched.clear()
  state.requestedTo = tipOf(state).number
}

export function degradedBy(sources: readonly Source[]): readonly Suspicion[] {
  const describe = (source: Source) => `${source.name}: ${source.backoff!.message}`
  const backedOff = sources.filter((source) => !isUsable(source))
  if (backedOff.length === sources.length) {
    const outside = 'no upstream answers'
    return [{ text: `${outside}: ${backedOff.map(describe).join('; ')}`, outside }]
  }
  return backedOff.flatMap((source) => {
    const outside = SUSPICIONS[source.backoff!.why]
    return outside === undefined ? [] : [{ text: describe(source), outside }]
  })
}

/** Reasons for a backoff that an operator should look at. */
const SUSPICIONS: Readonly<Partial<Record<BackoffReason, string>>> = {
  contradicts: 'an upstream contradicts the others',
  final: 'an upstream has another chain than what is final here',
  suspected: 'an upstream gives a block that is not what this node computes',
  foreign: 'an upstream has another chain',
}

export const haltSuspicion = ({ why, message }: Halted): Suspicion => ({
  text: message,
  outside: HALTS[why],
})

const HALTS: Readonly<Record<Halt, string>> = {
  deep: 'the chain was replaced deeper than this node can go back',
  refused: 'all upstreams give a block that is not what this node computes',
  type: 'the chain has a transaction of a type that this node does not support',
}

const RESYNCS = 'the state begins anew'
export const resyncSuspicion: Suspicion = { text: RESYNCS, outside: RESYNCS }

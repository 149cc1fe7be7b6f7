/** What the tracker knows between two events, and the small steps that its parts share. */
import type { Hex } from '../../primitives/bytes.ts'
import type { Head } from './header-json.ts'
import type { Progress } from './progress.ts'
import type {
  Halt,
  Point,
  Question,
  Refusal,
  TrackedBlock,
  TrackerCount,
  TrackerEffect,
  TrackerOptions,
} from './tracker-types.ts'

/**
 * `limited`, `errs` and `lags` are over when there is nobody else. `contradicts` others, `final`: a block that is final, `doubted`: gave what
 * the writer refuses; these are not over before their time, `foreign` never.
 */
export type RestWhy = 'limited' | 'errs' | 'lags' | 'contradicts' | 'final' | 'doubted' | 'foreign'
export type Rest = {
  readonly why: RestWhy
  readonly message: string
  readonly untilMs: number
}

export type Source = {
  readonly at: number
  readonly name: string
  /** undefined: it has told none since it last rested. */
  head: Head | undefined
  /** The block that its newest head was, and since when. */
  movedTo: Hex | undefined
  movedAtMs: number
  rest: Rest | undefined
  /** Failures since its last answer; and when it may be tried again where there is nobody else. */
  failures: number
  retryAtMs: number
  pollAtMs: number
  /** Since when it does not give the blocks that it has told of. */
  emptySinceMs: number | undefined
  /** Request of the poll that is not answered yet. */
  polling: number | undefined
}

/** What was asked of whom. */
export type Asked =
  | { readonly type: 'poll'; readonly source: Source }
  | {
      readonly type: 'range'
      readonly source: Source
      readonly first: number
      readonly count: number
      readonly plan: number
    }
  | { readonly type: 'branch'; readonly source: Source; readonly branch: object }
  | { readonly type: 'vote'; readonly source: Source; readonly vote: Vote }

/** All upstreams that can be asked say which block they have at a height. */
export type Vote = {
  readonly number: number
  readonly claims: Map<Source, Hex>
  waiting: number
}

/** Another chain than ours, walked down from its top to a block that we have. */
export type Branch<B> = {
  readonly source: Source
  /** Oldest first. */
  blocks: B[]
  /** Next block down. */
  number: number
  hash: Hex
  isAsked: boolean
  /** The others were asked which block they have where it begins to differ. */
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
  readonly asked: Map<number, Asked>
  requests: number
  canonical: Point
  finalized: number
  safe: number
  /** What the writer has and has not made canonical yet, oldest first. */
  sent: Sent[]
  /** Fetched, waiting for what comes before. */
  readonly fetched: Map<number, { readonly block: B; readonly source: Source }>
  /** Counts how often what was asked for was thrown away. */
  plan: number
  /** The highest that was asked for. */
  askedTo: number
  branch: Branch<B> | undefined
  vote: Vote | undefined
  voteAtMs: number
  /** As last told; they count once our chain has come to them. */
  tags: Tags
  tagsAtMs: number
  /** By hash, what the writer has refused: who has given it. */
  readonly refused: Map<Hex, Refusal & { readonly by: Set<Source>; readonly isClaimed?: boolean }>
  /** Nothing is fetched before. */
  holdUntilMs: number
  halted: { readonly why: Halt; readonly message: string } | undefined
  /** As in the options, until the state begins anew. */
  lazyStart: number | undefined
  isBeginning: boolean
  /** When it may be said again that our head has left the upstreams' state. */
  leftAtMs: number
  /** How often since the last canonical block one came back because its state could not be had. */
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

/** A new request, remembered until it is answered. */
export function ask<B extends TrackedBlock>(state: TrackerState<B>, asked: Asked): Question {
  const request = ++state.requests
  state.asked.set(request, asked)
  const { source } = asked
  const hasOthers = state.sources.some((one) => one !== source && answers(one))
  return { request, upstream: source.at, hasOthers }
}

export const isUsable = ({ rest }: Source): boolean => rest === undefined

/** As far as is known: one that only wants fewer calls may be the first to take some again. */
const answers = ({ rest }: Source): boolean => rest === undefined || rest.why === 'limited'

/** The newest block that the writer has. */
export const tipOf = <B extends TrackedBlock>({ sent, canonical }: TrackerState<B>): Point =>
  sent.at(-1) ?? canonical

/** Hash of what is canonical here. */
export const ownHash = <B extends TrackedBlock>(
  { canonical, options }: TrackerState<B>,
  number: number,
): Hex | undefined => (number === canonical.number ? canonical.hash : options.hashOf(number))

/** The same of the chain that the writer is about to make canonical. */
export function lineHash<B extends TrackedBlock>(
  state: TrackerState<B>,
  number: number,
): Hex | undefined {
  const { sent } = state
  const first = sent[0]
  if (first !== undefined && number >= first.number) return sent[number - first.number]?.hash
  return ownHash(state, number)
}

/** What is under way is asked for again. */
export function replan<B extends TrackedBlock>(state: TrackerState<B>): void {
  state.plan++
  state.fetched.clear()
  state.askedTo = tipOf(state).number
}

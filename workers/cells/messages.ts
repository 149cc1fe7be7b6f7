/** What the main thread and a cell say to each other: plain data. Either asks the other; each question has a number and one answer. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import type { Changes } from '../../engine/sources/writer/changes.ts'
import type { MissingKey, ViewError } from '../../engine/state/reader.ts'
import type { Standing } from '../../engine/txpool/departed.ts'
import type { WaitingMemory } from '../../engine/txpool/shared/memory.ts'
import type { ShownMemory } from '../../rpc/events/shared-shown.ts'
import type { FeedSeed } from '../../rpc/feed/hub.ts'
import type { LimiterMemory } from '../../rpc/limiter/memory.ts'
import type { Forwarded, StateMode, Submission, Syncing } from '../../rpc/seam/ports.ts'
import type { CapsMemory } from '../../rpc/seam/shared-caps.ts'
import type { BootstrapAnswer } from '../bootstrap/source.ts'
import type { NodeConfig } from '../config/serving.ts'
import type { ToldReadiness } from '../observe/health.ts'
import type { PageMode } from '../observe/live.ts'
import type { LogOptions } from '../observe/log.ts'
import type { MetricValue } from '../observe/metrics.ts'
import type { MishapCounts } from '../observe/reporter.ts'
import type { FromWriter, SharedCalling } from '../thread/messages.ts'
import type { Claims } from '../thread/rows.ts'
import type { Called, CarriedMethod } from './carried.ts'

/** What a cell begins with. */
export type CellData = {
  /** From 1: it is the first byte of the ids of its filters. */
  readonly cell: number
  /** Its own row. */
  readonly node: SharedCalling
  readonly claims: Claims
  readonly threads: number
  readonly allThreads: number
  /** What is a total there is its share here. */
  readonly config: NodeConfig
  readonly shared: SharedCounts
  /** Of the accounts that it signs with. */
  readonly keys: readonly Bytes[]
  /** Served beside those that every node has, and answered by the main thread. */
  readonly methods: readonly CarriedMethod[]
  readonly legacyUrl: string | undefined
  readonly mode: StateMode | undefined
  readonly isLazy: boolean
  readonly hasForward: boolean
  /** undefined: there is no /feed. */
  readonly feed: FeedSeed | undefined
  readonly pageMode: PageMode | undefined
  readonly hasControls: boolean
  readonly syncing: Syncing
  readonly path: string
  readonly log: LogOptions
  readonly mishaps: MishapCounts
}
/** What all cells count in, and what they read of the main thread. */
export type SharedCounts = {
  readonly calls: LimiterMemory
  readonly visits: LimiterMemory
  readonly caps: CapsMemory
  readonly shown: ShownMemory
  readonly waiting: WaitingMemory
}

/** The state is not here yet, or the view has gone: the question may be asked again. */
export type Undone =
  | { readonly missing: readonly [MissingKey, ...MissingKey[]] }
  | { readonly view: { readonly reason: ViewError['reason']; readonly message: string } }
export type FilterAsked = {
  readonly action: 'changes' | 'remove' | 'query'
  readonly id: string
}

type Asked = { readonly address: string }
/** What a cell may ask the main thread, and what is answered; undefined in its place: not in time. */
export type CellQuestions = {
  submit: [
    ask: Asked & { readonly raw: Bytes; readonly isTaken: boolean },
    answer: Submission | Undone,
  ]
  transaction: [ask: { readonly hash: Bytes }, answer: { readonly found?: SignedTransaction }]
  standing: [ask: { readonly hash: Bytes }, answer: { readonly found?: Standing }]
  counts: [ask: object, answer: { readonly pending: number; readonly queued: number }]
  fetch: [
    ask: Asked & { readonly keys: readonly MissingKey[]; readonly for: 'send' | 'caller' },
    answer: { readonly failed?: string | undefined },
  ]
  forward: [
    ask: Asked & {
      readonly method: string
      readonly params: readonly unknown[]
      readonly to: 'sequencer' | 'upstream'
    },
    answer: Forwarded,
  ]
  /** A method that runs on the main thread, whoever is asked. */
  call: [
    ask: Asked & { readonly method: string; readonly text: string; readonly endpoint: Endpoint },
    answer: Called,
  ]
  /** Of another cell. */
  filter: [ask: FilterAsked & { readonly cell: number }, answer: Called]
  /** Of a new replica: the URL of its request. */
  bootstrap: [ask: { readonly url: string }, answer: BootstrapAnswer]
  readiness: [ask: { readonly maxLagMs?: number | undefined }, answer: ToldReadiness]
  metric: [ask: { readonly name: string }, answer: { readonly values: readonly MetricValue[] }]
}
/** What the main thread may ask a cell. */
export type MainQuestions = {
  listen: [
    ask: { readonly port: number },
    answer:
      | { readonly port: number; readonly url: string }
      | { readonly code: string; readonly message: string },
  ]
  ownFilter: [ask: FilterAsked, answer: Called]
  /** Requests in flight may finish within so many milliseconds. */
  drain: [ask: { readonly withinMs: number }, answer: object]
  /** It ends by itself within so many milliseconds, or is ended. */
  close: [ask: { readonly withinMs: number }, answer: object]
  /** The keys of callers; undefined: their file has a problem. */
  reloadKeys: [ask: object, answer: { readonly count: number | undefined }]
  /** In the form of Prometheus. */
  metrics: [ask: object, answer: { readonly text: string }]
  metric: [ask: { readonly name: string }, answer: { readonly values: readonly MetricValue[] }]
  stats: [ask: object, answer: Readonly<Record<string, unknown>>]
}
type Questions = CellQuestions & MainQuestions
export type Question<All extends keyof Questions = keyof Questions> = {
  readonly [K in All]: { readonly what: K } & Questions[K][0]
}[All]
export type AnswerTo<K extends keyof Questions> = Questions[K][1]

type Asking<All extends keyof Questions> = {
  readonly type: 'ask'
  readonly request: number
  readonly question: Question<All>
}
type Answering = { readonly type: 'answer'; readonly request: number; readonly answer: unknown }

/** What the status page hears of the writer. */
export type Heard = Extract<FromWriter, { readonly type: 'published' | 'sealed' | 'count' }>

export type ToCell =
  | Asking<keyof MainQuestions>
  | Answering
  /** A new record can be read, or something that a page shows has happened. */
  | { readonly type: 'heard'; readonly message: Heard }
  /** A record was published that clients are shown later. */
  | { readonly type: 'arrived' }
  | {
      readonly type: 'packet'
      readonly packet: string | Bytes
      readonly place: FeedPlace | undefined
    }
  | { readonly type: 'changes'; readonly changes: Changes }
  /** A transaction has become executable: said to those who listen. */
  | { readonly type: 'pending'; readonly hash: Bytes; readonly transaction: SignedTransaction }
  /** Transactions have left the txpool without a block. */
  | { readonly type: 'departed'; readonly hashes: readonly Bytes[] }
  /** Calls that may read this record, or an older one, end. */
  | { readonly type: 'cancel'; readonly record: number }
  | { readonly type: 'paused'; readonly reason: 'starting' | 'draining' | undefined }
  | { readonly type: 'syncing'; readonly syncing: Syncing }

export type FromCell =
  | Asking<keyof CellQuestions>
  | Answering
  /** It can be asked. */
  | { readonly type: 'ready' }
  /** Once a second: its loop turns. */
  | { readonly type: 'alive' }
  /** Nobody waits for the answer any more. */
  | { readonly type: 'gone'; readonly request: number }
  | { readonly type: 'listens'; readonly toPending: boolean }
  /** Now and then, where a balancer asks: busy workers of all of its, and how long a call has waited for one since the last time. */
  | {
      readonly type: 'load'
      readonly busy: number
      readonly threads: number
      readonly waitMs: number
    }
  /** A read went through its pool, or what went wrong. */
  | { readonly type: 'probed'; readonly problem: string | undefined }
  /** An engine has given another answer than the other one. */
  | { readonly type: 'distrust'; readonly reason: string }
  /** The process cannot go on, in one line. */
  | { readonly type: 'failed'; readonly message: string }

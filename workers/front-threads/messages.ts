/**
 * Messages between the main thread and front threads. Each side sends requests; each has a number
 * and one response.
 */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import type { Changes } from '../../engine/sources/writer/changes.ts'
import type { MissingKey, ViewError } from '../../engine/state/reader.ts'
import type { Standing } from '../../engine/txpool/departed.ts'
import type { WaitingMemory } from '../../engine/txpool/shared/memory.ts'
import type { Forwarded, StateMode, Submission, Syncing } from '../../rpc/core/ports.ts'
import type { SeenMemory } from '../../rpc/events/shared-seen.ts'
import type { FeedSeed } from '../../rpc/feed-server/hub.ts'
import type { LimiterMemory } from '../../rpc/limiter/memory.ts'
import type { ConcurrencyMemory } from '../../rpc/limiter/shared-concurrency-limits.ts'
import type { BootstrapResponse } from '../bootstrap/source.ts'
import type { NodeConfig } from '../config/serving-options.ts'
import type { ReportedReadiness } from '../observe/health.ts'
import type { PageMode } from '../observe/live.ts'
import type { LogOptions } from '../observe/log.ts'
import type { MetricValue } from '../observe/metrics.ts'
import type { IncidentCounts } from '../observe/reporter.ts'
import type { FromWriter, SharedCalling } from '../thread/messages.ts'
import type { Claims } from '../thread/rows.ts'
import type { Called, CarriedMethod } from './carried.ts'

export type FrontThreadData = {
  /** Number of the thread from 1; it is the first byte of its filters' ids. */
  readonly frontThread: number
  /** Row of this thread in the shared tables. */
  readonly node: SharedCalling
  readonly claims: Claims
  readonly threads: number
  readonly allThreads: number
  /** Configuration with this thread's share of the node's totals. */
  readonly config: NodeConfig
  readonly shared: SharedCounts
  /** Keys of the accounts for which the node signs. */
  readonly keys: readonly Bytes[]
  /** Methods of this role that the main thread runs. */
  readonly methods: readonly CarriedMethod[]
  readonly forwardingUrl: string | undefined
  readonly mode: StateMode | undefined
  readonly isLazy: boolean
  readonly hasForward: boolean
  /** undefined if there is no /feed. */
  readonly feed: FeedSeed | undefined
  readonly pageMode: PageMode | undefined
  readonly hasControls: boolean
  readonly syncing: Syncing
  readonly path: string
  readonly log: LogOptions
  readonly incidents: IncidentCounts
}
/** Memory that all front threads share for counting, and for reading the main thread's txpool. */
export type SharedCounts = {
  readonly calls: LimiterMemory
  readonly nonRpcRequests: LimiterMemory
  readonly concurrencyLimits: ConcurrencyMemory
  readonly seen: SeenMemory
  readonly waiting: WaitingMemory
}

/** The state is still missing, or the view is gone; the request may be repeated. */
export type Undone =
  | { readonly missing: readonly [MissingKey, ...MissingKey[]] }
  | { readonly view: { readonly reason: ViewError['reason']; readonly message: string } }
export type FilterRequest = {
  readonly action: 'changes' | 'remove' | 'query'
  readonly id: string
}

type FromClient = { readonly address: string }
/** Requests to the main thread with their responses; a response is undefined after the timeout. */
export type FrontThreadQuestions = {
  submit: [
    request: FromClient & { readonly raw: Bytes; readonly isTaken: boolean },
    response: Submission | Undone,
  ]
  transaction: [request: { readonly hash: Bytes }, response: { readonly found?: SignedTransaction }]
  standing: [request: { readonly hash: Bytes }, response: { readonly found?: Standing }]
  counts: [request: object, response: { readonly pending: number; readonly queued: number }]
  fetch: [
    request: FromClient & { readonly keys: readonly MissingKey[]; readonly for: 'send' | 'caller' },
    response: { readonly failed?: string | undefined },
  ]
  forward: [
    request: FromClient & {
      readonly method: string
      readonly params: readonly unknown[]
      readonly to: 'sequencer' | 'upstream'
    },
    response: Forwarded,
  ]
  /** A method that runs on the main thread. */
  call: [
    request: FromClient & {
      readonly method: string
      readonly text: string
      readonly endpoint: Endpoint
    },
    response: Called,
  ]
  /** A filter of another front thread. */
  filter: [request: FilterRequest & { readonly frontThread: number }, response: Called]
  /** URL of a request of a new replica. */
  bootstrap: [request: { readonly url: string }, response: BootstrapResponse]
  readiness: [request: { readonly maxLagMs?: number | undefined }, response: ReportedReadiness]
  metric: [
    request: { readonly name: string },
    response: { readonly values: readonly MetricValue[] },
  ]
}
export type MainQuestions = {
  listen: [
    request: { readonly port: number },
    response:
      | { readonly port: number; readonly url: string }
      | { readonly code: string; readonly message: string },
  ]
  ownFilter: [request: FilterRequest, response: Called]
  /** Open requests may finish within this many milliseconds. */
  drain: [request: { readonly withinMs: number }, response: object]
  /** The thread ends by itself within this many milliseconds, or is ended. */
  close: [request: { readonly withinMs: number }, response: object]
  /** Reads the API keys again; undefined if their file has a problem. */
  reloadKeys: [request: object, response: { readonly count: number | undefined }]
  /** Metrics in the text format of Prometheus. */
  metrics: [request: object, response: { readonly text: string }]
  metric: [
    request: { readonly name: string },
    response: { readonly values: readonly MetricValue[] },
  ]
  stats: [request: object, response: Readonly<Record<string, unknown>>]
}
type Questions = FrontThreadQuestions & MainQuestions
export type Question<All extends keyof Questions = keyof Questions> = {
  readonly [K in All]: { readonly what: K } & Questions[K][0]
}[All]
export type ResponseTo<K extends keyof Questions> = Questions[K][1]

type RequestMessage<All extends keyof Questions> = {
  readonly type: 'ask'
  readonly request: number
  readonly question: Question<All>
}
type ResponseMessage = {
  readonly type: 'answer'
  readonly request: number
  readonly response: unknown
}

/** Messages of the writer that the status page displays. */
export type PageEvent = Extract<FromWriter, { readonly type: 'published' | 'sealed' | 'count' }>

export type ToFrontThread =
  | RequestMessage<keyof MainQuestions>
  | ResponseMessage
  /** A new snapshot can be read, or the status page has something to display. */
  | { readonly type: 'heard'; readonly message: PageEvent }
  /** A snapshot was published that becomes visible to clients later. */
  | { readonly type: 'arrived' }
  | {
      readonly type: 'packet'
      readonly packet: string | Bytes
      readonly messageId: FeedMessageId | undefined
    }
  | { readonly type: 'changes'; readonly changes: Changes }
  /** A transaction became executable; sent to threads that listen. */
  | { readonly type: 'pending'; readonly hash: Bytes; readonly transaction: SignedTransaction }
  /** Transactions left the txpool without a block. */
  | { readonly type: 'departed'; readonly hashes: readonly Bytes[] }
  /** Calls that may read this snapshot or an older one end. */
  | { readonly type: 'cancel'; readonly snapshot: number }
  | { readonly type: 'paused'; readonly reason: 'starting' | 'draining' | undefined }
  | { readonly type: 'syncing'; readonly syncing: Syncing }

export type FromFrontThread =
  | RequestMessage<keyof FrontThreadQuestions>
  | ResponseMessage
  /** The thread accepts requests. */
  | { readonly type: 'ready' }
  /** Sent once a second to prove that the event loop runs. */
  | { readonly type: 'alive' }
  /** The requester no longer waits for the response. */
  | { readonly type: 'gone'; readonly request: number }
  | { readonly type: 'listens'; readonly toPending: boolean }
  /**
   * Load for a balancer's agent: busy workers, all workers, and the time that calls have waited
   * since the last report.
   */
  | {
      readonly type: 'load'
      readonly busy: number
      readonly threads: number
      readonly waitMs: number
    }
  /** Result of a read through the pool, or its problem. */
  | { readonly type: 'probed'; readonly problem: string | undefined }
  /** The two engines disagree. */
  | { readonly type: 'distrust'; readonly reason: string }
  /** The process has to end, for this reason. */
  | { readonly type: 'failed'; readonly message: string }

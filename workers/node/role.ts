/**
 * The differences between nodes: a command passes a role, and the node never checks which command
 * it is.
 */
import type { MessagePort } from 'node:worker_threads'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Responder } from '../../rpc/core/exchange.ts'
import type { Forward, Impersonation, LazyState, StateMode, Syncing } from '../../rpc/core/ports.ts'
import type { FeedHub } from '../../rpc/feed-server/hub.ts'
import type { Method } from '../../rpc/method/method.ts'
import type { ChainChoice } from '../data/datadir.ts'
import type { OpenedData, Prepare } from '../data/open.ts'
import type { Transactions } from '../front/transactions.ts'
import type { Health, SourceState } from '../observe/health.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { NodeContext } from '../process/context.ts'
import type { Failing } from '../process/failing.ts'
import type { ReplayData, ReplayEnd, ReplayStatus } from '../record/lines.ts'
import type { ReplayLine } from '../record/lookahead.ts'
import type { RequestContexts } from '../record/request-context.ts'
import type { ReplayPosition } from '../record/request-replayer.ts'
import type { RequestTaking } from '../record/requests.ts'
import type { ToWriter } from '../thread/messages.ts'
import type { Thread } from '../thread/thread.ts'

export type Role = {
  readonly chain: ChainChoice
  /** Fills an empty directory; if omitted, it gets the genesis of its chain. */
  readonly prepare?: Prepare | undefined
  /**
   * Number of feeds, each with a thread and a port to the writer. Omitted if the source is a
   * sequencer, which is its own feed.
   */
  readonly feeds?: number
  /** Keys with which the node signs, beside the unlocked ones. */
  readonly keys: readonly Bytes[]
  readonly readiness: {
    /** Maximum time between two canonical heads; undefined if the head need not move. */
    readonly headMs: number | undefined
    /** Maximum silence of the feed; undefined if there is no feed. */
    readonly feedMs: number | undefined
  }
  /**
   * Lags of safe and finalized, and number of blocks that can be undone. If omitted, a source
   * reports them, or they equal the head.
   */
  readonly finality?: Finality | undefined
  /** Trust in the state; omitted if the node makes its blocks itself or reads them from a file. */
  readonly mode?: StateMode | undefined
  /** Maximum bytes of fetched state that no local block wrote; unbounded if omitted. */
  readonly lazyCacheBytes?: number
  /** URL of the node of the preceding chain. */
  readonly forwardingUrl: string | undefined
  /** Redis URL through which replicas share sent transactions; if omitted, none are shared. */
  readonly shareTransactions?: string | undefined
  /** Lag after which clients see flashblocks; none if omitted. */
  readonly flashblockLag?: { readonly flashblocks: number; readonly ms: number } | undefined
  readonly syncing: () => Syncing
  /**
   * Starts the source of blocks; undefined if the chain stands still, and then there is no /feed.
   */
  readonly startSource: StartSource | undefined
  /** Recording of the writer's input, or a replay of a recording. */
  readonly recording?: RoleRecording | undefined
  /** Only the command itself prints to standard output. */
  readonly isQuiet?: boolean
  /** Another part displays the progress, so a terminal gets no line for each block. */
  readonly hidesBlocks?: boolean
  /**
   * The node runs inside a foreign process: it neither measures that process nor handles its
   * signals.
   */
  readonly isGuest?: boolean
  /** The node is queried only through the function that `startNode` returns. */
  readonly hasNoPort?: boolean
}

export type RoleRecording =
  | {
      readonly type: 'record'
      /** Receives full lines in order. */
      readonly onLines: (lines: Uint8Array<ArrayBuffer>) => void
      /** Recording of client requests; undefined leaves them out. */
      readonly requestContexts?: RequestTaking | undefined
    }
  | {
      readonly type: 'replay'
      readonly data: ReplayData
      readonly onStatus: (status: ReplayStatus) => void
      readonly requestContexts: RequestContexts
      /** Resolves when the requests have been repeated. */
      readonly onRequest: (lines: readonly ReplayLine[], at: ReplayPosition) => Promise<void>
      readonly onEnd: (ended: ReplayEnd & { readonly isCut: boolean }) => void
    }

export type Finality = {
  readonly safeLag: number
  readonly finalizedLag: number
  /** At least `finalizedLag`. */
  readonly undoBlocks: number
}

/**
 * Starts a thread that gives the writer blocks; it loads now and starts work after a later message.
 */
export type StartSource = (link: SourceLink) => Source

/** Ports through which the source's thread reaches other threads without the main thread. */
export type SourceLink = {
  readonly context: NodeContext
  readonly data: OpenedData
  /** Row of the lease table for this thread. */
  readonly row: number
  /** Port for state roots: takes `PackedRequest`, gives `PersistenceAnswer`. */
  readonly persistence: MessagePort
  /**
   * Takes `SequencerToWriter` or `FollowerToWriter`, gives `WriterToSequencer` or
   * `WriterToFollower`.
   */
  readonly writer: MessagePort
  /** Ports for each feed of the role: they take `FeedToWriter` and give `WriterToFeed`. */
  readonly feeds: readonly MessagePort[]
  /** Opens another port for a feed whose thread has ended. */
  readonly newFeed: () => MessagePort
  readonly onLost: (reason: string) => void
  readonly onEnded: (thread: number) => void
}

export interface Source {
  /**
   * Receives messages of the source's thread from now on, and loads modules that the thread does
   * not need.
   */
  connect(parts: SourceParts): Promise<ConnectedSource>
}

/** Parts that a source feeds, beside the writer. */
export type SourceParts = {
  readonly reader: ChainReader
  readonly writer: Pick<Thread<ToWriter>, 'post'>
  readonly transactions: Transactions
  readonly feed: Pick<FeedHub, 'broadcast'>
  readonly metrics: Pick<Metrics, 'late' | 'count' | 'gauges' | 'feed'>
  readonly failing: Failing
  readonly health: Pick<Health, 'halted'>
}

export type ConnectedSource = {
  /** Methods that this source adds to those of every node. */
  readonly methods: readonly Method[]
  /** Fetches state; undefined if the node has all of it. */
  readonly lazy?: LazyState | undefined
  /** Sends transactions for accounts without their keys. */
  readonly impersonated?: Impersonation | undefined
  /** Forwards calls to the followed nodes; undefined if there are none. */
  readonly forward?: Forward | undefined
  /**
   * Starts the blocks, now that the first snapshot can be read. Resolves when clients can read
   * earlier flashblocks again.
   * @param respond answers as for a client
   */
  start(respond: Responder): Promise<void>
  /**
   * Resolves at the head of the chain, or if the head is unknown; requests are answered before.
   * Omitted if the node makes the chain.
   */
  readonly caughtUp?: Promise<void>
  /** Text for standard output, before the ready line. */
  banner(chain: ChainSpec): string
  /** If omitted, the role's function applies. */
  readonly syncing?: () => Syncing
  state?(): SourceState
  canonicalMoved?(): void
}

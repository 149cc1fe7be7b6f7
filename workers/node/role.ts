/** What makes one node differ from another: a command hands it in, and the node asks nobody what it is called. */
import type { MessagePort } from 'node:worker_threads'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { FeedHub } from '../../rpc/http/feed.ts'
import type { Method } from '../../rpc/method/method.ts'
import type { Syncing } from '../../rpc/seam/ports.ts'
import type { ChainChoice } from '../data/datadir.ts'
import type { OpenedData } from '../data/open.ts'
import type { Transactions } from '../front/transactions.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { NodeContext } from '../process/context.ts'
import type { Failing } from '../process/failing.ts'
import type { ToWriter } from '../thread/messages.ts'
import type { Thread } from '../thread/thread.ts'

export type Role = {
  readonly chain: ChainChoice
  /** It signs with these beside the unlocked ones. */
  readonly keys: readonly Bytes[]
  readonly readiness: {
    /** Longest time between two canonical heads; undefined: the head need not move. */
    readonly headMs: number | undefined
    /** Longest silence of the feed; undefined: there is no feed. */
    readonly feedMs: number | undefined
  }
  /** The node of the chain before this one. */
  readonly legacyUrl: string | undefined
  readonly syncing: () => Syncing
  /** Where blocks come from; undefined: none come, and there is no /feed. */
  readonly startSource: StartSource | undefined
}

/** Starts a thread that gives the writer blocks. It is told to begin later: it loads while the main thread loads the rest of itself. */
export type StartSource = (link: SourceLink) => Source

/** How the source's thread reaches the others, without the main thread between them. */
export type SourceLink = {
  readonly context: NodeContext
  readonly data: OpenedData
  /** Row of the lease table that is its own. */
  readonly row: number
  /** For roots: takes `PackedRequest`, gives `KeeperAnswer`. */
  readonly keeper: MessagePort
  /** Takes `SequencerToWriter`, gives `WriterToSequencer`. */
  readonly writer: MessagePort
  readonly onLost: (reason: string) => void
  readonly onEnded: (thread: number) => void
}

export interface Source {
  /** Hears its thread from now on. Whatever the thread does not need is loaded here. */
  connect(parts: SourceParts): Promise<ConnectedSource>
}

/** What a source feeds, beside the writer. */
export type SourceParts = {
  readonly reader: ChainReader
  readonly writer: Pick<Thread<ToWriter>, 'post'>
  readonly transactions: Transactions
  readonly feed: Pick<FeedHub, 'broadcast'>
  readonly metrics: Pick<Metrics, 'late' | 'count'>
  readonly failing: Failing
}

export type ConnectedSource = {
  /** Served beside those that every node has. */
  readonly methods: readonly Method[]
  /** The first record can be read: blocks come from now on. Resolves when what was shown before can be read again. */
  start(): Promise<void>
  /** For standard output, before the ready line. */
  banner(chain: ChainSpec): string
}

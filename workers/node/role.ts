/** What makes one node differ from another: a command hands it in, and the node asks nobody what it is called. */
import type { MessagePort } from 'node:worker_threads'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { FeedHub } from '../../rpc/feed/hub.ts'
import type { Method } from '../../rpc/method/method.ts'
import type { Answerer } from '../../rpc/seam/exchange.ts'
import type { Forward, Impersonation, LazyState, StateMode, Syncing } from '../../rpc/seam/ports.ts'
import type { ChainChoice } from '../data/datadir.ts'
import type { Begin, OpenedData } from '../data/open.ts'
import type { Transactions } from '../front/transactions.ts'
import type { Health, SourceState } from '../observe/health.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { NodeContext } from '../process/context.ts'
import type { Failing } from '../process/failing.ts'
import type { AskedLine } from '../record/ahead.ts'
import type { AskedAt } from '../record/asking.ts'
import type { Courses } from '../record/courses.ts'
import type { ReplayData, ReplayEnd, ReplayStatus } from '../record/lines.ts'
import type { RequestTaking } from '../record/requests.ts'
import type { ToWriter } from '../thread/messages.ts'
import type { Thread } from '../thread/thread.ts'

export type Role = {
  readonly chain: ChainChoice
  /** What an empty directory begins with; left out: the genesis of its chain. */
  readonly begin?: Begin | undefined
  /** Feeds that have a thread each, and a port to the writer; left out: the source is a sequencer, which is its own feed. */
  readonly feeds?: number
  /** It signs with these beside the unlocked ones. */
  readonly keys: readonly Bytes[]
  readonly readiness: {
    /** Longest time between two canonical heads; undefined: the head need not move. */
    readonly headMs: number | undefined
    /** Longest silence of the feed; undefined: there is no feed. */
    readonly feedMs: number | undefined
  }
  /** Blocks by which safe and finalized trail the head, and how many can be taken back; left out: a source says the former, or they are the head. */
  readonly finality?: Finality | undefined
  /** What its state is worth; left out: it makes its blocks itself, or has them from a file. */
  readonly mode?: StateMode | undefined
  /** Bytes of fetched state that no block here wrote; left out: no bound. */
  readonly lazyCacheBytes?: number
  /** The node of the chain before this one. */
  readonly legacyUrl: string | undefined
  /** Redis, by which replicas tell each other what was sent to them; left out: nobody is told. */
  readonly shareTransactions?: string | undefined
  /** Clients are shown flashblocks so much later; left out: at once. */
  readonly behind?: { readonly flashblocks: number; readonly ms: number } | undefined
  readonly syncing: () => Syncing
  /** Where blocks come from; undefined: none come, and there is no /feed. */
  readonly startSource: StartSource | undefined
  /** Its writer tells what it takes, or takes what a record has. */
  readonly tape?: RoleTape | undefined
  /** Nothing but what its command says is on standard output. */
  readonly isQuiet?: boolean
  /** Something else says how far it is: a terminal has no line for each block. */
  readonly hidesBlocks?: boolean
  /** Its process is somebody else's: it does not measure it, nor hear its signals. */
  readonly isGuest?: boolean
  /** It is asked in its process alone, by what `startNode` gives. */
  readonly hasNoPort?: boolean
}

export type RoleTape =
  | {
      readonly type: 'record'
      /** Whole lines, in their order. */
      readonly onLines: (lines: Uint8Array<ArrayBuffer>) => void
      /** Of its clients; undefined: theirs are not in the record. */
      readonly courses?: RequestTaking | undefined
    }
  | {
      readonly type: 'replay'
      readonly data: ReplayData
      readonly onStatus: (status: ReplayStatus) => void
      readonly courses: Courses
      /** Resolves when they have been asked again. */
      readonly onAsk: (lines: readonly AskedLine[], at: AskedAt) => Promise<void>
      readonly onEnd: (ended: ReplayEnd & { readonly isCut: boolean }) => void
    }

export type Finality = {
  readonly safeLag: number
  readonly finalizedLag: number
  /** At least `finalizedLag`. */
  readonly undoBlocks: number
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
  /** Takes `SequencerToWriter` or `FollowerToWriter`, gives `WriterToSequencer` or `WriterToFollower`. */
  readonly writer: MessagePort
  /** One for each feed of the role: takes `FeedToWriter`, gives `WriterToFeed`. */
  readonly feeds: readonly MessagePort[]
  /** Another one, of a feed whose thread has ended. */
  readonly newFeed: () => MessagePort
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
  readonly metrics: Pick<Metrics, 'late' | 'count' | 'gauges' | 'feed'>
  readonly failing: Failing
  readonly health: Pick<Health, 'halted'>
}

export type ConnectedSource = {
  /** Served beside those that every node has. */
  readonly methods: readonly Method[]
  /** Fetches state; undefined: all of it is here. */
  readonly lazy?: LazyState | undefined
  /** Sends for accounts without their keys. */
  readonly impersonated?: Impersonation | undefined
  /** Asks the nodes that this one follows; undefined: it follows none. */
  readonly forward?: Forward | undefined
  /** The first record can be read: blocks come from now on. Resolves when what was shown before can be read again. @param answer as for a client */
  start(answer: Answerer): Promise<void>
  /** Resolves when it is where the chain is, or nobody says where that is; requests are answered before. Left out: it makes the chain. */
  readonly caughtUp?: Promise<void>
  /** For standard output, before the ready line. */
  banner(chain: ChainSpec): string
  /** Left out: as the role says. */
  readonly syncing?: () => Syncing
  /** For /readyz. */
  state?(): SourceState
  /** There is another canonical head. */
  canonicalMoved?(): void
}

/** Events, effects and limits of the writer. */
import type { ChainReader, UpstreamBlock } from '../../chain/types.ts'
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import type { FeedMessage, FeedMessageId } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { MissingKey } from '../../state/reader.ts'
import type {
  PersistenceRequest,
  PersistenceResponse,
  ResyncStart,
  StoredHead,
  StoreReader,
} from '../../storage/types.ts'
import { RETAINED_BLOCKS } from '../../views/memory.ts'
import type { Publisher } from '../../views/types.ts'
import type { NewChanges } from './changes.ts'

/** Feed number of packets that an earlier run of the process executed. */
export const JOURNAL_FEED = -1

export type FeedPacket = {
  /** Number of the feed that sent the packet; 0 with a single feed. */
  readonly feed: number
  readonly message: FeedMessage
  /** xxh3 of the packet. */
  readonly digest: bigint
  readonly receivedAtMs: number
  /** The frame as received; undefined: the packet is not relayed. */
  readonly raw?: Bytes | undefined
}

export type WriterEvent =
  | { readonly type: 'packet'; readonly packet: FeedPacket }
  | { readonly type: 'sealed'; readonly block: UpstreamBlock }
  | { readonly type: 'answer'; readonly response: PersistenceResponse }
  /** The node's own sequencer moves canonical back to one of its blocks, not below finalized. */
  | { readonly type: 'rewind'; readonly to: StoredHead }
  /**
   * The sequencer keeps blocks above `number` from becoming final until more than `pinBlocks` stand
   * on it. undefined ends the pin.
   */
  | { readonly type: 'pin'; readonly number: number | undefined }
  /**
   * A feed's connection opened or closed. Packets may have been lost between the two. An open
   * connection is reported again after packets of it were lost.
   */
  | {
      readonly type: 'feed'
      readonly feed: number
      readonly isConnected: boolean
      /** The feed sends all packets since the connection was lost. */
      readonly isResumed?: boolean
    }
  /** Labelled heads from the source. Before the first report they trail canonical by fixed lags. */
  | { readonly type: 'marks'; readonly safe: number; readonly finalized: number }
  /** The keys of a `need` can be read now; `failed` gives the reason if they cannot. */
  | { readonly type: 'fetched'; readonly request: number; readonly failed?: string | undefined }
  /**
   * Another engine, or the upstream's state, contradicts the newest blocks. The writer drops
   * pending and halts with this reason.
   */
  | { readonly type: 'distrust'; readonly reason: string }
  /**
   * A lazy state is dropped and restarts at another block, because the chain cannot continue from
   * its head. An effect `begun` or `notBegun` follows.
   */
  | ({ readonly type: 'begin' } & LazyResync)
  /** The thread is idle, so the writer may execute speculatively. */
  | { readonly type: 'ahead' }
  /** The time that `wakeAtMs` requested has come. */
  | { readonly type: 'tick' }

export type LazyResync = {
  /** The newest block of `start`. */
  readonly head: StoredHead
  readonly start: ResyncStart
  /** Reason for the log. */
  readonly why: string
}

/** Work for the thread around the writer, in order. */
export type WriterEffect =
  | { readonly type: 'persistence'; readonly request: PersistenceRequest }
  | {
      readonly type: 'published'
      readonly snapshot: number
      readonly canonical: number
      readonly complete: number
      readonly pending: number
      readonly index: number
      /** Hashes of the transactions that became visible with this snapshot. */
      readonly transactions: readonly Bytes[]
      /**
       * Milliseconds from the packet's arrival to the publish, and of execution alone; 0 without an
       * executed packet.
       */
      readonly publishMs: number
      readonly executeMs: number
    }
  | {
      readonly type: 'sealed'
      readonly number: number
      readonly hash: Bytes
      readonly flashblocks: number
      readonly transactions: number
      readonly gasUsed: bigint
      readonly ms: number
    }
  | { readonly type: 'executed'; readonly packet: FeedPacket }
  /**
   * A feed's frame as received. Its flashblock is visible; an End means that the block has exactly
   * the relayed flashblocks.
   */
  | { readonly type: 'relay'; readonly messageId: FeedMessageId; readonly raw: Bytes }
  /** Changes in the newest snapshot, for readers of the enriched feed. */
  | { readonly type: 'changes'; readonly changes: NewChanges }
  | NeedEffect
  /**
   * A canonical block differs from our execution, so its source asks another upstream. When the
   * same block comes again, the writer halts. `field` is `state` when the state cannot be fetched:
   * the writer drops all waiting canonical blocks. `field` is `queue` when too many blocks wait:
   * the writer drops this block.
   */
  | {
      readonly type: 'refused'
      readonly number: number
      readonly hash: Bytes
      readonly field: string
      /** Reason why a transaction is invalid; undefined: `field` is the whole reason. */
      readonly reason?: string
    }
  /**
   * A canonical block replaces a block that flashblocks had made visible. `lost`: visible
   * transactions from this height on that the canonical block lacks.
   */
  | {
      readonly type: 'replaced'
      readonly number: number
      readonly promised: Bytes
      readonly canonical: Bytes
      readonly lost: readonly Bytes[]
    }
  | CheckEffect
  | ResyncedEffect
  /** The resync was refused and the chain continues at its head. */
  | { readonly type: 'notBegun'; readonly reason: string }
  | { readonly type: 'count'; readonly what: string; readonly by: number }
  /** Log line; sampled. */
  | { readonly type: 'warning'; readonly message: string }
  | { readonly type: 'halted'; readonly message: string; readonly isFatal: boolean }
  /** The arena is full. Readers of this snapshot and of older ones must be stopped. */
  | { readonly type: 'cancel'; readonly snapshot: number }

/**
 * State that execution needs and the node lacks. An event `fetched` with the same request number
 * follows.
 */
export type NeedEffect = {
  readonly type: 'need'
  readonly request: number
  readonly keys: readonly MissingKey[]
  readonly for: 'canonical' | 'flashblock'
}

/** A lazy state has restarted at a block. Blocks up to `keptUpTo` remain readable. */
export type ResyncedEffect = {
  readonly type: 'begun'
  readonly number: number
  readonly hash: Bytes
  readonly safe: number
  readonly finalized: number
  /** Number of the canonical head before the resync. */
  readonly before: number
  /** undefined: no block from before the resync is retained. */
  readonly keptUpTo: number | undefined
  readonly why: string
}

/**
 * Some keys that a block wrote, for the source to look up at its hash. Without a trie no root
 * reveals a mistake.
 */
export type CheckEffect = {
  readonly type: 'check'
  readonly number: number
  readonly hash: Bytes
  readonly keys: readonly CheckedKey[]
}
/** `value`: 72 bytes of an account or 32 bytes of a slot; undefined: absent or zero. */
export type CheckedKey = {
  readonly key: Extract<MissingKey, { readonly kind: 'account' | 'slot' }>
  readonly value: Bytes | undefined
}

export type WriterLimits = {
  /**
   * Canonical waits for the persistence thread at `foldDepth + backlog` appended blocks that are
   * not persisted.
   */
  readonly foldDepth: number
  readonly backlog: number
  /** Complete blocks above canonical at which flashblocks are ignored. */
  readonly ahead: number
  /**
   * Limits for each feed: packets that wait for a parent hash, earlier packets or the feed's turn,
   * and their bytes.
   */
  readonly bufferedPackets: number
  readonly bufferedBytes: number
  /**
   * Milliseconds after which a missing flashblock is reported and a feed without news is silent.
   * The value must exceed the interval of flashblocks.
   */
  readonly cadenceMs: number
  /** Canonical blocks in a row without flashblocks after which all feeds count as silent. */
  readonly silentBlocks: number
  /** Length limit of the queue of canonical blocks. */
  readonly sealedBlocks: number
  /** Milliseconds that a canonical block waits for its own flashblocks. */
  readonly sealedGraceMs: number
  /**
   * Milliseconds between retries of a canonical block without memory, and milliseconds until the
   * lack is fatal.
   */
  readonly retryMs: number
  readonly memoryGraceMs: number
  /**
   * Limits for one event: requests for missing state, keys, and milliseconds between retries of a
   * canonical block.
   */
  readonly fetchRounds: number
  readonly fetchKeys: number
  readonly fetchBackoffMs: number
  /** Retries before a canonical block goes back to its source. */
  readonly fetchRetries: number
  /** Milliseconds after which a request for state counts as failed. */
  readonly fetchMs: number
  /** Milliseconds that a prefetch run may take. */
  readonly scoutMs: number
  /** Keys of each canonical block that are checked where there is no trie. */
  readonly checkedKeys: number
  /** Persisted blocks that a reorg can unwind. */
  readonly undoBlocks: number
  /**
   * Blocks by which safe and finalized trail canonical without labels from a source. A development
   * chain sets its own.
   */
  readonly safeLag: number
  readonly finalizedLag: number
  /** Blocks for which a pin keeps later blocks from becoming final. */
  readonly pinBlocks: number
  /** Milliseconds between two warnings of one kind. */
  readonly sampleMs: number
}
export const WRITER_LIMITS: WriterLimits = {
  foldDepth: RETAINED_BLOCKS,
  backlog: 4,
  ahead: 8,
  bufferedPackets: 256,
  bufferedBytes: 32 * 1024 * 1024,
  cadenceMs: 250,
  silentBlocks: 3,
  sealedBlocks: 256,
  sealedGraceMs: 150,
  retryMs: 20,
  memoryGraceMs: 5_000,
  fetchRounds: 16,
  fetchKeys: 1_000,
  fetchBackoffMs: 1_000,
  fetchRetries: 5,
  fetchMs: 30_000,
  scoutMs: 50,
  checkedKeys: 3,
  undoBlocks: 64,
  safeLag: 0,
  finalizedLag: 0,
  pinBlocks: 1_000,
  sampleMs: 10_000,
}

export type WriterOptions = {
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly store: StoreReader
  readonly reader: ChainReader
  readonly publisher: Publisher
  /** Returns monotonic milliseconds. */
  readonly now: () => number
  /** Returns milliseconds since 1970 for the promise ledger; undefined: `now` is used. */
  readonly wallMs?: () => number
  /** There is no trie: roots come from the source, and block hashes from the next block's base. */
  readonly isLazy?: boolean
  /** The enriched feed has readers. */
  readonly emitsChanges?: boolean
  /** Effects `executed` are wanted. */
  readonly emitsExecuted?: boolean
  /** Seed for the choice of checked keys where there is no trie. */
  readonly seed?: number
  /**
   * The source reports labelled heads. Until its first report the stored labels apply, so that no
   * start makes blocks final.
   */
  readonly hasLabelledHeads?: boolean
  readonly limits?: Partial<WriterLimits>
}

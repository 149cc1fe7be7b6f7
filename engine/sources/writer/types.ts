/** The writer's events, effects and limits. */
import type { ChainReader, SealedBlock } from '../../chain/types.ts'
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import type { FeedMessage, FeedPlace } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { MissingKey } from '../../state/reader.ts'
import type {
  Beginning,
  KeeperAnswer,
  KeeperRequest,
  StoredHead,
  StoreReader,
} from '../../storage/types.ts'
import { HELD_BLOCKS } from '../../views/memory.ts'
import type { Publisher } from '../../views/types.ts'
import type { NewChanges } from './changes.ts'

/** Of packets that an earlier run of the process has executed: nobody stands for them any more. */
export const JOURNAL_FEED = -1

export type FeedPacket = {
  /** Which feed has sent it: 0 where there is only one. */
  readonly feed: number
  readonly message: FeedMessage
  /** xxh3 of the packet. */
  readonly digest: bigint
  /** Monotonic milliseconds. */
  readonly receivedAtMs: number
  /** As it came; undefined: nobody relays it. */
  readonly raw?: Bytes | undefined
}

export type WriterEvent =
  | { readonly type: 'packet'; readonly packet: FeedPacket }
  | { readonly type: 'sealed'; readonly block: SealedBlock }
  | { readonly type: 'answer'; readonly answer: KeeperAnswer }
  /** Of our own sequencer: canonical goes back to this block of its own, which is not below finalized. */
  | { readonly type: 'rewind'; readonly to: StoredHead }
  /** Of the same: blocks above this one do not become final, until more than `pinBlocks` stand on it; undefined: as they do. */
  | { readonly type: 'pin'; readonly number: number | undefined }
  /** A feed's connection opened or ended: packets of it may have been lost between. */
  | {
      readonly type: 'feed'
      readonly feed: number
      readonly isConnected: boolean
      /** It has sent, or sends now, what came between. */
      readonly isResumed?: boolean
    }
  /** Safe and finalized as the source says; until the first of these they trail canonical by fixed lags. */
  | { readonly type: 'marks'; readonly safe: number; readonly finalized: number }
  /** The keys of a `need` can be read now, or why not. */
  | { readonly type: 'fetched'; readonly request: number; readonly failed?: string | undefined }
  /** The newest blocks are not what another engine makes of them: what is pending goes, and nothing more comes. */
  | { readonly type: 'distrust'; readonly reason: string }
  /** Our head cannot be gone on from: all state goes, and a lazy one begins at another block. Answered with an effect 'begun' or 'notBegun'. */
  | ({ readonly type: 'begin' } & LazyBeginning)
  /** There is nothing else to do. */
  | { readonly type: 'ahead' }
  /** The time asked for by `wakeAtMs` has come. */
  | { readonly type: 'tick' }

/** What a lazy state begins anew with. */
export type LazyBeginning = {
  /** The newest block of `start`. */
  readonly head: StoredHead
  readonly start: Beginning
  /** For the log. */
  readonly why: string
}

/** What the thread around the writer has to do, in order. */
export type WriterEffect =
  | { readonly type: 'keeper'; readonly request: KeeperRequest }
  | {
      readonly type: 'published'
      readonly record: number
      readonly canonical: number
      readonly complete: number
      readonly pending: number
      readonly index: number
      /** Hashes of the transactions that became visible with this record. */
      readonly transactions: readonly Bytes[]
      /** Milliseconds from the packet's arrival to the publish, and of the execution alone; 0 where no packet was executed. */
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
  /** A flashblock was executed and published. */
  | { readonly type: 'executed'; readonly packet: FeedPacket }
  /** A frame of a feed as it came: its flashblock is shown, or with an End, its block has all that was relayed of it and nothing else. */
  | { readonly type: 'relay'; readonly place: FeedPlace; readonly raw: Bytes }
  /** The newest snapshot has these changes, for readers of the enriched feed. */
  | { readonly type: 'changes'; readonly changes: NewChanges }
  | NeedEffect
  /**
   * A canonical block is not what we make of it: its source asks somebody else. The same block again is taken at its word, and halts.
   * `field` is `state` where its state cannot be had: the writer drops it and the blocks after it.
   * `field` is `queue` where too many blocks wait: the writer drops this one.
   */
  | {
      readonly type: 'refused'
      readonly number: number
      readonly hash: Bytes
      readonly field: string
      /** Why a transaction cannot be in it; undefined: the field says all. */
      readonly reason?: string
    }
  /** A canonical block takes the place of one that flashblocks had shown; `lost` of the latter's transactions, and of those above it, are not in it. */
  | {
      readonly type: 'replaced'
      readonly number: number
      readonly promised: Bytes
      readonly canonical: Bytes
      readonly lost: readonly Bytes[]
    }
  | CheckEffect
  | BegunEffect
  /** What was to begin anew goes on from where it was. */
  | { readonly type: 'notBegun'; readonly reason: string }
  | { readonly type: 'count'; readonly what: string; readonly by: number }
  /** For the log, sampled. */
  | { readonly type: 'warning'; readonly message: string }
  | { readonly type: 'halted'; readonly message: string; readonly isFatal: boolean }
  /** The arena is full: whoever reads this record or an older one is to be stopped. */
  | { readonly type: 'cancel'; readonly record: number }

/** State that execution asked for and nobody has: an event `fetched` with the same request follows. */
export type NeedEffect = {
  readonly type: 'need'
  readonly request: number
  readonly keys: readonly MissingKey[]
  readonly for: 'canonical' | 'flashblock'
}

/** A lazy state has begun anew at a block; blocks up to `keptUpTo` are readable as before. */
export type BegunEffect = {
  readonly type: 'begun'
  readonly number: number
  readonly hash: Bytes
  readonly safe: number
  readonly finalized: number
  /** What was canonical before. */
  readonly before: number
  /** undefined: nothing of before is kept. */
  readonly keptUpTo: number | undefined
  readonly why: string
}

/** Without a trie no root tells of a mistake: some keys that a block wrote, for the source to look up at that block's hash. */
export type CheckEffect = {
  readonly type: 'check'
  readonly number: number
  readonly hash: Bytes
  readonly keys: readonly CheckedKey[]
}
/** `value`: 72 bytes of an account, 32 of a slot; undefined: absent, or zero. */
export type CheckedKey = {
  readonly key: Extract<MissingKey, { readonly kind: 'account' | 'slot' }>
  readonly value: Bytes | undefined
}

export type WriterLimits = {
  /** Appended blocks that are not folded, at most `foldDepth + backlog`: then canonical waits for the keeper. */
  readonly foldDepth: number
  readonly backlog: number
  /** Complete blocks above canonical at which flashblocks are ignored. */
  readonly ahead: number
  /** Of each feed, packets that wait for the hash of their block's parent, for those before them, or for their feed's turn; and their bytes. */
  readonly heldPackets: number
  readonly heldBytes: number
  /** Milliseconds in which a flashblock that was overtaken still comes, and after which a feed that sends nothing is silent: longer than from one flashblock to the next. */
  readonly cadenceMs: number
  /** Canonical blocks in a row without a flashblock after which the feeds count as away. */
  readonly silentBlocks: number
  /** Canonical blocks that wait. */
  readonly sealedBlocks: number
  /** Milliseconds that a canonical block waits for flashblocks of its own that may still be under way. */
  readonly sealedGraceMs: number
  /** Milliseconds after which a canonical block that found no memory is tried again, and after which that is fatal. */
  readonly retryMs: number
  readonly memoryGraceMs: number
  /** For one event: how often missing state is asked for, and how many keys; then how long a canonical block rests. */
  readonly fetchRounds: number
  readonly fetchKeys: number
  readonly fetchRestMs: number
  /** How often it rests before it goes back to its source. */
  readonly fetchRests: number
  /** Milliseconds after which an answer to `need` does not come any more. */
  readonly fetchMs: number
  /** Milliseconds of a run that only looks for more that is missing. */
  readonly scoutMs: number
  /** Keys of a canonical block that are named for a check, where no trie is kept. */
  readonly checkedKeys: number
  /** Folded blocks that a reorg may still go back to. */
  readonly undoBlocks: number
  /** Blocks that safe and finalized stay behind canonical where no source says where they are. A development chain gives its own. */
  readonly safeLag: number
  readonly finalizedLag: number
  /** Blocks for which a pin keeps others from becoming final. */
  readonly pinBlocks: number
  /** Milliseconds between two warnings of one kind. */
  readonly sampleMs: number
}
export const WRITER_LIMITS: WriterLimits = {
  foldDepth: HELD_BLOCKS,
  backlog: 4,
  ahead: 8,
  heldPackets: 256,
  heldBytes: 32 * 1024 * 1024,
  cadenceMs: 250,
  silentBlocks: 3,
  sealedBlocks: 256,
  sealedGraceMs: 150,
  retryMs: 20,
  memoryGraceMs: 5_000,
  fetchRounds: 16,
  fetchKeys: 1_000,
  fetchRestMs: 1_000,
  fetchRests: 5,
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
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Milliseconds since 1970: when promises are made; undefined: `now` does for them too. */
  readonly wallMs?: () => number
  /** No trie is kept: roots are the source's, and a block's hash is what the next one's base says. */
  readonly isLazy?: boolean
  /** Somebody reads the enriched feed. */
  readonly tellsChanges?: boolean
  /** Somebody wants to know which flashblocks were executed. */
  readonly tellsExecuted?: boolean
  /** Which keys are checked, where no trie is kept. */
  readonly seed?: number
  /** The source says what is safe and final. Until it does, that is what was stored: nothing becomes final by a start. */
  readonly hasMarks?: boolean
  readonly limits?: Partial<WriterLimits>
}

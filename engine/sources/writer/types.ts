/** The writer's events, effects and limits. */
import type { ChainReader, SealedBlock } from '../../chain/types.ts'
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import type { FeedMessage } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { KeeperAnswer, KeeperRequest, StoreReader } from '../../storage/types.ts'
import type { Publisher } from '../../views/types.ts'

export type FeedPacket = {
  readonly message: FeedMessage
  /** xxh3 of the packet. */
  readonly digest: bigint
  /** Monotonic milliseconds. */
  readonly receivedAtMs: number
}

export type WriterEvent =
  | { readonly type: 'packet'; readonly packet: FeedPacket }
  | { readonly type: 'sealed'; readonly block: SealedBlock }
  | { readonly type: 'answer'; readonly answer: KeeperAnswer }
  /** The feed's connection opened or ended: packets may have been lost between. */
  | { readonly type: 'feed'; readonly isConnected: boolean }
  /** The newest blocks are not what another engine makes of them: what is pending goes, and nothing more comes. */
  | { readonly type: 'distrust'; readonly reason: string }
  /** There is nothing else to do. */
  | { readonly type: 'ahead' }
  /** The time asked for by `wakeAtMs` has come. */
  | { readonly type: 'tick' }

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
  | { readonly type: 'count'; readonly what: string; readonly by: number }
  /** For the log, sampled. */
  | { readonly type: 'warning'; readonly message: string }
  | { readonly type: 'halted'; readonly message: string; readonly isFatal: boolean }
  /** The arena is full: whoever reads this record or an older one is to be stopped. */
  | { readonly type: 'cancel'; readonly record: number }

export type WriterLimits = {
  /** Appended blocks that are not folded, at most `foldDepth + backlog`: then canonical waits for the keeper. */
  readonly foldDepth: number
  readonly backlog: number
  /** Complete blocks above canonical at which flashblocks are ignored. */
  readonly ahead: number
  /** Packets that wait for the hash of their block's parent. */
  readonly heldPackets: number
  /** Canonical blocks that wait. */
  readonly sealedBlocks: number
  /** Milliseconds that a canonical block waits for flashblocks of its own that may still be under way. */
  readonly sealedGraceMs: number
  /** Milliseconds after which a canonical block that found no memory is tried again, and after which that is fatal. */
  readonly retryMs: number
  readonly memoryGraceMs: number
  /** Folded blocks that a reorg may still go back to. */
  readonly undoBlocks: number
  /** Blocks that safe and finalized stay behind canonical: 0 where the only source is our own sequencer. */
  readonly safeLag: number
  readonly finalizedLag: number
  /** Milliseconds between two warnings of one kind. */
  readonly sampleMs: number
}
export const WRITER_LIMITS: WriterLimits = {
  foldDepth: 4,
  backlog: 4,
  ahead: 8,
  heldPackets: 256,
  sealedBlocks: 256,
  sealedGraceMs: 150,
  retryMs: 20,
  memoryGraceMs: 5_000,
  undoBlocks: 64,
  safeLag: 0,
  finalizedLag: 0,
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
  readonly limits?: Partial<WriterLimits>
}

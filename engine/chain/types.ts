/**
 * The chain as one request sees it: blocks, transactions, receipts, logs and state of one snapshot
 * through one endpoint.
 */
import type { BlockEnv } from '../evm/engine.ts'
import type { BlockTail } from '../primitives/block-codec.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import type { Log, LogSummary, Receipt } from '../primitives/receipt.ts'
import type { Transaction } from '../primitives/transaction.ts'
import type { StateReader } from '../state/reader.ts'
import type { ReadSet } from '../state/reads.ts'
import type { LogValues, ProofLimits, TrieAt } from '../storage/types.ts'

/**
 * `standard`: latest is the canonical head, and so is pending. `flashblocks`: latest is as in
 * LatestHead, pending is the newest prefix.
 */
export type Endpoint = 'standard' | 'flashblocks'
/**
 * Head that `latest` means on the flashblocks endpoint: 'complete' as at X Layer, 'canonical' as in
 * a plain OP node.
 */
export type LatestHead = 'complete' | 'canonical'

/**
 * Part of a view that a response depends on: the chain up to the latest or the pending block, or
 * all heads.
 */
export type Basis = 'latest' | 'pending' | 'heads'

export type HeadBasis = Exclude<Basis, 'heads'>
/**
 * A head of one view, as the start of `changesSince` in a later view. Plain data, opaque outside of
 * chain/.
 */
export type HeadMark = {
  readonly id: number
  readonly height: number
  readonly diffLayer: number
  readonly tag: number
  readonly unwinds: number
}

export type BlockTag = 'latest' | 'pending' | 'safe' | 'finalized' | 'earliest'
/** Names a block as of one of its flashblocks. */
export type FlashblockId = {
  readonly number: bigint
  readonly index: number
  /** Payload of the flashblock, 0x and 16 hex digits; undefined: the payload that the chain has. */
  readonly payloadId?: string | undefined
}
export type BlockSelector =
  | { readonly tag: BlockTag }
  | { readonly number: bigint }
  | { readonly flashblock: FlashblockId }
  | { readonly hash: Bytes; readonly requireCanonical: boolean }

/** A block, or a prefix of one, found in a view. It is valid as long as the view's lease. */
export interface Block {
  readonly number: bigint
  /** A partial hash while the block is pending. */
  readonly hash: Bytes
  /** Flashblock index of the prefix; undefined: a full block. */
  readonly flashblockIndex: number | undefined
  /** Whether the block is complete and persisted. Everything in it is then final under its hash. */
  readonly isPersisted: boolean
  readonly header: Header
  /** Bloom of the header, 256 bytes, read without decoding the rest. */
  readonly logsBloom: Bytes
  readonly transactionCount: number
  transaction(index: number): Transaction | undefined
  receipt(index: number): Receipt | undefined
  /**
   * Returns bloom and count of the logs of every transaction, in order. The work is a tenth of
   * `receipts`.
   */
  logSummaries(): readonly LogSummary[]
  transactionHash(index: number): Bytes | undefined
  transactions(): readonly Transaction[]
  transactionHashes(): readonly Bytes[]
  receipts(): readonly Receipt[]
  /** Returns the parts of an Ethereum block after its transactions. */
  tail(): BlockTail
  /** Returns the index in the block of the first log of transaction `index`. */
  firstLogIndex(index: number): number
}

/** A block as of each of its flashblocks. */
export type Growth = {
  /**
   * An equal id in two views means the same block, which has only grown. undefined: the view has no
   * diff layer of the block any more.
   */
  readonly id: number | undefined
  /**
   * 0x and 16 hex digits; undefined: the flashblocks are not known, or not part of this endpoint.
   */
  readonly payloadId: string | undefined
  /**
   * Prefixes of the block, oldest first; only the block itself when its flashblocks are not known.
   */
  readonly flashblocks: readonly Block[]
}

/**
 * One snapshot seen through one endpoint; all responses are consistent with each other.
 * @throws {ViewError} from any read. 'void' or 'gone': the caller starts again on a newer snapshot.
 * 'pruned': the history does not go back so far.
 */
export interface ChainView {
  readonly snapshot: number
  readonly endpoint: Endpoint
  readonly canonical: { readonly number: bigint; readonly hash: Bytes }
  readonly latest: { readonly number: bigint; readonly hash: Bytes }
  readonly pending: {
    readonly number: bigint
    readonly hash: Bytes
    readonly index: number
    /** 0x and 16 hex digits; undefined when the pending block came without a feed. */
    readonly payloadId?: string | undefined
  }
  readonly earliest: bigint
  readonly oldestState: bigint
  /**
   * Returns a key for result caches. Equal keys mean equal results for everything that depends only
   * on `basis`.
   */
  cacheKey(basis: Basis): string
  markOf(basis: HeadBasis): HeadMark
  /**
   * Reports the key hashes of accounts and slots whose values differ between an older head and this
   * one. Some reported values are equal.
   * @returns false for another chain or too many entries; the report is then incomplete
   */
  changesSince(mark: HeadMark, basis: HeadBasis, onChange: (hash: number) => void): boolean
  /** Wraps a state so that its reads are recorded, by the hashes that `changesSince` reports. */
  recordingReads(state: StateReader, reads: ReadSet): StateReader
  /**
   * Finds a block; undefined: no such block on this chain.
   * @throws {FlashblockUnavailableError} for a flashblock that is not retained any more, or belongs
   * to another payload
   */
  block(selector: BlockSelector): Block | undefined
  /** Returns the prefixes of a block of this view from flashblock index `from` on. */
  growth(block: Block, from: number): Growth
  /**
   * Yields spans of blocks from `first` to `last`, as far as the view goes. Each names the blocks
   * that may have a log with the values (storage/blocks/log-index.ts).
   */
  logSpans(
    values: LogValues,
    range: { readonly first: bigint; readonly last: bigint },
  ): Iterable<BlockSpan>
  /**
   * Returns the log rows of a block named by `logSpans`. undefined: the block is not persisted or
   * incomplete, and has to be read as a block.
   */
  logRows(number: bigint): LogRows | undefined
  findTransaction(hash: Bytes): { readonly block: Block; readonly index: number } | undefined
  /** Returns the block numbers of persisted transactions. `findTransaction` finds the others. */
  persistedNumbers(hashes: readonly Bytes[]): readonly (number | undefined)[]
  state(block: Block): StateReader
  /**
   * Opens the trie of a full block at or below `canonical`.
   * @throws {ProofError} when there is no proof; {ProofRaceError} when the chain moved meanwhile;
   * the caller starts again
   */
  trieAt(block: Block, limits: ProofLimits): TrieAt
  env(block: Block): BlockEnv
}

/** The reading side of one thread. */
export interface ChainReader {
  /** Returns the newest visible snapshot number; it changes with each publish. */
  newestSnapshot(): number
  /**
   * Returns the newest snapshot number of all. With a flashblock lag it is above `newestSnapshot`.
   */
  newestOfAll(): number
  lease(endpoint: Endpoint): LeasedView
  /**
   * Leases a snapshot that the front leases for this thread; undefined: the snapshot is gone and
   * the caller starts again.
   */
  adopt(snapshot: number, endpoint: Endpoint): LeasedView | undefined
}
export interface LeasedView {
  readonly view: ChainView
  /** Both endpoints' views of a snapshot can share the lease. */
  readonly snapshot: number
  release(): void
}

/**
 * An upstream block as its source passes it to the writer (in `dev`, the sequencer uses a
 * MessagePort). Optional fields are compared only when the source knows them.
 */
export type UpstreamBlock = {
  /**
   * Hash of the header. With a hash, the source can be asked for another block of the height before
   * anything halts.
   */
  readonly hash?: Bytes | undefined
  readonly payloadId: string
  readonly parentHash: Bytes
  readonly parentBeaconBlockRoot: Bytes
  readonly coinbase: Bytes
  readonly prevRandao: Bytes
  readonly number: number
  readonly gasLimit: bigint
  readonly timestamp: bigint
  readonly extraData: Bytes
  readonly baseFee: bigint
  readonly transactions: readonly Bytes[]
  readonly gasUsed: bigint
  readonly receiptsRoot: Bytes
  readonly logsBloom: Bytes
  /** Without it, the persistence thread's root is used. */
  readonly stateRoot: Bytes | undefined
  /**
   * Known together with the state root. Both are needed for a reorg below the persisted head, and
   * for a node without a trie.
   */
  readonly withdrawalsRoot?: Bytes | undefined
  readonly blobGasUsed?: bigint | undefined
  readonly excessBlobGas?: bigint
  readonly requestsHash?: Bytes | undefined
}

/** Consecutive blocks, and those of them that have to be read, in order. */
export type BlockSpan = { readonly first: bigint; readonly numbers: readonly bigint[] }

export type LogPattern = {
  /** Possible emitters; empty: anybody. */
  readonly addresses: readonly Bytes[]
  /**
   * Alternatives for each topic position; empty: anything. A log with fewer topics than positions
   * does not match.
   */
  readonly topics: readonly (readonly Bytes[])[]
}
/** Conditions on logs from complete blocks of a view. */
export type LogFilter = LogPattern & {
  readonly fromBlock: bigint
  readonly toBlock: bigint
  /** Transactions of the first block before this index are left out. */
  readonly firstTransaction?: number | undefined
  /**
   * The last block counts only up to this flashblock; undefined: as far as the view has the block.
   */
  readonly toFlashblock?: FlashblockId | undefined
}
export type FoundLog = {
  readonly log: Log
  readonly block: Block
  readonly transactionHash: Bytes
  readonly transactionIndex: number
  /** Index of the log in the block. */
  readonly logIndex: number
}
export type LogLimits = {
  readonly maxLogs: number
  /** Approximate size of the logs' JSON text. */
  readonly maxBytes: number
  /** Number of receipts after which no further block is read. */
  readonly maxReads: number
  readonly isExpired: () => boolean
}
/**
 * `tooMany` logs, bytes, or receipts to read. Everything before `firstLeftOut` is within the
 * limits.
 * The first block that was read is never left out. The smaller range [fromBlock, firstLeftOut - 1]
 * therefore has a result.
 */
export type LogSearch =
  | { readonly status: 'found' }
  | {
      readonly status: 'tooMany'
      readonly what: 'logs' | 'bytes' | 'reads'
      readonly found: number
      readonly firstLeftOut: bigint
    }
  | { readonly status: 'expired'; readonly firstLeftOut: bigint }
/** The part of a persisted block that a search for logs reads (log-rows.ts). */
export type LogRows = {
  readonly number: number
  readonly hash: Bytes
  /** Bloom of the header, 256 bytes. */
  readonly bloom: Bytes
  /** Timestamp of the block, in seconds. */
  readonly timestamp: bigint
  readonly transactionCount: number
  /**
   * For each transaction with logs: index, index of its first log in the block, length of the log
   * list, hash, logs.
   * The numbers take 4 bytes each, the hash 32; the logs are RLP items one after the other.
   */
  readonly packed: Bytes
}
/** Offsets of the parts of one log in `packed`. */
export type LogRow = {
  /** Offset of 32 bytes. */
  readonly transactionHash: number
  readonly transactionIndex: number
  /** Index of the log in the block. */
  readonly logIndex: number
  /** Offset of 20 bytes. */
  readonly address: number
  /** Offset of the first topic, 32 bytes. The next topics follow at a distance of TOPIC_STEP. */
  readonly topics: number
  readonly topicCount: number
  readonly data: number
  readonly dataEnd: number
}
/**
 * Receives logs in chain order. They are void when the search ends with another status than
 * `found`.
 */
export interface LogSink {
  add(found: FoundLog): void
  /** Receives a log of a persisted block. */
  addRow(rows: LogRows, row: LogRow): void
}
/** Checks the bloom before it reads receipts, and `isExpired` between blocks. */
export type FindLogs = (
  view: ChainView,
  filter: LogFilter,
  to: { readonly limits: LogLimits; readonly sink: LogSink },
) => LogSearch

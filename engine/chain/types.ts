/** The chain as one request sees it: blocks, transactions, receipts, logs and state of one record through one endpoint. */
import type { BlockEnv } from '../evm/engine.ts'
import type { BlockTail } from '../primitives/block-codec.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import type { Log, LogSummary, Receipt } from '../primitives/receipt.ts'
import type { Transaction } from '../primitives/transaction.ts'
import type { StateReader } from '../state/reader.ts'
import type { ReadSet } from '../state/reads.ts'
import type { LogValues, ProofLimits, TrieAt } from '../storage/types.ts'

/** `standard`: latest is canonical, pending means latest. `flashblocks`: latest is complete, or as the node says, pending is pending. */
export type Endpoint = 'standard' | 'flashblocks'
/** Which head `latest` is on the flashblocks endpoint: as at X Layer, or as in a plain OP node. */
export type LatestHead = 'complete' | 'canonical'

/** What answers depend on: the chain up to the latest block, or up to the pending one; `heads`: anything in a view. */
export type Basis = 'latest' | 'pending' | 'heads'

/** A basis that is one head. */
export type HeadBasis = Exclude<Basis, 'heads'>
/** Where a head stood in one view, for `changesSince` of a later one. Plain data, opaque outside of chain/. */
export type HeadMark = {
  readonly id: number
  readonly height: number
  readonly table: number
  readonly tag: number
  readonly unfolds: number
}

export type BlockTag = 'latest' | 'pending' | 'safe' | 'finalized' | 'earliest'
/** A block as it was after one of its flashblocks. */
export type FlashblockPlace = {
  readonly number: bigint
  readonly index: number
  /** 0x + 16 hex digits: of this payload alone; undefined: of the one that the chain has there. */
  readonly payloadId?: string | undefined
}
export type BlockSelector =
  | { readonly tag: BlockTag }
  | { readonly number: bigint }
  | { readonly flashblock: FlashblockPlace }
  | { readonly hash: Bytes; readonly requireCanonical: boolean }

/** A block, or a prefix of one, found in a view. Valid as long as the view's lease. */
export interface Block {
  readonly number: bigint
  /** Momentary while pending. */
  readonly hash: Bytes
  /** Flashblock index of the prefix; undefined: a whole block. */
  readonly flashblockIndex: number | undefined
  /** Whole and folded: whatever it says stands under its hash for good. */
  readonly isFolded: boolean
  readonly header: Header
  /** The header's, 256 bytes, without decoding the rest. */
  readonly logsBloom: Bytes
  readonly transactionCount: number
  transaction(index: number): Transaction | undefined
  receipt(index: number): Receipt | undefined
  /** Of every transaction, in order; a tenth of the work of `receipts`. */
  logSummaries(): readonly LogSummary[]
  transactionHash(index: number): Bytes | undefined
  transactions(): readonly Transaction[]
  transactionHashes(): readonly Bytes[]
  receipts(): readonly Receipt[]
  /** What an Ethereum block has after its transactions. */
  tail(): BlockTail
  /** Index in the block of the first log of transaction `index`. */
  firstLogIndex(index: number): number
}

/** What a block was at its flashblocks. */
export type Growth = {
  /** Equal in two views: the same block, which has only grown between them. undefined: the view has no table of it any more. */
  readonly id: number | undefined
  /** 0x + 16 hex digits; undefined: its flashblocks are not known, or not shown here. */
  readonly payloadId: string | undefined
  /** Prefixes of the block, oldest first; the block itself where its flashblocks are not known. */
  readonly flashblocks: readonly Block[]
}

/**
 * One record, one endpoint. All answers belong together.
 * @throws {ViewError} from any read: 'void' or 'gone': start again on a newer record; 'pruned': history is not kept that far back.
 */
export interface ChainView {
  readonly record: number
  readonly endpoint: Endpoint
  readonly canonical: { readonly number: bigint; readonly hash: Bytes }
  readonly latest: { readonly number: bigint; readonly hash: Bytes }
  readonly pending: {
    readonly number: bigint
    readonly hash: Bytes
    readonly index: number
    /** 0x + 16 hex digits; undefined when the pending block came without a feed. */
    readonly payloadId?: string | undefined
  }
  readonly earliest: bigint
  /** First block whose state is kept. */
  readonly oldestState: bigint
  /** For result caches: equal keys give equal answers, for all that depends on nothing but `basis`. */
  cacheKey(basis: Basis): string
  markOf(basis: HeadBasis): HeadMark
  /**
   * Tells which accounts and slots the state of a head has otherwise than that of an older view's, as hashes of their keys, and now and then of one
   * that has not changed. false: it is another chain, or too much to look at; what was told is not all of it.
   */
  changesSince(mark: HeadMark, basis: HeadBasis, tell: (hash: number) => void): boolean
  /** The same state; what is read of it is noted, by the hashes that `changesSince` tells. */
  noted(state: StateReader, reads: ReadSet): StateReader
  /** undefined: no such block on this chain. @throws {PlaceError} for a flashblock that is not held any more, or of another payload */
  block(selector: BlockSelector): Block | undefined
  /** What a block of this view was at its flashblocks from index `from` on. */
  growth(block: Block, from: number): Growth
  /** Spans of blocks from `first` to `last`, as far as the view goes, with those that may have a log of the values (log-index.ts). */
  logSpans(
    values: LogValues,
    range: { readonly first: bigint; readonly last: bigint },
  ): Iterable<BlockSpan>
  /** Of a block that `logSpans` has named; undefined: it is not folded, or not whole here: to be looked at as a block. */
  logRows(number: bigint): LogRows | undefined
  findTransaction(hash: Bytes): { readonly block: Block; readonly index: number } | undefined
  /** Of many transactions the numbers of their blocks, as far as those are folded: the others are for `findTransaction`. */
  foldedNumbers(hashes: readonly Bytes[]): readonly (number | undefined)[]
  state(block: Block): StateReader
  /** Of a whole block at or below `canonical`. @throws {ProofError} {ProofRaceError} begin again */
  trieAt(block: Block, limits: ProofLimits): TrieAt
  env(block: Block): BlockEnv
}

/** The reading side of one thread. */
export interface ChainReader {
  /** Newest record number: changes with each publish. */
  newestRecord(): number
  /** Of all: above `newestRecord` where clients are shown records later than they are published. */
  newestOfAll(): number
  /** Leases the newest record. */
  lease(endpoint: Endpoint): LeasedView
  /** Leases the record that the front holds for us; undefined: gone, start again. */
  adopt(record: number, endpoint: Endpoint): LeasedView | undefined
}
export interface LeasedView {
  readonly view: ChainView
  /** The same record through the other endpoint's eyes shares the lease. */
  readonly record: number
  release(): void
}

/**
 * A sealed block as its source hands it to the writer (in `dev`: the sequencer, by MessagePort). What may be undefined is compared where the
 * source knows it.
 */
export type SealedBlock = {
  /** Of the header. A source that knows it may be asked for another block of its height before anything halts. */
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
  /** The keeper's is taken where it is undefined. */
  readonly stateRoot: Bytes | undefined
  /** Known with the state root; both are needed for a reorg below the fold head, and where no trie is kept. */
  readonly withdrawalsRoot?: Bytes | undefined
  readonly blobGasUsed?: bigint | undefined
  readonly excessBlobGas?: bigint
  readonly requestsHash?: Bytes | undefined
}

/** Blocks in a row, and in order those of them that are to be looked at. */
export type BlockSpan = { readonly first: bigint; readonly numbers: readonly bigint[] }

/** What a log must have. */
export type LogPattern = {
  /** Emitted by one of these; empty: by anybody. */
  readonly addresses: readonly Bytes[]
  /** At each position one of these; empty: anything. A log with fewer topics than positions does not match. */
  readonly topics: readonly (readonly Bytes[])[]
}
/** Which logs are wanted, from whole blocks of a view. */
export type LogFilter = LogPattern & {
  /** First and last block, both on the view's chain. */
  readonly fromBlock: bigint
  readonly toBlock: bigint
  /** Of the first block: what stands before it is left out. */
  readonly firstTransaction?: number | undefined
  /** The last block only as far as this flashblock of it; undefined: as far as the view has it. */
  readonly toPlace?: FlashblockPlace | undefined
}
export type FoundLog = {
  readonly log: Log
  readonly block: Block
  readonly transactionHash: Bytes
  /** Of the transaction in the block. */
  readonly transactionIndex: number
  /** In the block. */
  readonly logIndex: number
}
export type LogLimits = {
  readonly maxLogs: number
  /** Of their JSON text, about. */
  readonly maxBytes: number
  /** Receipts: no further block is read when so many have been. */
  readonly maxReads: number
  readonly isExpired: () => boolean
}
/**
 * `tooMany` logs, bytes of them, or receipts to read. What comes before `firstLeftOut` is within the limits; the first block that was read is never left
 * out, so that [fromBlock, firstLeftOut - 1] is a smaller range that can be answered.
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
/** Of a folded block, what a search for logs reads (log-rows.ts). */
export type LogRows = {
  readonly number: number
  readonly hash: Bytes
  /** The header's, 256 bytes. */
  readonly bloom: Bytes
  /** Seconds. */
  readonly timestamp: bigint
  readonly transactionCount: number
  /**
   * Of each transaction that has logs: its index, the number of logs before its own in the block, the length of its list (4 bytes each), its
   * hash (32), and RLP of its logs, one after the other.
   */
  readonly packed: Bytes
}
/** Offsets in `packed` of what one log is. */
export type LogRow = {
  /** 32 bytes. */
  readonly transactionHash: number
  readonly transactionIndex: number
  /** In the block. */
  readonly logIndex: number
  /** 20 bytes. */
  readonly address: number
  /** 32 bytes of the first topic, which lies as far before the next as its length in RLP. */
  readonly topics: number
  readonly topicCount: number
  readonly data: number
  readonly dataEnd: number
}
/** Gets logs in chain order. What it has got is of no use when the search then ends otherwise than `found`. */
export interface LogSink {
  add(found: FoundLog): void
  /** Of a folded block. */
  addRow(rows: LogRows, row: LogRow): void
}
/** Looks at the bloom before it reads receipts; polls `isExpired` between blocks. */
export type FindLogs = (
  view: ChainView,
  filter: LogFilter,
  to: { readonly limits: LogLimits; readonly sink: LogSink },
) => LogSearch

/** Storage: what is durable, how it is read, and what the keeper is told. */
import type { Bytes } from '../primitives/bytes.ts'
import type { EncodedDiff, StateDiff } from '../state/diff.ts'

/** Given by the writer, one per table chain of a block, never used twice in a run of the process; 0 is no block. 32 bits. */
export type BlockId = number

export type StoredHead = { readonly number: number; readonly hash: Bytes }

/** Where a transaction is. */
export type TransactionPlace = { readonly blockNumber: number; readonly index: number }

/** A header that a block had between two of its flashblocks, kept a while so that its hash still answers. */
export type MomentaryHeader = {
  readonly hash: Bytes
  /** RLP of the header. */
  readonly header: Bytes
  readonly index: number
  readonly transactionCount: number
}

/** Reads of durable state, in any thread; every call is synchronous and sees the newest commit. */
export interface StoreReader {
  /** 72 bytes (state/reader.ts), undefined when absent. Flat = as of the fold head. */
  flatAccount(address: Bytes): Bytes | undefined
  /** 32 bytes; undefined when zero. `key` is address ‖ slot, 52 bytes. */
  flatSlot(key: Bytes): Bytes | undefined
  /** Value before the first change after block `number`; 'unchanged' when there was none; undefined: absent then. */
  accountHistory(address: Bytes, number: number): Bytes | undefined | 'unchanged'
  slotHistory(key: Bytes, number: number): Bytes | undefined | 'unchanged'
  code(hash: Bytes): Bytes | undefined
  /** Non-zero flat slots of an account in key order, paged. */
  flatSlots(address: Bytes): Iterable<{ readonly key: Bytes; readonly value: Bytes }>
  /** RLP. Appended blocks and folded ones alike, by hash. */
  header(hash: Bytes): Bytes | undefined
  body(hash: Bytes): StoredBody | undefined
  receipts(hash: Bytes): readonly Bytes[] | undefined
  /** RLP (encodeTail) of what an Ethereum block has after its transactions; undefined: nothing, as on an OP chain. */
  tail(hash: Bytes): Bytes | undefined
  /** Appended blocks, and folded ones inside the undo window. */
  diff(hash: Bytes): StateDiff | undefined
  encodedDiff(hash: Bytes): EncodedDiff | undefined
  /** Folded blocks only. */
  hashOfNumber(number: number): Bytes | undefined
  /**
   * Several folded blocks at a time, in half the time of one after the other; those that are not there are left out. Transactions and
   * receipts of those whose header `hasContents` alone.
   */
  blocksOf(
    numbers: readonly number[],
    hasContents: (header: Bytes) => boolean,
  ): readonly StoredRows[]
  /** Folded blocks only. */
  transactionPlace(hash: Bytes): TransactionPlace | undefined
  /** The same of many in one read. */
  transactionPlaces(hashes: readonly Bytes[]): readonly (TransactionPlace | undefined)[]
  /**
   * Which blocks of a shard may have a log of these values, one bit for each: all that do, of folded blocks, and perhaps some others.
   * At least one group is not empty.
   */
  logBlocks(values: LogValues, shard: number): ShardBits
  momentary(hash: Bytes): (MomentaryHeader & { readonly blockHash: Bytes }) | undefined
  /** Newest durable block and newest folded block. */
  durableHead(): StoredHead
  foldHead(): StoredHead
  /** Whether everything above this folded block can be unfolded: a reorg may go down to it. */
  isUnfoldable(number: number): boolean
  /** Oldest block whose state can be read. */
  oldestState(): number
  /** Safe and finalized, as last stored. */
  marks(): Marks
  /** May take tens of milliseconds. @throws {ProofError} {ProofRaceError} {DatabaseError} */
  trieAt(hash: Bytes, limits: ProofLimits): TrieAt
}

/** What is stored of a block. */
export type StoredRows = {
  readonly number: number
  readonly hash: Bytes
  /** RLP. */
  readonly header: Bytes
  readonly body: StoredBody | undefined
  readonly receipts: readonly Bytes[] | undefined
}

/** Alternatives: emitted by one of the first group, one of the second as first topic, and so on; empty: anything. At most five groups. */
export type LogValues = readonly (readonly Bytes[])[]
/** LOG_SHARD_BLOCKS bits: block `shard * LOG_SHARD_BLOCKS + offset` is bit `offset & 31` of word `offset >> 5`. */
export type ShardBits = Uint32Array

export type Marks = { readonly safe: number; readonly finalized: number }

export type StoredBody = { readonly transactions: readonly StoredTransaction[] }
/** The signed envelope with its sender, so that a read never recovers a key. */
export type StoredTransaction = { readonly raw: Bytes; readonly from: Bytes; readonly hash: Bytes }

/** A block as the writer hands it over: everything durable about it. */
export type AppendBlock = {
  readonly id: BlockId
  readonly parentId: BlockId
  readonly number: number
  readonly hash: Bytes
  readonly parentHash: Bytes
  /** RLP. */
  readonly header: Bytes
  readonly transactions: readonly StoredTransaction[]
  /** encodeStoredReceipt of each. */
  readonly receipts: readonly Bytes[]
  /** encodeDiff: it is stored, and folded as it is. Its memory goes with a request that is posted. */
  readonly diff: Uint8Array<ArrayBuffer>
  readonly momentary: readonly MomentaryHeader[]
  /** encodeTail; undefined: neither ommers nor withdrawals. */
  readonly tail?: Bytes | undefined
}

/** Shared words the keeper writes and every reader looks at (ADR 3): they lie in the arena of the views, storage only knows this interface. */
export interface KeeperWords {
  fold(): BlockId
  setFold(id: BlockId): void
  unfolds(): number
  raiseUnfolds(): number
  setOldest(number: number): void
  /** stamp[hash of key] = height. `key`: 20 bytes (account) or 52 (slot). */
  stamp(key: Bytes, height: number): void
}

/** Writer → keeper, in order. Plain data: crosses a thread. */
export type KeeperRequest =
  /** Brings the trie of a block under construction forward. A block's first advance names its parent. */
  | {
      readonly type: 'advance'
      readonly id: BlockId
      readonly parentId: BlockId
      readonly diff: StateDiff
    }
  /** State root of the block as advanced so far, and the storage root of the message passer. */
  | { readonly type: 'root'; readonly id: BlockId }
  | { readonly type: 'append'; readonly block: AppendBlock }
  /** A block that the keeper listed at open has a table now, of this id; in order, parents first. */
  | {
      readonly type: 'adopt'
      readonly id: BlockId
      readonly parentId: BlockId
      readonly hash: Bytes
    }
  /** The block will not be built on any more: its trie layer can go. */
  | { readonly type: 'forget'; readonly id: BlockId }
  /** Safe and finalized, stored with the head. */
  | { readonly type: 'marks'; readonly safe: number; readonly finalized: number }
  /**
   * Roots of a diff laid over a block, nothing kept: the sequencer's question. The block is named by its state root (equal roots,
   * equal states), because the sequencer knows no block ids. Answered on the port it came from.
   */
  | {
      readonly type: 'preview'
      readonly request: number
      readonly parentStateRoot: Bytes
      readonly diff: StateDiff
    }

/** What a keeper finds when it opens: the writer puts these blocks back into tables and has the keeper adopt them. */
export type OpenedChain = {
  readonly foldHead: StoredHead
  readonly durableHead: StoredHead
  /** Oldest first, from the block above the fold head to the durable head. */
  readonly unfolded: readonly UnfoldedBlock[]
  /** Appended blocks whose root was wrong: the durable head is below them now. For the log. */
  readonly dropped: readonly StoredHead[]
}
export type UnfoldedBlock = {
  readonly number: number
  readonly hash: Bytes
  readonly parentHash: Bytes
  /** RLP. */
  readonly header: Bytes
  readonly transactions: readonly StoredTransaction[]
  readonly receipts: readonly Bytes[]
  readonly diff: StateDiff
}

export type KeeperAnswer =
  | {
      readonly type: 'root'
      readonly id: BlockId
      readonly stateRoot: Bytes
      readonly withdrawalsRoot: Bytes
    }
  /** `roots` is undefined when the keeper has no trie of that state root: folded over, or not known yet. */
  | {
      readonly type: 'preview'
      readonly request: number
      readonly roots: { readonly stateRoot: Bytes; readonly withdrawalsRoot: Bytes } | undefined
    }
  | { readonly type: 'appended'; readonly id: BlockId; readonly number: number }
  | { readonly type: 'folded'; readonly id: BlockId; readonly number: number; readonly hash: Bytes }
  | {
      readonly type: 'unfolded'
      readonly toNumber: number
      readonly toHash: Bytes
      readonly toId: BlockId
      readonly unfolds: number
    }
  /** A commit failed: canonical progress stops. `message` says what to do. */
  | { readonly type: 'failed'; readonly message: string }

/** The trie after a block, for as long as no fold moves the rows under it. */
export type TrieAt = {
  /** @throws {ProofRaceError} */
  prove(address: Bytes, keys: readonly Bytes[]): Proof
  /** The same after further changes, of which nothing stays. @throws {ProofRaceError} */
  after(diff: StateDiff): TrieAt
  readonly stateRoot: Bytes
  /** EMPTY_ROOT for an account that has no storage, or is absent. @throws {ProofRaceError} */
  storageRoot(address: Bytes): Bytes
}

export type ProofLimits = {
  /** How far below the fold head. */
  readonly blocks: number
  /** Of nodes that are put back in memory. */
  readonly bytes: number
}

/** RLP nodes from the root down, for an account and some of its slots (EIP-1186). */
export type Proof = {
  readonly accountProof: readonly Bytes[]
  /** RLP of the leaf; undefined: no such account. */
  readonly account: Bytes | undefined
  readonly storageProofs: readonly (readonly Bytes[])[]
}

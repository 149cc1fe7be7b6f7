/** Storage: what is durable, how it is read, and what the keeper is told. */
import type { Bytes } from '../primitives/bytes.ts'
import type { EncodedDiff, StateDiff } from '../state/diff.ts'
import type { PromisedFlashblock } from './ledger-types.ts'

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
  /** 72 bytes (state/reader.ts), undefined when absent. Flat = as of the fold head. 'missing' in a lazy directory only. */
  flatAccount(address: Bytes): Bytes | undefined | 'missing'
  /** 32 bytes; undefined when zero. `key` is address ‖ slot, 52 bytes. 'missing' in a lazy directory only. */
  flatSlot(key: Bytes): Bytes | undefined | 'missing'
  /** Value before the first change after block `number`; 'unchanged' when there was none; undefined: absent then. */
  accountHistory(address: Bytes, number: number): Bytes | undefined | 'unchanged'
  slotHistory(key: Bytes, number: number): Bytes | undefined | 'unchanged'
  code(hash: Bytes): Bytes | undefined
  /** Of a lazy directory: an account whose code was fetched, which may be gone since. */
  codeOrigin(hash: Bytes): Bytes | undefined
  /** Non-zero flat slots of an account in key order, paged; in a lazy directory those that are known. */
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
  /** State is fetched as it is needed. */
  isLazy(): boolean
  /** undefined: the directory is whole. */
  lazyStart(): LazyStart | undefined
  /** May take tens of milliseconds. @throws {ProofError} {ProofRaceError} {DatabaseError} */
  trieAt(hash: Bytes, limits: ProofLimits): TrieAt
}

/** A lazy directory has of the state what was fetched or written since it was begun. */
export type LazyStart = {
  /** The block that its state begins with. */
  readonly block: StoredHead
  /** From here on every block has its transactions and receipts. Some older ones may be there too. */
  readonly oldestBlock: number
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
  /** Of a lazy directory: whether anybody has read a row of this hash since it was asked last. `key`: as it stands in its column. */
  takeRead(key: Bytes): boolean
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
  /** `marks` are stored in the commit of the block; undefined: they stay what they are. */
  | { readonly type: 'append'; readonly block: AppendBlock; readonly marks?: Marks }
  /** The newest block is this one again, which is durable; nothing is on its way. Answered with `rewound`, or `unfolded`. */
  | { readonly type: 'rewind'; readonly to: StoredHead }
  /** A block that the keeper listed at open has a table now, of this id; in order, parents first. */
  | {
      readonly type: 'adopt'
      readonly id: BlockId
      readonly parentId: BlockId
      readonly hash: Bytes
    }
  /** The block will not be built on any more: its trie layer can go. */
  | { readonly type: 'forget'; readonly id: BlockId }
  /** Of a lazy directory: what was read of the state after `block`. Answered on the port it came from. */
  | {
      readonly type: 'fill'
      readonly request: number
      readonly block: StoredHead
      readonly rows: readonly FillRow[]
    }
  /**
   * Of a lazy directory, when nothing is appended or unfolded: all of its state goes, and it begins anew after the newest block of
   * `start`, whose id is `id`. Answered with 'begun'.
   */
  | {
      readonly type: 'begin'
      readonly id: BlockId
      readonly genesisNumber: number
      readonly start: Beginning
    }
  /** A flashblock was shown: what it promised. Before the append of its height. */
  | { readonly type: 'promise'; readonly promised: PromisedFlashblock }
  /** The first flashblock of a payload was shown, with or without promises. Before those. */
  | { readonly type: 'payload'; readonly number: number; readonly payloadId: Bytes }
  /** One of its flashblocks was told in two ways. */
  | { readonly type: 'doubt'; readonly number: number; readonly payloadId: Bytes }
  /** Safe and finalized, for a commit of their own. Answered with 'labelled'. */
  | ({ readonly type: 'marks' } & Marks)
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

/** Something of the state that was fetched; or of the chain below it. */
export type FillRow =
  /** `value`: 72 bytes, undefined: known to be absent. `hasNoStorage`: known to have none, so that none of its slots has to be asked for. */
  | {
      readonly kind: 'account'
      readonly address: Bytes
      readonly value: Bytes | undefined
      readonly hasNoStorage: boolean
    }
  /** `value`: 32 bytes, undefined: zero. */
  | {
      readonly kind: 'slot'
      readonly address: Bytes
      readonly key: Bytes
      readonly value: Bytes | undefined
    }
  /** Held to its hash by who fetched it. `address`: who has it, where it can be had again. */
  | {
      readonly kind: 'code'
      readonly hash: Bytes
      readonly code: Bytes
      readonly address: Bytes
    }
  /** RLP of an ancestor of the first block. */
  | { readonly kind: 'header'; readonly number: number; readonly header: Bytes }

/** A block as it is stored. */
export type StartBlock = Pick<AppendBlock, 'header' | 'transactions' | 'receipts' | 'tail'>

/** What a lazy state begins with. */
export type Start = {
  /**
   * RLP of the headers below the first of `blocks`, oldest first, each the parent of the next: for BLOCKHASH the 256 before the newest
   * block, fewer where the chain is shorter.
   */
  readonly headers: readonly Bytes[]
  /** Whole blocks, oldest first, up to the one that the state begins with: what `eth_gasPrice` and `eth_feeHistory` look at. */
  readonly blocks: readonly StartBlock[]
  /** Heights; at most that of the newest block. */
  readonly safe: number
  readonly finalized: number
}

/** `keptUpTo`: the newest block of ours that is the upstream's too and stays; undefined: none is known to be. */
export type Beginning = Start & { readonly keptUpTo?: number | undefined }

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
  /** Dropped: known already, or not known any more to be right: then `block` is not canonical, and all were. */
  | {
      readonly type: 'filled'
      readonly request: number
      readonly kept: number
      readonly dropped: number
    }
  /** `marks`: stored with the block. */
  | {
      readonly type: 'appended'
      readonly id: BlockId
      readonly number: number
      readonly marks?: Marks
    }
  | { readonly type: 'labelled'; readonly marks: Marks }
  | { readonly type: 'folded'; readonly id: BlockId; readonly number: number; readonly hash: Bytes }
  | {
      readonly type: 'unfolded'
      readonly toNumber: number
      readonly toHash: Bytes
      readonly toId: BlockId
      readonly unfolds: number
    }
  /** Every older view is void, and all that was appended is folded or gone. */
  | {
      readonly type: 'begun'
      readonly id: BlockId
      readonly head: StoredHead
      readonly unfolds: number
    }
  /** It goes on from where it was: the start is none for this directory. */
  | { readonly type: 'notBegun'; readonly id: BlockId; readonly reason: string }
  /** The newest block is this one, and it is not folded, or the newest that is. */
  | { readonly type: 'rewound'; readonly hash: Bytes }
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

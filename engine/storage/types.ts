/**
 * Types of storage: durable rows, reads of them, and messages to and from the persistence thread.
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { EncodedDiff, StateDiff } from '../state/diff.ts'
import type { PromisedFlashblock } from './ledger-types.ts'

/** Number of a block's diff layers, never reused in a run of the process. 0: no block. 32 bits. */
export type BlockId = number

export type StoredHead = { readonly number: number; readonly hash: Bytes }

export type TransactionLocation = { readonly blockNumber: number; readonly index: number }

/** Header of a block after one of its flashblocks, retained because clients request its hash. */
export type PartialHeader = {
  readonly hash: Bytes
  readonly header: Bytes
  readonly index: number
  readonly transactionCount: number
}

/** Reads of durable state, for any thread. Every call is synchronous and sees the newest commit. */
export interface StoreReader {
  /**
   * Account at the persisted head: 72 bytes (state/reader.ts); 'missing' in a lazy directory only.
   */
  flatAccount(address: Bytes): Bytes | undefined | 'missing'
  /** Slot at the persisted head: 32 bytes, undefined when zero. `key`: address ‖ slot, 52 bytes. */
  flatSlot(key: Bytes): Bytes | undefined | 'missing'
  /**
   * Value before the first change after block `number`. Undefined means that the key was absent
   * then, 'unchanged' that no later block changed its value.
   */
  accountHistory(address: Bytes, number: number): Bytes | undefined | 'unchanged'
  slotHistory(key: Bytes, number: number): Bytes | undefined | 'unchanged'
  code(hash: Bytes): Bytes | undefined
  /** Address of an account whose code was fetched lazily. The account may be gone since. */
  codeOrigin(hash: Bytes): Bytes | undefined
  /**
   * Non-zero flat slots of an account in key order, read in pages. A lazy directory yields only the
   * known ones.
   */
  flatSlots(address: Bytes): Iterable<{ readonly key: Bytes; readonly value: Bytes }>
  /** RLP of a header, by hash, of appended and persisted blocks. */
  header(hash: Bytes): Bytes | undefined
  body(hash: Bytes): StoredBody | undefined
  receipts(hash: Bytes): readonly Bytes[] | undefined
  /** RLP (encodeTail) of ommers and withdrawals; undefined: none, as on an OP chain. */
  tail(hash: Bytes): Bytes | undefined
  /** Diff of an appended block, or of a persisted block inside the undo window. */
  diff(hash: Bytes): StateDiff | undefined
  encodedDiff(hash: Bytes): EncodedDiff | undefined
  /** Hash of a persisted block. */
  hashOfNumber(number: number): Bytes | undefined
  /**
   * Reads several persisted blocks in half the time of single reads; absent blocks are left out.
   * @param hasContents whether transactions and receipts of this header's block are read
   */
  blocksOf(
    numbers: readonly number[],
    hasContents: (header: Bytes) => boolean,
  ): readonly StoredRows[]
  /** Location of a transaction in a persisted block. */
  transactionLocation(hash: Bytes): TransactionLocation | undefined
  transactionLocations(hashes: readonly Bytes[]): readonly (TransactionLocation | undefined)[]
  /**
   * Persisted blocks of a shard that may have a log of these values, one bit each. No such block is
   * missing, but some bits may be false positives.
   * @param values at least one group is not empty
   */
  logBlocks(values: LogValues, shard: number): ShardBits
  partialHeader(hash: Bytes): (PartialHeader & { readonly blockHash: Bytes }) | undefined
  durableHead(): StoredHead
  persistedHead(): StoredHead
  /**
   * Whether a reorg may go down to this persisted block, because every block above can be unwound.
   */
  canUnwindTo(number: number): boolean
  /** Oldest block whose state can be read. */
  oldestState(): number
  labelledHeads(): LabelledHeads
  /** Whether this is a lazy directory, which fetches state on demand. */
  isLazy(): boolean
  /** Start of a lazy directory; undefined for a directory with full state. */
  lazyStart(): LazyStart | undefined
  /** Takes up to tens of milliseconds. @throws {ProofError} {ProofRaceError} {DatabaseError} */
  trieAt(hash: Bytes, limits: ProofLimits): TrieAt
}

/** Start of a lazy directory, which has only the state that was fetched or written since. */
export type LazyStart = {
  /** Block that the lazy state starts with. */
  readonly block: StoredHead
  /**
   * Every block from this height on has its transactions and receipts; some older blocks may have
   * them too.
   */
  readonly oldestBlock: number
}

export type StoredRows = {
  readonly number: number
  readonly hash: Bytes
  /** RLP. */
  readonly header: Bytes
  readonly body: StoredBody | undefined
  readonly receipts: readonly Bytes[] | undefined
}

/**
 * Groups of alternatives: the first is the log's address, the next are its topics. An empty group
 * matches everything. At most five groups.
 */
export type LogValues = readonly (readonly Bytes[])[]
/** Block `shard * LOG_SHARD_BLOCKS + offset` is bit `offset & 31` of word `offset >> 5`. */
export type ShardBits = Uint32Array

export type LabelledHeads = { readonly safe: number; readonly finalized: number }

export type StoredBody = { readonly transactions: readonly StoredTransaction[] }
/** Signed envelope with its sender, so that a read never recovers a key. */
export type StoredTransaction = { readonly raw: Bytes; readonly from: Bytes; readonly hash: Bytes }

/** Everything durable about a block, as the writer submits it for persistence. */
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
  /** encodeDiff of the block, in the stored form. Posting the request transfers its memory. */
  readonly diff: Uint8Array<ArrayBuffer>
  readonly partialHeaders: readonly PartialHeader[]
  /** encodeTail; undefined if the block has neither ommers nor withdrawals. */
  readonly tail?: Bytes | undefined
}

/**
 * Shared words that the persistence thread writes and every reader looks at (ADR 3). They lie in
 * the arena of the views; storage knows only this interface.
 */
export interface PersistenceWords {
  persistedId(): BlockId
  setPersistedId(id: BlockId): void
  unwinds(): number
  raiseUnwinds(): number
  setOldest(number: number): void
  /** Stores the height at the hash of a key: 20 bytes (account) or 52 (slot). */
  stamp(key: Bytes, height: number): void
  /** Whether a row of this key's hash was read since the last call, in a lazy directory. */
  takeRead(key: Bytes): boolean
}

/** Requests from the writer, handled in order. They are plain data, because they cross a thread. */
export type PersistenceRequest =
  /** Applies a diff to the trie of an open block. The first one of a block names its parent. */
  | {
      readonly type: 'advance'
      readonly id: BlockId
      readonly parentId: BlockId
      readonly diff: StateDiff
    }
  /** Requests the state root of a block so far, and the message passer's storage root. */
  | { readonly type: 'root'; readonly id: BlockId }
  /** Appends a block with `labelledHeads`; undefined leaves them unchanged. */
  | { readonly type: 'append'; readonly block: AppendBlock; readonly labelledHeads?: LabelledHeads }
  /**
   * Makes a durable block the newest again; nothing is in flight. The response is `rewound`, or
   * `unfolded` after an unwind.
   */
  | { readonly type: 'rewind'; readonly to: StoredHead }
  /** Names a block that was listed at open and has a diff layer now. Parents come first. */
  | {
      readonly type: 'adopt'
      readonly id: BlockId
      readonly parentId: BlockId
      readonly hash: Bytes
    }
  /** Drops the trie layer of a block that nothing will be built on any more. */
  | { readonly type: 'forget'; readonly id: BlockId }
  /**
   * Brings state that was read after `block` into a lazy directory. The response goes to the port
   * of the request.
   */
  | {
      readonly type: 'fill'
      readonly request: number
      readonly block: StoredHead
      readonly rows: readonly FillRow[]
    }
  /**
   * Drops all state of a lazy directory and restarts it after the newest block of `start`, whose id
   * is `id`. No append or unwind is under way. The response is 'begun'.
   */
  | {
      readonly type: 'begin'
      readonly id: BlockId
      readonly genesisNumber: number
      readonly start: ResyncStart
    }
  /** Records the promises of a visible flashblock, before the append of its height. */
  | { readonly type: 'promise'; readonly promised: PromisedFlashblock }
  /** Says that a payload's first flashblock is visible. It comes before the promises. */
  | { readonly type: 'payload'; readonly number: number; readonly payloadId: Bytes }
  /** Says that a flashblock of this payload arrived in two versions. */
  | { readonly type: 'suspicion'; readonly number: number; readonly payloadId: Bytes }
  /** Stores safe and finalized in a commit of their own. The response is 'labelled'. */
  | ({ readonly type: 'marks' } & LabelledHeads)
  /**
   * Requests the roots of a diff overlaid on a block; nothing is stored. The sequencer names the
   * block by its state root, because it knows no block ids. The response goes to the port of the
   * request.
   */
  | {
      readonly type: 'preview'
      readonly request: number
      readonly parentStateRoot: Bytes
      readonly diff: StateDiff
    }

/** Fetched piece of the state, or of the chain below it. */
export type FillRow =
  /** `value`: 72 bytes; undefined: absent. `hasNoStorage`: none of its slots has to be fetched. */
  | {
      readonly kind: 'account'
      readonly address: Bytes
      readonly value: Bytes | undefined
      readonly hasNoStorage: boolean
    }
  /** `value`: 32 bytes, undefined if zero. */
  | {
      readonly kind: 'slot'
      readonly address: Bytes
      readonly key: Bytes
      readonly value: Bytes | undefined
    }
  /** Code, checked against its hash. `address`: an account that has the code. */
  | {
      readonly kind: 'code'
      readonly hash: Bytes
      readonly code: Bytes
      readonly address: Bytes
    }
  /** RLP of an ancestor of the first block. */
  | { readonly kind: 'header'; readonly number: number; readonly header: Bytes }

export type StartBlock = Pick<AppendBlock, 'header' | 'transactions' | 'receipts' | 'tail'>

/** Chain that a lazy state starts with. */
export type Start = {
  /**
   * RLP of the headers below the first of `blocks`, oldest first, each the parent of the next.
   * BLOCKHASH needs the 256 before the newest block, fewer on a shorter chain.
   */
  readonly headers: readonly Bytes[]
  /**
   * Full blocks, oldest first, up to the start's block, for `eth_gasPrice` and `eth_feeHistory`.
   */
  readonly blocks: readonly StartBlock[]
  /** Heights, not above the newest block. */
  readonly safe: number
  readonly finalized: number
}

/** `keptUpTo`: newest own block that the upstream has too, and that stays; undefined: none. */
export type ResyncStart = Start & { readonly keptUpTo?: number | undefined }

/**
 * Chain that a persistence thread finds when it opens. The writer puts the unpersisted blocks back
 * into diff layers and sends an `adopt` for each.
 */
export type OpenedChain = {
  readonly persistedHead: StoredHead
  readonly durableHead: StoredHead
  /** Oldest first, from the block above the persisted head to the durable head. */
  readonly unpersisted: readonly UnpersistedBlock[]
  /** Blocks that were dropped because of a wrong root, for the log. */
  readonly dropped: readonly StoredHead[]
}
export type UnpersistedBlock = {
  readonly number: number
  readonly hash: Bytes
  readonly parentHash: Bytes
  /** RLP. */
  readonly header: Bytes
  readonly transactions: readonly StoredTransaction[]
  readonly receipts: readonly Bytes[]
  readonly diff: StateDiff
}

export type PersistenceResponse =
  | {
      readonly type: 'root'
      readonly id: BlockId
      readonly stateRoot: Bytes
      readonly withdrawalsRoot: Bytes
    }
  /**
   * `roots` is undefined when no trie has that state root: it is persisted over, or unknown yet.
   */
  | {
      readonly type: 'preview'
      readonly request: number
      readonly roots: { readonly stateRoot: Bytes; readonly withdrawalsRoot: Bytes } | undefined
    }
  /** Known rows are dropped. If `block` is not canonical any more, all rows are dropped. */
  | {
      readonly type: 'filled'
      readonly request: number
      readonly written: number
      readonly dropped: number
    }
  | {
      readonly type: 'appended'
      readonly id: BlockId
      readonly number: number
      readonly labelledHeads?: LabelledHeads
    }
  | { readonly type: 'labelled'; readonly labelledHeads: LabelledHeads }
  | { readonly type: 'folded'; readonly id: BlockId; readonly number: number; readonly hash: Bytes }
  | {
      readonly type: 'unfolded'
      readonly toNumber: number
      readonly toHash: Bytes
      readonly toId: BlockId
      readonly unwinds: number
    }
  /** Every older view is void, and everything appended is persisted or gone. */
  | {
      readonly type: 'begun'
      readonly id: BlockId
      readonly head: StoredHead
      readonly unwinds: number
    }
  /** The old state stays, because the start does not fit this directory. */
  | { readonly type: 'notBegun'; readonly id: BlockId; readonly reason: string }
  /** The named block is the newest again, and no persisted block was unwound. */
  | { readonly type: 'rewound'; readonly hash: Bytes }
  /** A commit failed, so that canonical progress stops. `message` says what to do. */
  | { readonly type: 'failed'; readonly message: string }

/** The trie after a block, valid until a persist pass moves the rows under it. */
export type TrieAt = {
  /** @throws {ProofRaceError} */
  prove(address: Bytes, keys: readonly Bytes[]): Proof
  /** The trie after further changes, which are not stored. @throws {ProofRaceError} */
  after(diff: StateDiff): TrieAt
  readonly stateRoot: Bytes
  /** EMPTY_ROOT if the account is absent or has no storage. @throws {ProofRaceError} */
  storageRoot(address: Bytes): Bytes
}

export type ProofLimits = {
  /** Largest distance below the persisted head. */
  readonly blocks: number
  /** Bytes of nodes that may be restored in memory. */
  readonly bytes: number
}

/** RLP nodes from the root down, for an account and some of its slots (EIP-1186). */
export type Proof = {
  readonly accountProof: readonly Bytes[]
  /** RLP of the leaf; undefined if there is no such account. */
  readonly account: Bytes | undefined
  readonly storageProofs: readonly (readonly Bytes[])[]
}

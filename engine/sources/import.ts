/** Executes and verifies the blocks of a file in order, into a database without other users. */
import { MESSAGE_PASSER } from '../chainspec/genesis.ts'
import type { ChainSpec } from '../chainspec/types.ts'
import type { Engine } from '../evm/engine.ts'
import { attributesOfHeader, buildHeader, openBlock } from '../execution/block/block.ts'
import { headerFault } from '../execution/block/header-rules.ts'
import { RequestsError } from '../execution/block/requests.ts'
import type { BlockExecution } from '../execution/transaction/types.ts'
import { encodeTail, encodeWithdrawal, type RlpBlock } from '../primitives/block-codec.ts'
import type { Bytes } from '../primitives/bytes.ts'
import {
  decodeHeader,
  encodeHeader,
  type Header,
  hashHeader,
  headerItems,
} from '../primitives/header.ts'
import { bytesToHex, hexToBytes } from '../primitives/hex.ts'
import { keccak256 } from '../primitives/keccak.ts'
import { orderedRoot } from '../primitives/ordered-root.ts'
import { encodeStoredReceipt } from '../primitives/receipt-codec.ts'
import { encodeRlp } from '../primitives/rlp.ts'
import type { Transaction } from '../primitives/transaction.ts'
import { decodeTransaction, TransactionError } from '../primitives/transaction-codec.ts'
import { equalBytes } from '../primitives/words.ts'
import type { StateDiff } from '../state/diff.ts'
import { encodeDiff } from '../state/diff-codec.ts'
import { appendBlock, writeLabelledHeads } from '../storage/blocks/append.ts'
import { flatState } from '../storage/blocks/flat-state.ts'
import { persistBlock } from '../storage/blocks/persist.ts'
import { type PruneLimits, prune } from '../storage/blocks/prune.ts'
import { recover } from '../storage/blocks/recover.ts'
import { openStore } from '../storage/blocks/store.ts'
import { openLogLength } from '../storage/database/log-length.ts'
import type { Database } from '../storage/database/types.ts'
import { type StateTrie, TRIE_CACHE_BYTES } from '../storage/trie/trie.ts'
import type { StoreReader } from '../storage/types.ts'
import { attributesAfter } from './base-attributes.ts'

/** A block that is refused; all blocks before it are in the database. */
export class ImportError extends Error {
  override name = 'ImportError'
}

export type Imported = {
  readonly number: number
  readonly hash: Bytes
  readonly transactions: number
  readonly gasUsed: bigint
  /** The block was in the database before. */
  readonly isKnown: boolean
}
export type ImportOptions = {
  readonly database: Database
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: PruneLimits
}

/** Blocks between two writes of labelled heads, each followed by a prune. */
const LABEL_BLOCKS = 256

export function openImport(options: ImportOptions): {
  /**
   * @throws {ImportError}
   * @throws {DatabaseError}
   */
  add(block: RlpBlock): Promise<Imported>
  /** Labels the newest block safe and finalized, and prunes old rows. */
  finish(): void
} {
  const { limits } = options
  const log = openLogLength(options.database)
  const { database } = log
  // An import leaves no block unpersisted. Blocks that a node left unpersisted are persisted by the
  // next node.
  const { trie, opened } = recover(database, TRIE_CACHE_BYTES)
  if (opened.unpersisted.length > 0)
    throw new ImportError(
      'the directory holds blocks that a node has not persisted yet: import into a directory of its own',
    )
  const store = openStore(database)
  const chain = { ...options, database, store, trie }
  let head = headOf(store)
  let added = 0

  function finish(): void {
    const { number } = store.durableHead()
    writeLabelledHeads(database, { safe: number, finalized: number })
    for (const _ of prune(database, limits, () => {}));
  }
  return {
    async add(block) {
      const hash = hashHeader(block.header)
      const { number } = block.header
      const known = store.hashOfNumber(Number(number))
      const summary = {
        number: Number(number),
        hash,
        transactions: block.transactions.length,
        gasUsed: block.header.gasUsed,
      }
      if (known !== undefined && equalBytes(known, hash)) return { ...summary, isKnown: true }
      if (!equalBytes(block.header.parentHash, head.hash))
        throw new ImportError(
          `block ${number}: parentHash is ${bytesToHex(block.header.parentHash)}, expected ${bytesToHex(head.hash)}, the hash of block ${head.header.number} here`,
        )
      try {
        await addBlock(chain, { block, hash, parent: head.header })
      } catch (error) {
        throw explained(error, number)
      }
      head = { hash, header: block.header }
      added++
      if (added % LABEL_BLOCKS === 0) finish()
      for (const _ of log.shorten());
      return { ...summary, isKnown: false }
    },
    finish,
  }
}

function headOf(store: StoreReader): { readonly hash: Bytes; readonly header: Header } {
  const { hash } = store.durableHead()
  return { hash, header: decodeHeader(store.header(hash)!) }
}

type Chain = ImportOptions & { readonly store: StoreReader; readonly trie: StateTrie }
type Given = { readonly block: RlpBlock; readonly hash: Bytes; readonly parent: Header }

async function addBlock(chain: Chain, { block, hash, parent }: Given): Promise<void> {
  const { database, trie, engine, store } = chain
  const { header } = block
  const fault = headerFault(chain.chain, parent, header)
  if (fault !== undefined) throw new BlockFault(fault)
  checkOptimism(chain.chain, block, parent)
  const transactions = block.transactions.map(transactionAt)
  const rootAfter = (diff: StateDiff) => trie.stateRoot(trie.preview(trie.base(), diff))
  const execution = openBlock({
    engine,
    chain: chain.chain,
    reader: flatState(store),
    attributes: attributesAfter(
      chain.chain,
      parent,
      attributesOfHeader(header, block.transactions.at(-1)),
    ),
    rootAfter,
  })
  const executed = executeBlock(execution, block, transactions)
  const { requestsHash, diff } = await executed.finally(() => execution.close())
  const version = trie.fork(trie.base())
  trie.apply(version, diff)
  const ours = buildHeader({
    rules: execution.rules,
    attributes: execution.attributes,
    sums: execution.sums(),
    stateRoot: trie.stateRoot(version),
    withdrawalsRoot: trie.storageRoot(version, MESSAGE_PASSER_ADDRESS),
    tail: {
      nonce: header.nonce,
      ommersHash: keccak256(encodeRlp(block.ommers.map(headerItems))),
      ...(block.withdrawals === undefined || execution.rules.isOptimism
        ? {}
        : { withdrawalsRoot: orderedRoot(block.withdrawals.map(encodeWithdrawal)) }),
      ...(requestsHash === undefined ? {} : { requestsHash }),
    },
  })
  const differing = differenceOf(ours, header)
  if (differing !== undefined) throw new BlockFault(differing)
  const number = Number(header.number)
  const encodedDiff = encodeDiff(diff)
  appendBlock(database, {
    id: 0,
    parentId: 0,
    number,
    hash,
    parentHash: header.parentHash,
    header: encodeHeader(header),
    transactions,
    receipts: execution.executed.map(({ receipt }) => encodeStoredReceipt(receipt)),
    diff: encodedDiff,
    partialHeaders: [],
    ...(hasTail(block) ? { tail: encodeTail(block) } : {}),
  })
  const persisted = { number, hash }
  for (const _ of persistBlock({ database, trie, version, block: persisted, diff: encodedDiff }));
}

async function executeBlock(
  execution: BlockExecution,
  block: RlpBlock,
  transactions: readonly Transaction[],
) {
  await execution.start()
  for (const [index, transaction] of transactions.entries()) {
    const done = await execution.execute(transaction)
    if (done.status === 'executed') continue
    const why = done.status === 'invalid' ? done.reason.message : done.status
    throw new BlockFault(`transaction ${index} (${bytesToHex(transaction.hash)}): ${why}`)
  }
  const requestsHash = await execution.finish(block)
  return { requestsHash, diff: await execution.diff() }
}

/**
 * Refuses what an OP block may not have, and the Canyon transition, which this import does not
 * support.
 */
function checkOptimism({ rulesAt }: ChainSpec, block: RlpBlock, parent: Header): void {
  const { number, timestamp } = block.header
  const rules = rulesAt(number, timestamp)
  if (!rules.isOptimism) return
  const count = block.withdrawals?.length ?? 0
  if (count > 0) throw new BlockFault(`${count} withdrawals, an OP block has none`)
  const before = rulesAt(parent.number, parent.timestamp)
  if (before.isOptimism && before.depositReceiptVersion !== rules.depositReceiptVersion)
    throw new BlockFault(
      'Canyon puts the code of a contract into the state that is not known here (0x13b0D85CcB8bf860b6b79AF3029fCA081AE9beF2): load the state of a later block by import-state',
    )
}

const MESSAGE_PASSER_ADDRESS = hexToBytes(MESSAGE_PASSER)

/**
 * Any list of withdrawals is stored, also an empty one, because the list belongs to blocks since
 * Shanghai.
 */
const hasTail = ({ ommers, withdrawals }: RlpBlock): boolean =>
  ommers.length > 0 || withdrawals !== undefined

/** Fault of a block; the caller adds the block's number. */
class BlockFault extends Error {}

function explained(error: unknown, number: bigint): unknown {
  const isFault = error instanceof BlockFault || error instanceof RequestsError
  return isFault ? new ImportError(`block ${number}: ${error.message}`) : error
}

function transactionAt(raw: Bytes, index: number): Transaction {
  try {
    return decodeTransaction(raw)
  } catch (error) {
    if (!(error instanceof TransactionError)) throw error
    throw new BlockFault(`transaction ${index}: ${error.message}`)
  }
}

/**
 * Names the first field that differs. Fields that depend on the state come last, because they
 * differ with any other.
 */
function differenceOf(ours: Header, theirs: Header): string | undefined {
  for (const name of FIELDS) {
    const [a, b] = [textOf(ours[name]), textOf(theirs[name])]
    if (a !== b) return `${name} is ${b} in the file, ${a} by execution`
  }
  return undefined
}

const FIELDS = [
  'ommersHash',
  'transactionsRoot',
  'withdrawalsRoot',
  'gasUsed',
  'blobGasUsed',
  'excessBlobGas',
  'logsBloom',
  'receiptsRoot',
  'requestsHash',
  'stateRoot',
  'coinbase',
  'difficulty',
  'baseFeePerGas',
  'parentBeaconBlockRoot',
] as const satisfies readonly (keyof Header)[]

const textOf = (value: Bytes | bigint | undefined): string =>
  value === undefined ? 'absent' : typeof value === 'bigint' ? `${value}` : bytesToHex(value)

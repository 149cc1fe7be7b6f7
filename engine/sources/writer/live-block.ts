/** A block in the writer's memory, from its first transaction until it is persisted. */
import { type BlockEvent, type BlockState, nextState } from '../../chain/block-state.ts'
import type { ChainReader, UpstreamBlock } from '../../chain/types.ts'
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import { buildHeader, openBlock } from '../../execution/block/block.ts'
import { allowSpeculation, type SpeculativeExecution } from '../../execution/block/speculative.ts'
import { isEdit } from '../../execution/transaction/edits.ts'
import {
  type BlockAttributes,
  type BlockExecution,
  type BlockSums,
  type ExecutedTransaction,
  storedReceiptOf,
} from '../../execution/transaction/types.ts'
import { isTypeKnown } from '../../execution/transaction/validation.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { encodeHeader, type Header, hashHeader } from '../../primitives/header.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'
import {
  decodeTransaction,
  type SenderOf,
  TransactionError,
  unknownType,
} from '../../primitives/transaction-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { StateDiff } from '../../state/diff.ts'
import { encodeDiff } from '../../state/diff-codec.ts'
import type { StateReader } from '../../state/reader.ts'
import type { AppendBlock, PartialHeader } from '../../storage/types.ts'
import type { BlockHandle } from '../../views/types.ts'
import { attributesAfter } from '../base-attributes.ts'
import { EDIT, type Mismatch, mismatch, TYPE } from './checks.ts'

export type LiveBlock = {
  readonly handle: BlockHandle
  /** undefined after the block is persisted, because no walk goes below the base. */
  parent: LiveBlock | undefined
  state: BlockState
  readonly payloadId: string | undefined
  /** The feed that brought the first flashblock; undefined: no feed did. */
  readonly feed: number | undefined
  /** Header and hash after the newest flashblock, later the final ones. */
  header: Header
  hash: Bytes
  /** Set while transactions may still come. */
  open: OpenPart | undefined
  /** Set from the block's end until the persistence thread has it. */
  content: Content | undefined
  readonly partialHeaders: PartialHeader[]
  /** Newest flashblock index. */
  index: number
  executeMs: number
  /** Roots that were requested and not answered, and the flashblock index of the newest request. */
  rootsDue: number
  rootIndex: number
  /** Header and hash if the block ended with this flashblock. */
  prefix: { readonly index: number; readonly header: Header; readonly hash: Bytes } | undefined
  /** An End or the target index confirms that no flashblock is missing. */
  isProven: boolean
  /** The canonical block that equals this block, or for which this block was executed. */
  canonicalBlock: UpstreamBlock | undefined
  /** The block was executed from its source alone, and is no head until it is canonical. */
  readonly isFullBlock: boolean
  /** The End as a feed sent it, until it is relayed; undefined: none has come. */
  endFrame: Bytes | undefined
  /** The End was relayed, or would not be true. */
  isEndOver: boolean
  /** Flashblocks that are in no snapshot yet; empty without readers of the enriched feed. */
  readonly unpublished: UnpublishedFlashblock[]
}
export type UnpublishedFlashblock = {
  readonly index: number
  readonly header: Header
  readonly hash: Bytes
  readonly diff: StateDiff
  readonly transactions: readonly ExecutedTransaction[]
}
export type OpenPart = {
  readonly execution: SpeculativeExecution
  /** The state after the parent. */
  readonly reader: StateReader
  /** Ends the execution, and the lease of the parent's state. */
  release(): void
}
export type Content = {
  readonly attributes: BlockAttributes
  readonly sums: BlockSums
  readonly rules: BlockExecution['rules']
  readonly executed: readonly ExecutedTransaction[]
  readonly diff: StateDiff
}

/**
 * Makes a block at its start, or from the store. Before its first increment it has its parent's
 * header.
 */
export const newBlock = (
  event: 'start' | 'recover' | 'find',
  fields: Pick<LiveBlock, 'handle' | 'parent' | 'header' | 'hash'> &
    Partial<Omit<LiveBlock, 'state'>>,
): LiveBlock => ({
  state: nextState('none', event),
  payloadId: undefined,
  feed: undefined,
  open: undefined,
  content: undefined,
  partialHeaders: [],
  index: -1,
  executeMs: 0,
  rootsDue: 0,
  rootIndex: -1,
  prefix: undefined,
  isProven: false,
  canonicalBlock: undefined,
  isFullBlock: false,
  endFrame: undefined,
  isEndOver: false,
  unpublished: [],
  ...fields,
})

export function step(block: LiveBlock, event: BlockEvent): void {
  block.state = nextState(block.state, event)
}

/**
 * Opens the execution of a block on a finished parent, without starting it.
 * @throws {ViewError} when the parent's state is gone
 */
export function openExecution(
  {
    options: context,
  }: {
    readonly options: {
      readonly chain: ChainSpec
      readonly engine: Engine
      readonly reader: ChainReader
    }
  },
  parent: Bytes,
  attributes: BlockAttributes,
): OpenPart {
  const lease = context.reader.lease('flashblocks')
  try {
    const block = lease.view.block({ hash: parent, requireCanonical: false })
    if (block === undefined) throw new Error('the parent of a block is in no view')
    const reader = lease.view.state(block)
    const { engine, chain } = context
    const execution = allowSpeculation(
      openBlock({
        engine,
        chain,
        reader,
        attributes: attributesAfter(chain, block.header, attributes),
      }),
    )
    return {
      execution,
      reader,
      release() {
        execution.close()
        lease.release()
      },
    }
  } catch (error) {
    lease.release()
    throw error
  }
}

/**
 * Decodes and executes transactions in order until one does not fit into the block.
 * @param options `from` is the first to execute, `senderOf` gives known senders
 */
export async function executeAll(
  execution: BlockExecution,
  transactions: readonly Bytes[],
  { from = 0, senderOf }: { readonly from?: number; readonly senderOf?: SenderOf } = {},
): Promise<Mismatch | undefined> {
  for (const [at, raw] of transactions.entries()) {
    if (at < from) continue
    const unknown = unknownType(raw)
    if (unknown !== undefined) return wrongType(unknown, at)
    const transaction = decodeOne(raw, senderOf)
    if ('error' in transaction) return mismatch('transaction', transaction.error, `number ${at}`)
    if (!execution.rules.hasEdits && isEdit(transaction))
      return mismatch(EDIT, 'no rule', 'made by hand, as on development chains')
    if (isSigned(transaction) && !isTypeKnown(transaction, execution.rules))
      return wrongType(transaction.type, at)
    const result = await execution.execute(transaction)
    if (result.status === 'invalid')
      return mismatch('transaction', result.reason.message, `number ${at}`)
    if (result.status === 'stopped') throw new Error('an execution without limits was stopped')
  }
  return undefined
}

const wrongType = (type: number, at: number): Mismatch =>
  mismatch(TYPE, 'not supported', `0x${type.toString(16)} of transaction ${at}`)

/** Builds the header of the transactions so far. */
export function headerOf(
  from: Pick<Content, 'attributes' | 'sums' | 'rules'>,
  roots: { readonly stateRoot: Bytes; readonly withdrawalsRoot: Bytes | undefined },
): { readonly header: Header; readonly hash: Bytes } {
  const header = buildHeader({ ...from, ...roots })
  return { header, hash: hashHeader(header) }
}

export const contentOf = async (execution: BlockExecution): Promise<Content> => ({
  attributes: execution.attributes,
  sums: execution.sums(),
  rules: execution.rules,
  executed: [...execution.executed],
  diff: await execution.diff(),
})

/** Compares a canonical block's transactions with ours; `longer`: ours are the first of them. */
export function compareTransactions(
  executed: readonly ExecutedTransaction[],
  upstreamBlock: UpstreamBlock,
): 'equal' | 'longer' | 'different' {
  if (executed.length > upstreamBlock.transactions.length) return 'different'
  const isPrefix = executed.every(({ transaction }, at) =>
    equalBytes(transaction.raw, upstreamBlock.transactions[at]!),
  )
  if (!isPrefix) return 'different'
  return executed.length === upstreamBlock.transactions.length ? 'equal' : 'longer'
}

/** Returns a complete block in the form that the persistence thread takes. */
export function appendOf(block: LiveBlock): AppendBlock {
  const { content, handle, parent } = block
  if (content === undefined || parent === undefined)
    throw new Error(`block ${handle.number} has nothing to append`)
  return {
    id: handle.id,
    parentId: parent.handle.id,
    number: handle.number,
    hash: block.hash,
    parentHash: block.header.parentHash,
    header: encodeHeader(block.header),
    transactions: content.executed.map(({ transaction: { raw, from, hash } }) => ({
      raw,
      from,
      hash,
    })),
    receipts: content.executed.map(storedReceiptOf),
    diff: encodeDiff(content.diff),
    partialHeaders: block.partialHeaders,
  }
}

/** Decodes a transaction, and returns a decoding error instead of throwing it. */
function decodeOne(
  raw: Bytes,
  senderOf: SenderOf | undefined,
): Transaction | { readonly error: string } {
  try {
    return decodeTransaction(raw, senderOf)
  } catch (error) {
    if (error instanceof TransactionError) return { error: error.message }
    throw error
  }
}

/** A block that the writer holds: from its first transaction until it is folded. */
import { type BlockEvent, type BlockState, nextState } from '../../chain/life.ts'
import type { ChainReader, SealedBlock } from '../../chain/types.ts'
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import { type AheadExecution, allowAhead } from '../../execution/block/ahead.ts'
import { buildHeader, openBlock } from '../../execution/block/block.ts'
import { isEdit } from '../../execution/transaction/edits.ts'
import { storedReceiptOf } from '../../execution/transaction/stored-receipt.ts'
import type {
  BlockAttributes,
  BlockExecution,
  BlockSums,
  ExecutedTransaction,
} from '../../execution/transaction/types.ts'
import { isTypeKnown } from '../../execution/transaction/validation.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { encodeHeader, hashHeader } from '../../primitives/header-codec.ts'
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
import type { AppendBlock, MomentaryHeader } from '../../storage/types.ts'
import type { BlockHandle } from '../../views/types.ts'
import { attributesAfter } from '../base-attributes.ts'
import { EDIT, type Mismatch, mismatch, TYPE } from './checks.ts'

export type LiveBlock = {
  readonly handle: BlockHandle
  /** undefined from the fold on: nothing walks below the base. */
  parent: LiveBlock | undefined
  state: BlockState
  readonly payloadId: string | undefined
  /** The feed that brought its first flashblock; undefined: none did. */
  readonly feed: number | undefined
  /** Of the newest prefix, then final. */
  header: Header
  hash: Bytes
  /** While transactions may still come. */
  open: OpenPart | undefined
  /** From the end on until the keeper has it. */
  content: Content | undefined
  readonly momentary: MomentaryHeader[]
  /** Newest flashblock index. */
  index: number
  executeMs: number
  /** Answers of the keeper that are under way, and the flashblock at which the last was asked for. */
  rootsDue: number
  rootIndex: number
  /** What it would be as a whole block, as of a flashblock. */
  prefix: { readonly index: number; readonly header: Header; readonly hash: Bytes } | undefined
  /** Its End or target index said that all is there; no hole is left. */
  isProven: boolean
  /** The canonical block that it was found equal to, or executed for. */
  sealed: SealedBlock | undefined
  /** Executed for its source alone: no head until it is canonical. */
  readonly isWhole: boolean
  /** Its End as a feed sent it, until it is relayed; undefined: none has come. */
  endFrame: Bytes | undefined
  /** Its End was relayed, or would not be true. */
  isEndOver: boolean
  /** Flashblocks that no record has shown; empty where nobody wants to know. */
  readonly untold: Untold[]
}
/** A flashblock of it that no record has shown yet. */
export type Untold = {
  readonly index: number
  readonly header: Header
  readonly hash: Bytes
  readonly diff: StateDiff
  readonly transactions: readonly ExecutedTransaction[]
}
export type OpenPart = {
  readonly execution: AheadExecution
  /** The state at the parent. */
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

/** A block as it begins, or as the store has it. Until its first increment it shows its parent's header. */
export const newBlock = (
  event: 'begin' | 'recover' | 'find',
  fields: Pick<LiveBlock, 'handle' | 'parent' | 'header' | 'hash'> &
    Partial<Omit<LiveBlock, 'state'>>,
): LiveBlock => ({
  state: nextState('none', event),
  payloadId: undefined,
  feed: undefined,
  open: undefined,
  content: undefined,
  momentary: [],
  index: -1,
  executeMs: 0,
  rootsDue: 0,
  rootIndex: -1,
  prefix: undefined,
  isProven: false,
  sealed: undefined,
  isWhole: false,
  endFrame: undefined,
  isEndOver: false,
  untold: [],
  ...fields,
})

export function step(block: LiveBlock, event: BlockEvent): void {
  block.state = nextState(block.state, event)
}

/**
 * Opens the execution of a block on the state of a finished one; not yet begun.
 * @throws {ViewError} when that state is gone
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
    const execution = allowAhead(
      openBlock({
        ...{ engine, chain, reader },
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

/** Decodes and executes in order, those from `from` on; the first that does not fit into the block ends it. `senderOf`: those that are known. */
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

/** The header of the transactions so far. */
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

/** How a canonical block's transactions stand to those of ours: `longer` when ours are the first of them. */
export function compareTransactions(
  executed: readonly ExecutedTransaction[],
  sealed: SealedBlock,
): 'equal' | 'longer' | 'different' {
  if (executed.length > sealed.transactions.length) return 'different'
  const isPrefix = executed.every(({ transaction }, at) =>
    equalBytes(transaction.raw, sealed.transactions[at]!),
  )
  if (!isPrefix) return 'different'
  return executed.length === sealed.transactions.length ? 'equal' : 'longer'
}

/** A complete block as the keeper takes it. */
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
    momentary: block.momentary,
  }
}

/** What is no transaction is told, not thrown. */
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

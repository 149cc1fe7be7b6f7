/**
 * The driver first builds blocks flashblock by flashblock into the publisher's diff layers. It then
 * builds them in the form that the persistence thread needs.
 */
import type { ExecutedTransaction } from '../../engine/execution/transaction/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { encodeHeader } from '../../engine/primitives/header.ts'
import { encodeStoredReceipt } from '../../engine/primitives/receipt-codec.ts'
import { ZERO_32 } from '../../engine/primitives/words.ts'
import { encodeDiff } from '../../engine/state/diff-codec.ts'
import type { AppendBlock, PartialHeader } from '../../engine/storage/types.ts'
import type { BlockHandle, Publisher } from '../../engine/views/types.ts'
import { executedOf, headerAt, transactionsIn } from './content.ts'
import { FINAL_STEP, hashOf, recordFinal, recordStep } from './ledger.ts'
import type { Truth } from './truth.ts'
import { applyWrites, diffOf, EMPTY_WORLD, stateRootOf, type World } from './world.ts'

export type Block = {
  /** An unwind to the block gives it a new handle. */
  handle: BlockHandle
  readonly salt: number
  readonly number: number
  parent: Block | undefined
  /** The block came in full from its source. */
  readonly isFullBlock: boolean
  /** Flashblocks that the block shall get; `steps` counts those that it has. */
  readonly target: number
  steps: number
  /** World after the newest flashblock. */
  world: World
  executed: readonly ExecutedTransaction[]
  partialHeaders: readonly PartialHeader[]
  /** RLP of the final header, and its hash. */
  header: Bytes
  final: Bytes | undefined
}

export const genesisBlock = (handle: BlockHandle, hash: Bytes): Block => ({
  handle,
  salt: 1,
  number: handle.number,
  parent: undefined,
  isFullBlock: true,
  target: 0,
  steps: 0,
  world: EMPTY_WORLD,
  executed: [],
  partialHeaders: [],
  header: new Uint8Array(0),
  final: hash,
})

/** Adds one flashblock. 'full': nothing has changed. */
export function growBlock(publisher: Publisher, truth: Truth, block: Block): 'added' | 'full' {
  const { ledger } = truth
  const { salt, steps: step } = block
  const world = applyWrites(block.world, truth.writes(salt, step))
  const fresh = Array.from({ length: transactionsIn(ledger, salt, step) }, (_, index) =>
    executedOf(ledger, { salt, step }, index),
  )
  const executed = [...block.executed, ...fresh]
  const { header, hash } = headerAt(ledger, { salt, step }, { stateRoot: ZERO_32, executed })
  const diff = diffOf(block.world, world, block.parent!.world)
  const increment = { index: step, diff, header, hash, transactions: fresh }
  if (publisher.add(block.handle, increment) === 'full') return 'full'
  block.world = world
  block.executed = executed
  block.steps++
  if (!block.isFullBlock) {
    const partialHeader = { hash, header: encodeHeader(header), index: step }
    block.partialHeaders = [
      ...block.partialHeaders,
      { ...partialHeader, transactionCount: executed.length },
    ]
  }
  recordStep(ledger, salt, hash)
  return 'added'
}

/** Adds the final header and hash. */
export function finishBlock(publisher: Publisher, truth: Truth, block: Block): 'added' | 'full' {
  const { salt, executed } = block
  const stateRoot = stateRootOf(block.world)
  const { header, hash } = headerAt(
    truth.ledger,
    { salt, step: FINAL_STEP },
    { stateRoot, executed },
  )
  if (publisher.finish(block.handle, header, hash) === 'full') return 'full'
  block.header = encodeHeader(header)
  block.final = hash
  recordFinal(truth.ledger, salt, hash)
  return 'added'
}

export function appendOf({ ledger }: Truth, block: Block): AppendBlock {
  const parent = block.parent!
  return {
    id: block.handle.id,
    parentId: parent.handle.id,
    number: block.number,
    hash: block.final!,
    parentHash: hashOf(ledger, parent.salt, FINAL_STEP),
    header: block.header,
    transactions: block.executed.map(({ transaction: { raw, from, hash } }) => ({
      raw,
      from,
      hash,
    })),
    receipts: block.executed.map(({ receipt }) => encodeStoredReceipt(receipt)),
    diff: encodeDiff(diffOf(parent.world, block.world, parent.world)),
    partialHeaders: block.partialHeaders,
  }
}

/** Returns whether `block` is `ancestor` or stands on it. */
export function isOn(block: Block, ancestor: Block): boolean {
  let at: Block | undefined = block
  while (at !== undefined && at.number > ancestor.number) at = at.parent
  return at === ancestor
}

/**
 * A flashblock is executed, checked, added to its block's diff layer and published. A failure
 * changes nothing.
 */
import { postExecIn } from '../../execution/transaction/post-exec.ts'
import type { Sequence } from '../../flashblocks/sequence.ts'
import type { Flashblock } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import { attributesOf } from '../base-attributes.ts'
import {
  checkAttributes,
  checkDelta,
  checkFirstTransaction,
  checkPostExec,
  differ,
  differKnown,
  type Mismatch,
} from './checks.ts'
import { hasOthers, relayFlashblock } from './feeds.ts'
import { executeAll, headerOf, type LiveBlock, newBlock, openExecution } from './live-block.ts'
import { reportPayload, reportPromised } from './promised.ts'
import type { Received } from './reorder-buffer.ts'
import {
  addIncrement,
  addPostExec,
  discard,
  end,
  isRestated,
  partsOf,
  reexecute,
  reopen,
} from './steps.ts'
import { stateAfter, withPrefetch } from './waits.ts'
import { count, emit, flush, freeMemory, publish, type WriterState, warn } from './writer-state.ts'

export type FlashblockPacket = Received & { readonly message: Flashblock }

const MAX_WRONG = 64

/**
 * Starts a block with index 0 on a finished parent.
 * @throws {MissingError} with nothing changed
 * @throws {ViewError} with nothing changed
 */
export async function start(
  state: WriterState,
  packet: FlashblockPacket,
  { parent, sequence }: { readonly parent: LiveBlock; readonly sequence: Sequence },
): Promise<void> {
  const { chain, publisher } = state.options
  const { message } = packet
  const startedMs = state.options.now()
  const attributes = attributesOf(message.base!)
  const wrong =
    (message.blockNumber === undefined
      ? undefined
      : differ('metadataNumber', attributes.number, message.blockNumber)) ??
    checkAttributes(chain, parent, attributes)
  if (wrong !== undefined) return giveUp(state, packet, { wrong, sequence })
  const open = openExecution(state, parent.hash, attributes)
  const block = newBlock('start', {
    handle: publisher.start(parent.handle, message.payloadId),
    parent,
    payloadId: message.payloadId,
    feed: packet.feed,
    header: parent.header,
    hash: parent.hash,
    open,
  })
  const run = () => executeFlashblock(state, block, { message, startedMs })
  const { transactions } = message.delta
  const isReplacing = state.chain.pending !== parent
  if (!(await replaceWith(state, packet, { block, sequence, run, transactions }))) return
  state.early.clear()
  if (isReplacing) count(state, 'payload_replaced')
  await makeVisible(state, block, { packet, startedMs, from: 0 })
}

/**
 * Executes a block that replaces everything above its parent.
 * @param next `transactions` are all of the block
 * @returns false with nothing changed
 * @throws {MissingError} with nothing changed
 * @throws {ViewError} with nothing changed
 */
async function replaceWith(
  state: WriterState,
  packet: FlashblockPacket,
  next: {
    readonly block: LiveBlock
    readonly sequence: Sequence
    readonly run: () => Promise<Mismatch | 'full' | undefined>
    readonly transactions: readonly Bytes[]
  },
): Promise<boolean> {
  const { block, sequence, transactions } = next
  const open = block.open!
  const { attributes } = open.execution
  let failed: Mismatch | 'full' | undefined = 'full'
  try {
    failed = await withPrefetch(state, next.run, async () => ({
      ...open,
      attributes,
      starts: true,
      transactions,
    }))
  } finally {
    if (failed !== undefined) discard(state, block)
  }
  if (failed === 'full') freeMemory(state)
  else if (failed !== undefined) giveUp(state, packet, { wrong: failed, sequence })
  if (failed !== undefined) return false
  const { chain } = state
  const parent = block.parent!
  state.sequence = sequence
  if (chain.pending !== parent) chain.cutAbove(parent)
  chain.add(block)
  chain.pending = block
  return true
}

/**
 * Executes the due flashblock after the visible ones again, because new refunds change gas,
 * receipts and balances.
 */
async function restate(
  state: WriterState,
  packet: FlashblockPacket,
  sequence: Sequence,
): Promise<void> {
  const startedMs = state.options.now()
  const { message } = packet
  const before = state.chain.pending
  const { attributes, rules, executed } = before.open!.execution
  const postExec = postExecIn(message.delta.postExec)
  const wrong = checkPostExec(attributes, rules, postExec)
  if (wrong !== undefined) return giveUp(state, packet, { wrong, sequence })
  const block = reopen(state, before, postExec)
  const visible = executed.map(({ transaction }) => transaction.raw)
  const transactions = [...visible, ...message.delta.transactions]
  const run = async () =>
    (await reexecute(state, block, before)) ??
    (await executeFlashblock(state, block, { message, startedMs }))
  if (!(await replaceWith(state, packet, { block, sequence, run, transactions }))) return
  count(state, 'refunds_restated')
  await makeVisible(state, block, { packet, startedMs, from: visible.length })
}

/**
 * Executes the due index of the payload in progress.
 * @throws {MissingError} with nothing changed
 * @throws {ViewError} with nothing changed
 */
export async function extend(
  state: WriterState,
  packet: FlashblockPacket,
  sequence: Sequence,
): Promise<void> {
  const { message } = packet
  const block = state.chain.pending
  const { open } = block
  if (open === undefined || block.payloadId !== message.payloadId)
    throw new Error(
      `flashblock ${message.index} of ${message.payloadId} is due, and pending is another block`,
    )
  const startedMs = state.options.now()
  const { execution } = open
  if (isRestated(execution, message)) return restate(state, packet, sequence)
  const from = execution.executed.length
  const checkpoint = execution.checkpoint()
  const { postExec } = execution.attributes
  let failed: Mismatch | 'full' | undefined = 'full'
  try {
    failed = await withPrefetch(
      state,
      () => executeFlashblock(state, block, { message, startedMs }),
      async () => {
        execution.revert(checkpoint)
        const reader = await stateAfter(execution, open.reader)
        const { transactions } = message.delta
        return { reader, attributes: execution.attributes, starts: false, transactions }
      },
    )
  } finally {
    if (failed !== undefined) {
      execution.revert(checkpoint)
      execution.refund(postExec)
    }
  }
  if (failed === 'full') return freeMemory(state)
  if (failed !== undefined) return giveUp(state, packet, { wrong: failed, sequence })
  state.sequence = sequence
  await makeVisible(state, block, { packet, startedMs, from })
}

/**
 * Executes the new transactions. Compares every sum first and then the hash, which depends on all
 * of them.
 */
async function executeFlashblock(
  state: WriterState,
  block: LiveBlock,
  { message, startedMs }: { readonly message: Flashblock; readonly startedMs: number },
): Promise<Mismatch | 'full' | undefined> {
  const { execution } = block.open!
  const { delta, index } = message
  const postExec = postExecIn(delta.postExec)
  const early = checkPostExec(execution.attributes, execution.rules, postExec)
  if (early !== undefined) return early
  if (!execution.refund(postExec)) throw new Error('refunds of earlier transactions are others')
  const checkpoint = index === 0 ? undefined : execution.checkpoint()
  const from = execution.executed.length
  const wrong = (await executeNew(state, block, message)) ?? wrongOf(state, block, message)
  if (wrong !== undefined) return wrong
  const partial = headerSoFar(block, message)
  const diff = await execution.diff(checkpoint)
  block.executeMs += state.options.now() - startedMs
  if (addIncrement(state, block, { index, ...partial, diff, from }) === 'full') return 'full'
  count(state, 'flashblock_executed')
  return undefined
}

/** Executes the transactions that were not executed speculatively. */
async function executeNew(
  state: WriterState,
  block: LiveBlock,
  { delta, index }: Flashblock,
): Promise<Mismatch | undefined> {
  const { execution } = block.open!
  if (index === 0) await execution.start()
  const { speculated } = execution
  const taken = state.expected.take(execution, delta.transactions)
  if (taken > 0) count(state, 'ahead_taken', taken)
  if (speculated > taken) count(state, 'ahead_undone', speculated - taken)
  const { senderOf } = state.expected
  return executeAll(execution, delta.transactions, { from: taken, senderOf })
}

function wrongOf(state: WriterState, block: LiveBlock, message: Flashblock): Mismatch | undefined {
  const { execution } = block.open!
  const { attributes } = execution
  const { delta, index } = message
  const isPlain = attributes.postExec === undefined
  return (
    (index === 0
      ? checkFirstTransaction(state.options.chain, attributes, execution.executed[0]?.transaction)
      : undefined) ??
    checkDelta(execution.sums(), delta, isPlain) ??
    (isPlain
      ? differKnown('blockHash', headerSoFar(block, message).hash, delta.blockHash)
      : undefined)
  )
}

/**
 * Returns the partial header and its hash. Roots are zero unless a compared hash covers them:
 * subblocks have no hash, and refunds prevent the comparison. Followers of the same feed thus get
 * the same partial header.
 */
function headerSoFar(block: LiveBlock, { delta }: Flashblock) {
  const isCovered = delta.blockHash !== undefined && delta.postExec === undefined
  const { stateRoot = ZERO_32, withdrawalsRoot = ZERO_32 } = isCovered ? delta : {}
  return headerOf(partsOf(block), { stateRoot, withdrawalsRoot })
}

async function makeVisible(
  state: WriterState,
  block: LiveBlock,
  {
    packet,
    startedMs,
    from,
  }: { readonly packet: Received; readonly startedMs: number; readonly from: number },
): Promise<void> {
  const executed = block.open!.execution.executed.slice(from)
  const now = state.options.now()
  const transactions = executed.map(({ transaction }) => transaction.hash)
  state.executedAtMs = now
  state.blocksWithoutFeed = 0
  if (block.index > 0) state.expected.settle(transactions)
  publish(state, {
    transactions,
    publishMs: now - packet.receivedAtMs,
    executeMs: now - startedMs,
  })
  reportPayload(state, block)
  reportPromised(state, block, from)
  if (state.options.emitsExecuted === true) emit(state, { type: 'executed', packet })
  relayFlashblock(state, block, packet)
  await endIfComplete(state)
}

/** Ends the pending block if its payload is complete. */
export async function endIfComplete(state: WriterState): Promise<void> {
  const { pending } = state.chain
  const { payload } = state.sequence
  if (payload?.isComplete !== true || payload.payloadId !== pending.payloadId) return
  if (pending.state !== 'open') return
  const { postExec } = pending.open!.execution.attributes
  const startedMs = state.options.now()
  if (!(await addPostExec(state, pending))) return
  pending.isProven = true
  // The transaction is reported here, because a persist pass may write the next snapshot without a
  // report.
  if (postExec !== undefined)
    publish(state, {
      transactions: [postExec.hash],
      publishMs: 0,
      executeMs: state.options.now() - startedMs,
    })
  await end(state, pending)
}

/**
 * Handles a mismatch of feed and execution; the canonical block will decide. With another feed
 * connected, earlier flashblocks stay and this digest is ignored.
 */
function giveUp(
  state: WriterState,
  { feed, digest, message }: FlashblockPacket,
  { wrong, sequence }: { readonly wrong: Mismatch; readonly sequence: Sequence },
): void {
  const { kind, ours, theirs } = wrong
  const number =
    message.base?.blockNumber ?? message.blockNumber ?? state.chain.pending.handle.number
  warn(
    state,
    `mismatch_${toUnderscores(kind)}`,
    `block ${number}, payload ${message.payloadId} index ${message.index}: ${kind} is ${ours} here, ${theirs} in the feed`,
  )
  if (hasOthers(state, feed)) {
    state.wrongDigests.push(digest)
    if (state.wrongDigests.length > MAX_WRONG) state.wrongDigests.shift()
    return
  }
  state.sequence = sequence
  flush(state)
}

export const toUnderscores = (name: string) =>
  name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

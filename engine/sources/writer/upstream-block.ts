/**
 * Canonical side of the writer: upstream blocks are matched with ours, or executed as full blocks.
 */
import type { UpstreamBlock } from '../../chain/types.ts'
import { postExecIn } from '../../execution/transaction/post-exec.ts'
import { dropPayload, isOver } from '../../flashblocks/sequence.ts'
import { decodeHeader, type Header } from '../../primitives/header.ts'
import { orderedRoot } from '../../primitives/ordered-root.ts'
import { equalBytes } from '../../primitives/words.ts'
import { MissingError } from '../../state/reader.ts'
import type { StoreReader } from '../../storage/types.ts'
import {
  checkHeader,
  checkUpstreamAttributes,
  checkUpstreamSums,
  DETACHED,
  differ,
  FULL,
  type Mismatch,
  STATE,
} from './checks.ts'
import { finish } from './ends.ts'
import { isAnyConnected, overEnd } from './feeds.ts'
import { executeFullBlock, rootsOf } from './full-block.ts'
import { compareTransactions, executeAll, headerOf, type LiveBlock } from './live-block.ts'
import { decidedParent } from './recover.ts'
import { addRemainder, close, end, partsOf } from './steps.ts'
import { halt, noMemory, submitForPersistence } from './submit.ts'
import { requestState, stateAfter, withPrefetch } from './waits.ts'
import {
  count,
  emit,
  publish,
  type QueuedBlock,
  type WriterState,
  wakeAt,
  warn,
} from './writer-state.ts'

/**
 * Queues a canonical block. With a full queue, a source that can send the block again gets it back.
 */
export function queueUpstreamBlock(state: WriterState, block: UpstreamBlock): void {
  const { hash, number } = block
  if (state.upstreamBlocks.length < state.limits.sealedBlocks)
    state.upstreamBlocks.push({ block, arrivedAtMs: state.options.now() })
  else if (hash !== undefined) emit(state, { type: 'refused', number, hash, field: FULL })
  else halt(state, block, 'too many canonical blocks wait: the newest is left out')
}

/**
 * Advances the oldest waiting canonical block by one step.
 * @returns false when the block has to wait
 * @throws {ViewError}
 */
export async function tryUpstreamBlock(state: WriterState): Promise<boolean> {
  const next = state.upstreamBlocks[0]
  const isBusy =
    state.submitted !== undefined ||
    state.fullBlock !== undefined ||
    state.rewind?.isRequested === true
  if (next === undefined || isBusy || state.failure !== undefined) return false
  if (state.options.now() < state.retryAtMs) return wait(state, state.retryAtMs)
  const { chain, limits, blockWait } = state
  const unpersisted = chain.canonical.handle.number - chain.base.handle.number
  if (unpersisted >= limits.foldDepth + limits.backlog) return false
  if (blockWait?.event === next && !blockWait.isOver) {
    if (state.options.now() < blockWait.untilMs) return wait(state, blockWait.untilMs)
    return retryLater(state, next, 'no answer')
  }
  try {
    return await takeUpstreamBlock(state, next)
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    const before = blockWait?.event === next ? blockWait : undefined
    const event = { event: next, before }
    state.blockWait = requestState(state, event, { missing: error, purpose: 'canonical' })
    return state.blockWait === undefined
      ? retryLater(state, next, `not at hand: ${error.what}`)
      : false
  }
}

/** Takes the outcome of the request for the oldest canonical block's state. */
export function onUpstreamBlockFetched(state: WriterState, failed: string | undefined): void {
  const { blockWait } = state
  if (blockWait === undefined) return
  if (failed === undefined) state.blockWait = { ...blockWait, isOver: true }
  else retryLater(state, blockWait.event, failed)
}

/**
 * Schedules a retry, which will find the keys fetched so far. After `fetchRetries` its source is
 * asked again, because of a possible reorg.
 */
function retryLater(state: WriterState, next: QueuedBlock, why: string): false {
  const { block } = next
  const { number, hash } = block
  state.blockWait = undefined
  state.retryAtMs = state.options.now() + state.limits.fetchBackoffMs
  warn(state, 'sealed_unfetched', `canonical block ${number}: its state is missing, ${why}`)
  next.retries = (next.retries ?? 0) + 1
  if (hash !== undefined && next.retries >= state.limits.fetchRetries) {
    state.upstreamBlocks.length = 0
    emit(state, { type: 'refused', number, hash, field: STATE })
  }
  return wait(state, state.retryAtMs)
}

async function takeUpstreamBlock(state: WriterState, next: QueuedBlock): Promise<boolean> {
  const { chain } = state
  if (isKnown(state, next.block)) {
    state.upstreamBlocks.shift()
    count(state, 'sealed_known')
    return true
  }
  if (isDetached(state, next.block)) {
    state.upstreamBlocks.shift()
    count(state, 'sealed_detached')
    return true
  }
  const candidate = chain.speculative(next.block.number)
  const outcome =
    candidate === undefined
      ? whileOnItsWay(state, next)
      : await useCandidate(state, candidate, next)
  if (outcome !== 'different') return outcome === 'progress'
  const { hash, number, parentHash } = next.block
  if (hash !== undefined && decidedParent(state, parentHash) === undefined) {
    state.upstreamBlocks.shift()
    count(state, 'sealed_detached')
    emit(state, { type: 'refused', number, hash, field: DETACHED })
  } else await executeFullBlock(state, next.block)
  return true
}

type Outcome = 'progress' | 'wait' | 'different'

async function useCandidate(
  state: WriterState,
  candidate: LiveBlock,
  next: QueuedBlock,
): Promise<Outcome> {
  const { block } = next
  if (checkUpstreamAttributes(candidate.header, block) !== undefined) return 'different'
  const executed = candidate.open?.execution.executed ?? candidate.content?.executed ?? []
  const relation = compareTransactions(executed, block)
  if (relation === 'different') return 'different'
  if (relation === 'longer') {
    if (candidate.state !== 'open') return 'different'
    // The last transaction of a block with refunds is in no flashblock.
    const rest = block.transactions.slice(executed.length)
    const isComplete = rest.length === 1 && postExecIn(rest[0]) !== undefined
    if (!isComplete && whileOnItsWay(state, next) === 'wait') return 'wait'
    if (!(await extendTo(state, candidate, block))) return 'different'
  } else if (checkKnown(candidate, block) !== undefined) return 'different'
  const isOpen = candidate.state === 'open'
  candidate.canonicalBlock = block
  // Further flashblocks of the block are not needed any more.
  if (isOpen) state.sequence = dropPayload(state.sequence)
  if (state.options.isLazy === true) return settle(state, candidate, block)
  if (isOpen) {
    await end(state, candidate)
    return 'progress'
  }
  if (candidate.state === 'ended') return 'wait'
  submitForPersistence(state, candidate, block)
  return 'progress'
}

/**
 * Decides a block without a trie, with roots from the source. Blocks built on another hash had the
 * wrong parent.
 */
async function settle(
  state: WriterState,
  block: LiveBlock,
  upstreamBlock: UpstreamBlock,
): Promise<Outcome> {
  const roots = rootsOf(upstreamBlock)
  if (roots === undefined) return 'different'
  if (block.state === 'open') await close(state, block)
  const { header, hash } = headerOf(partsOf(block), roots)
  if (block.state === 'ended') {
    finish(state, block, { header, hash })
    return 'progress'
  }
  if (!equalBytes(block.hash, hash)) return 'different'
  if (!equalBytes(block.header.stateRoot, header.stateRoot)) {
    if (state.options.publisher.settle(block.handle, header) === 'full') {
      noMemory(state, block)
      return 'wait'
    }
    block.header = header
  }
  submitForPersistence(state, block, upstreamBlock)
  return 'progress'
}

/** Compares everything that is known before the persistence thread's roots. */
function checkKnown(block: LiveBlock, upstreamBlock: UpstreamBlock): Mismatch | undefined {
  const parts = partsOf(block)
  const roots = rootsOf(upstreamBlock)
  return (
    checkUpstreamSums(parts.sums, upstreamBlock) ??
    (roots === undefined ? undefined : checkHeader(headerOf(parts, roots), upstreamBlock))
  )
}

/**
 * Executes the transactions that the feed did not bring, as one more flashblock.
 * @returns false when the result differs from the canonical block
 */
async function extendTo(
  state: WriterState,
  block: LiveBlock,
  upstreamBlock: UpstreamBlock,
): Promise<boolean> {
  const { execution, reader } = block.open!
  const startedMs = state.options.now()
  const from = execution.executed.length
  const { postExec } = execution.attributes
  if (!execution.refund(postExecIn(upstreamBlock.transactions.at(-1)))) return false
  const checkpoint = execution.checkpoint()
  const transactions = upstreamBlock.transactions.slice(from)
  let isDone = false
  try {
    const wrong = await withPrefetch(
      state,
      async () => (await executeAll(execution, transactions)) ?? checkKnown(block, upstreamBlock),
      async () => {
        execution.revert(checkpoint)
        const { attributes } = execution
        return {
          reader: await stateAfter(execution, reader),
          attributes,
          starts: false,
          transactions,
        }
      },
    )
    isDone = wrong === undefined && (await addRemainder(state, block, checkpoint))
  } finally {
    if (!isDone) {
      execution.revert(checkpoint)
      execution.refund(postExec)
    }
  }
  if (!isDone) return false
  overEnd(block)
  block.executeMs += state.options.now() - startedMs
  count(state, 'sealed_completed_flashblocks')
  publish(state, {
    transactions: execution.executed.slice(from).map(({ transaction }) => transaction.hash),
    publishMs: 0,
    executeMs: state.options.now() - startedMs,
  })
  return true
}

/**
 * Whether flashblocks of the block may still arrive, because they take another path than the
 * canonical block.
 */
function whileOnItsWay(state: WriterState, { block, arrivedAtMs }: QueuedBlock): Outcome {
  const { chain, limits, sequence } = state
  const untilMs = arrivedAtMs + limits.sealedGraceMs
  const next =
    chain.pending === chain.complete
      ? chain.complete.handle.number + 1
      : chain.pending.handle.number
  const isExpected =
    isAnyConnected(state) &&
    state.blocksWithoutFeed < limits.silentBlocks &&
    block.number === next &&
    state.buffered.size === 0 &&
    !isOver(sequence, block.payloadId)
  if (!isExpected || state.options.now() >= untilMs) return 'different'
  wait(state, untilMs)
  return 'wait'
}

function wait(state: WriterState, ms: number): false {
  wakeAt(state, ms)
  return false
}

/**
 * Whether an earlier block is neither on the chain nor in the queue. The source sent this block
 * before it learned that the writer had dropped the earlier one. The source sends both again.
 * Heights reveal the gap here; when a reorg had the same height, only the parent hash reveals it
 * later.
 */
const isDetached = ({ chain }: WriterState, { hash, number }: UpstreamBlock): boolean =>
  hash !== undefined && number > chain.canonical.handle.number + 1

function isKnown(state: WriterState, upstreamBlock: UpstreamBlock): boolean {
  const { chain, options } = state
  if (upstreamBlock.number > chain.canonical.handle.number) return false
  const decided = chain.decided(upstreamBlock.number)
  const ours = decided?.header ?? storedHeader(options.store, upstreamBlock.number)
  const oursHash = decided?.hash ?? options.store.hashOfNumber(upstreamBlock.number)
  // A block that differs only in results of execution is another block. Only its execution can
  // refuse it.
  if (upstreamBlock.hash !== undefined && oursHash !== undefined)
    return equalBytes(oursHash, upstreamBlock.hash)
  if (ours === undefined) return upstreamBlock.number <= Number(options.chain.genesisNumber)
  const transactionsRoot = orderedRoot(upstreamBlock.transactions)
  return (
    checkUpstreamAttributes(ours, upstreamBlock) === undefined &&
    differ('transactionsRoot', ours.transactionsRoot, transactionsRoot) === undefined
  )
}

function storedHeader(store: StoreReader, number: number): Header | undefined {
  const hash = store.hashOfNumber(number)
  const header = hash && store.header(hash)
  return header && decodeHeader(header)
}

/** The canonical side of the writer: blocks that their source has decided are matched with ours, or executed whole. */
import type { SealedBlock } from '../../chain/types.ts'
import { postExecIn } from '../../execution/transaction/post-exec.ts'
import { dropPayload, isOver } from '../../flashblocks/sequence.ts'
import type { Header } from '../../primitives/header.ts'
import { decodeHeader } from '../../primitives/header-codec.ts'
import { orderedRoot } from '../../primitives/ordered-root.ts'
import { equalBytes } from '../../primitives/words.ts'
import { MissingError } from '../../state/reader.ts'
import type { StoreReader } from '../../storage/types.ts'
import {
  checkHeader,
  checkSealedAttributes,
  checkSealedSums,
  differ,
  FULL,
  type Mismatch,
  STATE,
} from './checks.ts'
import { finish } from './ends.ts'
import { isAnyConnected, overEnd } from './feeds.ts'
import { halt, handOver, noMemory } from './hand-over.ts'
import { compareTransactions, executeAll, headerOf, type LiveBlock } from './live-block.ts'
import { count, emit, publish, type QueuedBlock, type WriterState, wakeAt, warn } from './state.ts'
import { addRest, close, end, partsOf } from './steps.ts'
import { ask, stateAfter, withScout } from './waits.ts'
import { executeWhole, rootsOf } from './whole.ts'

/** A source that can send a block again gets back what does not fit. */
export function queueSealed(state: WriterState, block: SealedBlock): void {
  const { hash, number } = block
  if (state.sealed.length < state.limits.sealedBlocks)
    state.sealed.push({ block, arrivedAtMs: state.options.now() })
  else if (hash !== undefined) emit(state, { type: 'refused', number, hash, field: FULL })
  else halt(state, block, 'too many canonical blocks wait: the newest is left out')
}

/** Takes the oldest waiting canonical block one step on. False: it waits for something. @throws {ViewError} */
export async function trySealed(state: WriterState): Promise<boolean> {
  const next = state.sealed[0]
  const isBusy =
    state.handed !== undefined || state.whole !== undefined || state.rewind?.isAsked === true
  if (next === undefined || isBusy || state.failure !== undefined) return false
  if (state.options.now() < state.retryAtMs) return wait(state, state.retryAtMs)
  const { chain, limits, sealedWait } = state
  const unfolded = chain.canonical.handle.number - chain.base.handle.number
  if (unfolded >= limits.foldDepth + limits.backlog) return false
  if (sealedWait?.event === next && !sealedWait.isOver) {
    if (state.options.now() < sealedWait.untilMs) return wait(state, sealedWait.untilMs)
    return rest(state, next, 'no answer')
  }
  try {
    return await takeSealed(state, next)
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    const before = sealedWait?.event === next ? sealedWait : undefined
    const event = { event: next, before }
    state.sealedWait = ask(state, event, { missing: error, purpose: 'canonical' })
    return state.sealedWait === undefined ? rest(state, next, `not at hand: ${error.what}`) : false
  }
}

/** The state that the oldest canonical block waits for is there, or cannot be had now. */
export function onSealedFetched(state: WriterState, failed: string | undefined): void {
  const { sealedWait } = state
  if (sealedWait === undefined) return
  if (failed === undefined) state.sealedWait = { ...sealedWait, isOver: true }
  else rest(state, sealedWait.event, failed)
}

/** Keys that were fetched are there when it is tried again. In the end its source is asked again: it may have gone another way. */
function rest(state: WriterState, next: QueuedBlock, why: string): false {
  const { block } = next
  const { number, hash } = block
  state.sealedWait = undefined
  state.retryAtMs = state.options.now() + state.limits.fetchRestMs
  warn(state, 'sealed_unfetched', `canonical block ${number}: its state is missing, ${why}`)
  next.rests = (next.rests ?? 0) + 1
  if (hash !== undefined && next.rests >= state.limits.fetchRests) {
    state.sealed.length = 0
    emit(state, { type: 'refused', number, hash, field: STATE })
  }
  return wait(state, state.retryAtMs)
}

async function takeSealed(state: WriterState, next: QueuedBlock): Promise<boolean> {
  const { chain } = state
  if (isKnown(state, next.block)) {
    state.sealed.shift()
    count(state, 'sealed_known')
    return true
  }
  if (isDetached(state, next.block)) {
    state.sealed.shift()
    count(state, 'sealed_detached')
    return true
  }
  const candidate = chain.speculative(next.block.number)
  const outcome =
    candidate === undefined
      ? whileOnItsWay(state, next)
      : await useCandidate(state, candidate, next)
  if (outcome !== 'different') return outcome === 'progress'
  await executeWhole(state, next.block)
  return true
}

type Outcome = 'progress' | 'wait' | 'different'

async function useCandidate(
  state: WriterState,
  candidate: LiveBlock,
  next: QueuedBlock,
): Promise<Outcome> {
  const { block } = next
  if (checkSealedAttributes(candidate.header, block) !== undefined) return 'different'
  const executed = candidate.open?.execution.executed ?? candidate.content?.executed ?? []
  const relation = compareTransactions(executed, block)
  if (relation === 'different') return 'different'
  if (relation === 'longer') {
    if (candidate.state !== 'open') return 'different'
    // The last transaction of a block with refunds is in no flashblock.
    const rest = block.transactions.slice(executed.length)
    const isWhole = rest.length === 1 && postExecIn(rest[0]) !== undefined
    if (!isWhole && whileOnItsWay(state, next) === 'wait') return 'wait'
    if (!(await extendTo(state, candidate, block))) return 'different'
  } else if (checkKnown(candidate, block) !== undefined) return 'different'
  const isOpen = candidate.state === 'open'
  candidate.sealed = block
  // What the feed still has of it is not needed any more.
  if (isOpen) state.sequence = dropPayload(state.sequence)
  if (state.options.isLazy === true) return settle(state, candidate, block)
  if (isOpen) {
    await end(state, candidate)
    return 'progress'
  }
  if (candidate.state === 'ended') return 'wait'
  handOver(state, candidate, block)
  return 'progress'
}

/** Without a trie: roots are the source's. What stood on the block by another hash was wrong about its parent. */
async function settle(state: WriterState, block: LiveBlock, sealed: SealedBlock): Promise<Outcome> {
  const roots = rootsOf(sealed)
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
  handOver(state, block, sealed)
  return 'progress'
}

/** Everything that can be said before the keeper's roots are known. */
function checkKnown(block: LiveBlock, sealed: SealedBlock): Mismatch | undefined {
  const parts = partsOf(block)
  const roots = rootsOf(sealed)
  return (
    checkSealedSums(parts.sums, sealed) ??
    (roots === undefined ? undefined : checkHeader(headerOf(parts, roots), sealed))
  )
}

/** Executes the transactions that the feed did not bring, as one more flashblock. False: the result is not the canonical one. */
async function extendTo(
  state: WriterState,
  block: LiveBlock,
  sealed: SealedBlock,
): Promise<boolean> {
  const { execution, reader } = block.open!
  const startedMs = state.options.now()
  const from = execution.executed.length
  const { postExec } = execution.attributes
  if (!execution.refund(postExecIn(sealed.transactions.at(-1)))) return false
  const checkpoint = execution.checkpoint()
  const transactions = sealed.transactions.slice(from)
  let isDone = false
  try {
    const wrong = await withScout(
      state,
      async () => (await executeAll(execution, transactions)) ?? checkKnown(block, sealed),
      async () => {
        execution.revert(checkpoint)
        const { attributes } = execution
        return {
          reader: await stateAfter(execution, reader),
          attributes,
          begins: false,
          transactions,
        }
      },
    )
    isDone = wrong === undefined && (await addRest(state, block, checkpoint))
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

/** Whether flashblocks of the block may be under way still: it comes by another road than they do. */
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
    state.held.size === 0 &&
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
 * Whether a block before this one is neither here nor in the queue. Its source sent this one before
 * it heard that the writer had dropped the other one, and sends both again.
 */
const isDetached = ({ chain }: WriterState, { hash, number }: SealedBlock): boolean =>
  hash !== undefined && number > chain.canonical.handle.number + 1

/** Whether the block is on the canonical chain already. */
function isKnown(state: WriterState, sealed: SealedBlock): boolean {
  const { chain, options } = state
  if (sealed.number > chain.canonical.handle.number) return false
  const decided = chain.decided(sealed.number)
  const ours = decided?.header ?? storedHeader(options.store, sealed.number)
  const oursHash = decided?.hash ?? options.store.hashOfNumber(sealed.number)
  // A block that differs in what execution makes of it alone is another one: it has to be executed to be refused.
  if (sealed.hash !== undefined && oursHash !== undefined) return equalBytes(oursHash, sealed.hash)
  if (ours === undefined) return sealed.number <= Number(options.chain.genesisNumber)
  const transactionsRoot = orderedRoot(sealed.transactions)
  return (
    checkSealedAttributes(ours, sealed) === undefined &&
    differ('transactionsRoot', ours.transactionsRoot, transactionsRoot) === undefined
  )
}

function storedHeader(store: StoreReader, number: number): Header | undefined {
  const hash = store.hashOfNumber(number)
  const header = hash && store.header(hash)
  return header && decodeHeader(header)
}

/** The canonical side of the writer: blocks that their source has decided are matched with ours, or executed whole. */
import type { SealedBlock } from '../../chain/types.ts'
import { dropPayload } from '../../flashblocks/sequence.ts'
import type { Header } from '../../primitives/header.ts'
import { decodeHeader } from '../../primitives/header-codec.ts'
import { orderedRoot } from '../../primitives/ordered-root.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import type { StoreReader } from '../../storage/types.ts'
import {
  attributesOfSealed,
  checkAttributes,
  checkFirstTransaction,
  checkSums,
  differ,
  type Mismatch,
  mismatch,
} from './checks.ts'
import {
  appendOf,
  compareTransactions,
  executeAll,
  headerOf,
  type LiveBlock,
  newBlock,
  type OpenPart,
  openExecution,
  step,
} from './live-block.ts'
import { addIncrement, close, discard, end } from './packets.ts'
import { decidedParent } from './recover.ts'
import {
  count,
  emit,
  flush,
  freeMemory,
  publish,
  type QueuedBlock,
  type WriterState,
  wakeAt,
  warn,
} from './state.ts'

export function queueSealed(state: WriterState, block: SealedBlock): void {
  if (state.sealed.length < state.limits.sealedBlocks)
    state.sealed.push({ block, arrivedAtMs: state.options.now() })
  else halt(state, block, 'too many canonical blocks wait: the newest is left out')
}

/** Takes the oldest waiting canonical block one step on. False: it waits for something. @throws {ViewError} */
export async function trySealed(state: WriterState): Promise<boolean> {
  const next = state.sealed[0]
  const isBusy = state.handed !== undefined || state.whole !== undefined
  if (next === undefined || isBusy || state.failure !== undefined) return false
  if (state.options.now() < state.retryAtMs) return wait(state, state.retryAtMs)
  const { chain, limits } = state
  const unfolded = chain.canonical.handle.number - chain.base.handle.number
  if (unfolded >= limits.foldDepth + limits.backlog) return false
  if (isKnown(state, next.block)) {
    state.sealed.shift()
    count(state, 'sealed_known')
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

/** The final header of an ended block is known: into its table. Its canonical block, when it has come, goes on from here. */
export function onRoot(
  state: WriterState,
  block: LiveBlock,
  roots: { readonly stateRoot: LiveBlock['hash']; readonly withdrawalsRoot: LiveBlock['hash'] },
): void {
  const { header, hash } = headerOf(block.content!, roots)
  const wrong =
    block.sealed === undefined && block.expectedHash && differ('hash', hash, block.expectedHash)
  if (wrong) {
    const message = `block ${block.handle.number} comes out as ${wrong.ours}, the next one stands on ${wrong.theirs}`
    warn(state, 'mismatch_next_parent', message)
    flush(state)
  } else if (state.options.publisher.finish(block.handle, header, hash) === 'full')
    noMemory(state, block)
  else {
    step(block, 'finish')
    block.header = header
    block.hash = hash
    if (block.isWhole) handOver(state, block, block.sealed!)
    else {
      state.chain.complete = block
      publish(state)
    }
  }
}

/** The keeper has it: canonical, in the same record that drops what does not stand on it. */
export function onAppended(state: WriterState, block: LiveBlock): void {
  const { chain } = state
  state.options.publisher.answered(block.handle)
  step(block, 'append')
  state.handed = undefined
  const { pending } = chain
  const isExtended = chain.isAncestor(block, pending) || chain.isAncestor(pending, block)
  chain.moveCanonical(block)
  if (!isExtended) count(state, 'reconcile_replaced')
  if (pending !== chain.pending) state.sequence = dropPayload(state.sequence)
  const { content } = block
  const executed = content?.executed ?? []
  block.content = undefined
  publish(state, {
    transactions: block.isWhole ? executed.map(({ transaction }) => transaction.hash) : [],
    publishMs: 0,
    executeMs: 0,
  })
  emit(state, {
    type: 'sealed',
    number: block.handle.number,
    hash: block.hash,
    flashblocks: block.isWhole ? 0 : block.index + 1,
    transactions: executed.length,
    gasUsed: block.header.gasUsed,
    ms: block.executeMs,
  })
}

type Outcome = 'progress' | 'wait' | 'different'

async function useCandidate(
  state: WriterState,
  candidate: LiveBlock,
  next: QueuedBlock,
): Promise<Outcome> {
  const { block } = next
  if (differsFrom(candidate.header, block) !== undefined) return 'different'
  const executed = candidate.open?.execution.executed ?? candidate.content?.executed ?? []
  const relation = compareTransactions(executed, block)
  if (relation === 'different') return 'different'
  if (candidate.state === 'open') {
    if (relation === 'longer') {
      if (whileOnItsWay(state, next) === 'wait') return 'wait'
      if (!(await extendTo(state, candidate, block))) return 'different'
    } else if (checkSums(candidate.open!.execution.sums(), block) !== undefined) return 'different'
    candidate.sealed = block
    // What the feed still has of it is not needed any more.
    state.sequence = dropPayload(state.sequence)
    await end(state, candidate)
    return 'progress'
  }
  if (relation === 'longer' || checkSums(candidate.content!.sums, block) !== undefined)
    return 'different'
  candidate.sealed = block
  if (candidate.state === 'ended') return 'wait'
  handOver(state, candidate, block)
  return 'progress'
}

/** Executes the transactions that the feed did not bring, as one more flashblock. False: the result is not the canonical one. */
async function extendTo(
  state: WriterState,
  block: LiveBlock,
  sealed: SealedBlock,
): Promise<boolean> {
  const { execution } = block.open!
  const startedMs = state.options.now()
  const from = execution.executed.length
  const checkpoint = execution.checkpoint()
  const wrong =
    (await executeAll(execution, sealed.transactions.slice(from))) ??
    checkSums(execution.sums(), sealed)
  if (wrong !== undefined) {
    execution.revert(checkpoint)
    return false
  }
  const { attributes, rules } = execution
  const roots = { stateRoot: ZERO_32, withdrawalsRoot: block.header.withdrawalsRoot }
  const { header, hash } = headerOf({ attributes, rules, sums: execution.sums() }, roots)
  const part = {
    index: block.index + 1,
    header,
    hash,
    diff: await execution.diff(checkpoint),
    from,
  }
  if (addIncrement(state, block, part) === 'full') {
    execution.revert(checkpoint)
    return false
  }
  block.executeMs += state.options.now() - startedMs
  count(state, 'sealed_completed_flashblocks')
  publish(state, {
    transactions: execution.executed.slice(from).map(({ transaction }) => transaction.hash),
    publishMs: 0,
    executeMs: state.options.now() - startedMs,
  })
  return true
}

async function executeWhole(state: WriterState, sealed: SealedBlock): Promise<void> {
  const { chain, options } = state
  const startedMs = options.now()
  const parent = decidedParent(state, sealed.parentHash)
  if (parent === undefined)
    return reject(state, sealed, mismatch('parentHash', 'no canonical block', 'another'))
  // The keeper has no trie below its base: there the roots are its source's, and it checks them before the block is folded.
  const isDeep = parent.handle.number < chain.base.handle.number
  const hasRoots = sealed.stateRoot !== undefined && sealed.withdrawalsRoot !== undefined
  const attributes = attributesOfSealed(sealed)
  const wrong =
    isDeep && !hasRoots
      ? mismatch('stateRoot', 'not known below the fold head', 'not given')
      : checkAttributes(options.chain, parent, attributes)
  if (wrong !== undefined) return reject(state, sealed, wrong)
  const open = await openExecution(options, parent.hash, attributes)
  const { payloadId } = sealed
  const block = newBlock('begin', {
    handle: options.publisher.begin(parent.handle, isPayloadId(payloadId) ? payloadId : undefined),
    parent,
    payloadId,
    header: parent.header,
    hash: parent.hash,
    open,
    sealed,
    isWhole: true,
  })
  let failed: Mismatch | 'full' | undefined = 'full'
  try {
    failed = await fillWhole(state, block, { open, sealed })
  } finally {
    if (failed !== undefined) discard(state, block)
  }
  if (failed === 'full') return noMemory(state, undefined)
  if (failed !== undefined) return reject(state, sealed, failed)
  // No reader sees a header of it before the final one.
  block.momentary.length = 0
  block.executeMs = options.now() - startedMs
  chain.add(block)
  state.whole = block
  count(state, 'sealed_executed_whole')
  const { stateRoot, withdrawalsRoot } = sealed
  if (!isDeep || stateRoot === undefined || withdrawalsRoot === undefined) return end(state, block)
  await close(block)
  onRoot(state, block, { stateRoot, withdrawalsRoot })
}

async function fillWhole(
  state: WriterState,
  block: LiveBlock,
  { open, sealed }: { readonly open: OpenPart; readonly sealed: SealedBlock },
): Promise<Mismatch | 'full' | undefined> {
  const { execution } = open
  const { attributes, rules } = execution
  const invalid = await executeAll(execution, sealed.transactions)
  if (invalid !== undefined) return invalid
  const sums = execution.sums()
  const first = execution.executed[0]?.transaction
  const wrong =
    checkFirstTransaction(state.options.chain, attributes, first) ?? checkSums(sums, sealed)
  if (wrong !== undefined) return wrong
  const roots = { stateRoot: ZERO_32, withdrawalsRoot: ZERO_32 }
  const { header, hash } = headerOf({ attributes, rules, sums }, roots)
  const part = { index: 0, header, hash, diff: await execution.diff(), from: 0 }
  return addIncrement(state, block, part) === 'full' ? 'full' : undefined
}

function handOver(state: WriterState, block: LiveBlock, sealed: SealedBlock): void {
  state.whole = undefined
  const wrong = sealed.stateRoot && differ('stateRoot', block.header.stateRoot, sealed.stateRoot)
  if (wrong === undefined) {
    state.sealed.shift()
    state.fullSinceMs = undefined
    state.options.publisher.handOver(block.handle)
    step(block, 'handOver')
    state.handed = block
    emit(state, { type: 'keeper', request: { type: 'append', block: appendOf(block) } })
  } else {
    if (block.isWhole) state.chain.drop(block)
    reject(state, sealed, wrong)
  }
}

/** The canonical chain says something that our execution denies: it stands still at the parent, and a further block is tried. */
function reject(state: WriterState, sealed: SealedBlock, wrong: Mismatch): void {
  state.sealed.shift()
  count(state, 'canonical_mismatch')
  const { chain } = state
  if (chain.pending !== chain.canonical) {
    state.sequence = dropPayload(state.sequence)
    chain.cutAbove(chain.canonical)
    publish(state)
  }
  halt(state, sealed, `${wrong.kind} is ${wrong.ours} here, ${wrong.theirs} at its source`)
}

const halt = (state: WriterState, { number }: SealedBlock, message: string) =>
  emit(state, { type: 'halted', message: `canonical block ${number}: ${message}`, isFatal: false })

/** No pages: pending goes, the oldest reader is stopped, and the canonical block is tried again until readers must have gone. */
function noMemory(state: WriterState, block: LiveBlock | undefined): void {
  const { limits } = state
  const now = state.options.now()
  if (state.whole === block) state.whole = undefined
  if (block?.isWhole === true) state.chain.drop(block)
  const isCanonical = block === undefined || block.isWhole
  // What is complete above canonical is not what its source says, or it would not be executed again.
  freeMemory(state, isCanonical ? state.chain.canonical : state.chain.complete)
  if (state.sealed.length === 0) return
  state.fullSinceMs ??= now
  if (now - state.fullSinceMs > limits.memoryGraceMs)
    throw new Error(
      `the view memory stayed full for ${limits.memoryGraceMs} ms: raise --view-memory`,
    )
  state.retryAtMs = now + limits.retryMs
  wakeAt(state, state.retryAtMs)
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
    state.isConnected &&
    block.number === next &&
    state.held.length === 0 &&
    !sequence.over.includes(block.payloadId)
  if (!isExpected || state.options.now() >= untilMs) return 'different'
  wait(state, untilMs)
  return 'wait'
}

function wait(state: WriterState, ms: number): false {
  wakeAt(state, ms)
  return false
}

/** Whether the block is on the canonical chain already. */
function isKnown(state: WriterState, sealed: SealedBlock): boolean {
  const { chain, options } = state
  if (sealed.number > chain.canonical.handle.number) return false
  const ours = chain.decided(sealed.number)?.header ?? storedHeader(options.store, sealed.number)
  if (ours === undefined) return sealed.number <= Number(options.chain.genesisNumber)
  const transactionsRoot = orderedRoot(sealed.transactions)
  return (
    differsFrom(ours, sealed) === undefined &&
    differ('transactionsRoot', ours.transactionsRoot, transactionsRoot) === undefined
  )
}

function storedHeader(store: StoreReader, number: number): Header | undefined {
  const hash = store.hashOfNumber(number)
  const header = hash && store.header(hash)
  return header && decodeHeader(header)
}

/** First attribute in which a block of ours is not the canonical one. */
function differsFrom(header: Header, sealed: SealedBlock): Mismatch | undefined {
  return (
    differ('parentHash', header.parentHash, sealed.parentHash) ??
    differ('timestamp', header.timestamp, sealed.timestamp) ??
    differ('prevRandao', header.mixHash, sealed.prevRandao) ??
    differ('coinbase', header.coinbase, sealed.coinbase) ??
    differ('gasLimit', header.gasLimit, sealed.gasLimit) ??
    differ('extraData', header.extraData, sealed.extraData) ??
    differ('baseFee', header.baseFeePerGas ?? 0n, sealed.baseFee) ??
    differ('beaconRoot', header.parentBeaconBlockRoot ?? ZERO_32, sealed.parentBeaconBlockRoot)
  )
}

const isPayloadId = (text: string) => /^0x[0-9a-f]{16}$/.test(text)

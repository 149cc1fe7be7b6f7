/**
 * Full blocks are canonical blocks that differ from our flashblocks or had none. A full block
 * becomes visible once canonical.
 */
import type { UpstreamBlock } from '../../chain/types.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import {
  attributesOfUpstreamBlock,
  checkAttributes,
  checkFirstTransaction,
  checkHeader,
  checkUpstreamSums,
  type Mismatch,
  mismatch,
} from './checks.ts'
import { finish } from './ends.ts'
import {
  executeAll,
  headerOf,
  type LiveBlock,
  newBlock,
  type OpenPart,
  openExecution,
} from './live-block.ts'
import { decidedParent } from './recover.ts'
import { addIncrement, close, discard, end, partsOf } from './steps.ts'
import { noMemory, refuse } from './submit.ts'
import { withPrefetch } from './waits.ts'
import { count, type WriterState } from './writer-state.ts'

/** Returns the roots, if the source gives both. */
export function rootsOf({ stateRoot, withdrawalsRoot }: UpstreamBlock) {
  return stateRoot === undefined || withdrawalsRoot === undefined
    ? undefined
    : { stateRoot, withdrawalsRoot }
}

/**
 * Executes a canonical block as a full block.
 * @throws {MissingError} with nothing changed
 * @throws {ViewError} with nothing changed
 */
export async function executeFullBlock(
  state: WriterState,
  upstreamBlock: UpstreamBlock,
): Promise<void> {
  const { chain, options } = state
  const startedMs = options.now()
  const parent = decidedParent(state, upstreamBlock.parentHash)
  if (parent === undefined)
    return refuse(state, upstreamBlock, mismatch('parentHash', 'no canonical block', 'another'))
  // The persistence thread has no trie below its base. There the source gives the roots, and they
  // are checked before the block is persisted.
  const isDeep = parent.handle.number < chain.base.handle.number
  const roots = isDeep || options.isLazy === true ? rootsOf(upstreamBlock) : undefined
  const attributes = attributesOfUpstreamBlock(upstreamBlock)
  const wrong =
    (isDeep || options.isLazy === true) && roots === undefined
      ? mismatch('stateRoot', 'not known here', 'not given')
      : checkAttributes(options.chain, parent, attributes)
  if (wrong !== undefined) return refuse(state, upstreamBlock, wrong)
  const open = openExecution(state, parent.hash, attributes)
  const { payloadId } = upstreamBlock
  const block = newBlock('start', {
    // The handle has no payload id, because flashblocks of a full block are not distinguished and
    // cannot be requested.
    handle: options.publisher.start(parent.handle),
    parent,
    payloadId,
    header: parent.header,
    hash: parent.hash,
    open,
    canonicalBlock: upstreamBlock,
    isFullBlock: true,
  })
  let failed: Mismatch | 'full' | undefined = 'full'
  try {
    failed = await withPrefetch(
      state,
      () => fillFullBlock(state, block, { open, upstreamBlock }),
      async () => ({ ...open, attributes, starts: true, transactions: upstreamBlock.transactions }),
    )
  } finally {
    if (failed !== undefined) discard(state, block)
  }
  if (failed === 'full') return noMemory(state, undefined)
  if (failed !== undefined) return refuse(state, upstreamBlock, failed)
  // Readers see no header of this block before the final one.
  block.partialHeaders.length = 0
  block.executeMs = options.now() - startedMs
  chain.add(block)
  state.fullBlock = block
  count(state, 'sealed_executed_whole')
  if (roots === undefined) return end(state, block)
  await close(state, block)
  finish(state, block, headerOf(partsOf(block), roots))
}

async function fillFullBlock(
  state: WriterState,
  block: LiveBlock,
  { open, upstreamBlock }: { readonly open: OpenPart; readonly upstreamBlock: UpstreamBlock },
): Promise<Mismatch | 'full' | undefined> {
  const { execution } = open
  const { attributes, rules } = execution
  await execution.start()
  const wrong =
    (await executeAll(execution, upstreamBlock.transactions)) ??
    wrongOfFullBlock(state, execution, upstreamBlock)
  if (wrong !== undefined) return wrong
  const sums = execution.sums()
  const roots = { stateRoot: ZERO_32, withdrawalsRoot: ZERO_32 }
  const { header, hash } = headerOf({ attributes, rules, sums }, roots)
  const diff = await execution.diff()
  if (addIncrement(state, block, { index: 0, header, hash, diff, from: 0 }) === 'full')
    return 'full'
  count(state, 'flashblock_executed')
  return undefined
}

function wrongOfFullBlock(
  { options }: WriterState,
  execution: OpenPart['execution'],
  upstreamBlock: UpstreamBlock,
): Mismatch | undefined {
  const { attributes, rules } = execution
  const sums = execution.sums()
  const known = rootsOf(upstreamBlock)
  return (
    checkFirstTransaction(options.chain, attributes, execution.executed[0]?.transaction) ??
    checkUpstreamSums(sums, upstreamBlock) ??
    (known === undefined
      ? undefined
      : checkHeader(headerOf({ attributes, rules, sums }, known), upstreamBlock))
  )
}

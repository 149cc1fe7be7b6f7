/** Canonical blocks that no flashblocks brought, or others than these: executed for their source alone, shown when they are canonical. */
import type { SealedBlock } from '../../chain/types.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import {
  attributesOfSealed,
  checkAttributes,
  checkFirstTransaction,
  checkHeader,
  checkSealedSums,
  type Mismatch,
  mismatch,
} from './checks.ts'
import { finish } from './ends.ts'
import { noMemory, refuse } from './hand-over.ts'
import {
  executeAll,
  headerOf,
  type LiveBlock,
  newBlock,
  type OpenPart,
  openExecution,
} from './live-block.ts'
import { decidedParent } from './recover.ts'
import { count, type WriterState } from './state.ts'
import { addIncrement, close, discard, end, partsOf } from './steps.ts'
import { withScout } from './waits.ts'

/** Roots that the source knows. */
export function rootsOf({ stateRoot, withdrawalsRoot }: SealedBlock) {
  return stateRoot === undefined || withdrawalsRoot === undefined
    ? undefined
    : { stateRoot, withdrawalsRoot }
}

/** @throws {MissingError} {ViewError} with nothing changed */
export async function executeWhole(state: WriterState, sealed: SealedBlock): Promise<void> {
  const { chain, options } = state
  const startedMs = options.now()
  const parent = decidedParent(state, sealed.parentHash)
  if (parent === undefined)
    return refuse(state, sealed, mismatch('parentHash', 'no canonical block', 'another'))
  // The keeper has no trie below its base: there the roots are its source's, and it checks them before the block is folded.
  const isDeep = parent.handle.number < chain.base.handle.number
  const roots = isDeep || options.isLazy === true ? rootsOf(sealed) : undefined
  const attributes = attributesOfSealed(sealed)
  const wrong =
    (isDeep || options.isLazy === true) && roots === undefined
      ? mismatch('stateRoot', 'not known here', 'not given')
      : checkAttributes(options.chain, parent, attributes)
  if (wrong !== undefined) return refuse(state, sealed, wrong)
  const open = openExecution(state, parent.hash, attributes)
  const { payloadId } = sealed
  const block = newBlock('begin', {
    // Without the payload's name: its flashblocks are not told apart here, so that nobody can ask for one.
    handle: options.publisher.begin(parent.handle),
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
    failed = await withScout(
      state,
      () => fillWhole(state, block, { open, sealed }),
      async () => ({ ...open, attributes, begins: true, transactions: sealed.transactions }),
    )
  } finally {
    if (failed !== undefined) discard(state, block)
  }
  if (failed === 'full') return noMemory(state, undefined)
  if (failed !== undefined) return refuse(state, sealed, failed)
  // No reader sees a header of it before the final one.
  block.momentary.length = 0
  block.executeMs = options.now() - startedMs
  chain.add(block)
  state.whole = block
  count(state, 'sealed_executed_whole')
  if (roots === undefined) return end(state, block)
  await close(state, block)
  finish(state, block, headerOf(partsOf(block), roots))
}

async function fillWhole(
  state: WriterState,
  block: LiveBlock,
  { open, sealed }: { readonly open: OpenPart; readonly sealed: SealedBlock },
): Promise<Mismatch | 'full' | undefined> {
  const { execution } = open
  const { attributes, rules } = execution
  await execution.begin()
  const wrong =
    (await executeAll(execution, sealed.transactions)) ?? wrongOfWhole(state, execution, sealed)
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

function wrongOfWhole(
  { options }: WriterState,
  execution: OpenPart['execution'],
  sealed: SealedBlock,
): Mismatch | undefined {
  const { attributes, rules } = execution
  const sums = execution.sums()
  const known = rootsOf(sealed)
  return (
    checkFirstTransaction(options.chain, attributes, execution.executed[0]?.transaction) ??
    checkSealedSums(sums, sealed) ??
    (known === undefined
      ? undefined
      : checkHeader(headerOf({ attributes, rules, sums }, known), sealed))
  )
}

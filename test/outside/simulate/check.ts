/**
 * These checks compare every response of a view with plain execution: receipts, transactions, logs
 * and state must agree.
 */

import type { Block, ChainView, FlashblockId } from '../../../engine/chain/types.ts'
import { hashHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { encodeStoredReceipt } from '../../../engine/primitives/receipt-codec.ts'
import { equalBytes, ZERO_32 } from '../../../engine/primitives/words.ts'
import {
  ACCOUNT_WORDS,
  FlashblockUnavailableError,
  type Presence,
  SLOT_WORDS,
  type StateReader,
} from '../../../engine/state/reader.ts'
import { bytesOf, fromLatin1, latin1, wordsOf } from '../../../engine/state/words.ts'
import { foundLogs } from '../../fixtures/found-logs.ts'
import { ancestorAt, type TrueBlock, type TrueChain } from './chain.ts'
import { Random } from './random.ts'
import { BOXES } from './transactions.ts'
import {
  executedIn,
  Mismatch,
  nameOf,
  partOf,
  same,
  sameBytes,
  type VisibleBlock,
  visibleOf,
} from './visible.ts'

/** The range of the node's data. */
export type Extent = {
  /** The first full block, besides the genesis. */
  readonly firstBlock: number
  /** The first block whose state is available. */
  readonly firstState: number
  /** Only requested state is available. */
  readonly isLazy: boolean
}
type About = { readonly chain: TrueChain; readonly random: Random; readonly extent: Extent }

/** Checks a few responses of a view, mostly about its newest blocks. */
export function checkSample(view: ChainView, top: VisibleBlock, about: About): void {
  const { chain, random, extent } = about
  const first = extent.firstBlock
  if (top.block.number > chain.genesis.number) checkBlock(view, top, about)
  const below = top.block.number - 1 - random.below(4)
  if (below >= first) checkBlock(view, completeAt(top, below), about)
  for (let n = 0; n < 3; n++)
    checkLocation(view, top, { name: random.pick([...chain.transactions.keys()]), first })
  if (random.chance(0.3)) checkLogs(view, top, { first: Math.max(first, below - 8), random })
}

/** Checks every response about every block. */
export function checkAll(view: ChainView, top: VisibleBlock, about: About): void {
  const { chain, random, extent } = about
  const first = extent.firstBlock
  for (let number = first; number < top.block.number; number++)
    checkBlock(view, completeAt(top, number), about)
  checkBlock(view, top, about)
  for (const name of chain.transactions.keys()) checkLocation(view, top, { name, first })
  checkLogs(view, top, { first, random })
  const state = view.state(blockOf(view, top))
  for (const block of chain.byHash.values()) sameState(state, { visible: top, extent }, block)
}

/** Checks blocks from before a resync, without their state. */
export function checkRetained(
  view: ChainView,
  top: VisibleBlock,
  about: About,
  { from, to }: { readonly from: number; readonly to: number },
): void {
  for (let number = from; number <= to; number++) checkBlock(view, completeAt(top, number), about)
}

const completeAt = (top: VisibleBlock, number: number): VisibleBlock => ({
  block: ancestorAt(top.block, number)!,
  at: undefined,
})

function blockOf(view: ChainView, visible: VisibleBlock): Block {
  const found = view.block({ number: BigInt(visible.block.number) })
  if (found === undefined) throw new Mismatch(`there is no ${nameOf(visible)}`)
  return found
}

/**
 * Checks one of the newest blocks at one of its flashblocks, by number, index and payload. All data
 * that was visible when that flashblock was the newest must be readable.
 * @returns the number of checked flashblocks; 0 where the view does not retain it
 */
export function checkFlashblock(
  view: ChainView,
  top: VisibleBlock,
  { chain, extent }: About,
): number {
  // The check has its own random numbers, so that it does not change the history of a seed.
  const random = new Random(view.snapshot, 'flashblocks')
  const block = ancestorAt(top.block, top.block.number - random.below(RETAINED_BLOCKS))
  if (block === undefined || block.parts.length === 0 || block.number < extent.firstState) return 0
  const index = random.below(block.parts.length)
  const { number, payloadId } = block
  const found = retainedBlock(view, { number: BigInt(number), index, payloadId }, chain)
  if (found === undefined) return 0
  const visible = visibleOf(found, chain, true)
  same(found.flashblockIndex, index, `index of ${nameOf(visible)}`)
  same(visible.block.payloadId, block.payloadId, `payload of ${nameOf(visible)}`)
  checkContents(view, { block: found, visible }, { chain, extent, random })
  return 1
}
const RETAINED_BLOCKS = 5

/** Finds the flashblock; undefined: it has not arrived, or the block came without flashblocks. */
function retainedBlock(
  view: ChainView,
  flashblock: FlashblockId,
  chain: TrueChain,
): Block | undefined {
  try {
    return view.block({ flashblock })
  } catch (error) {
    if (!(error instanceof FlashblockUnavailableError)) throw error
    if (error.why === 'gone') return undefined
    const payloadId = /is of payload (0x[0-9a-f]{16}) here/.exec(error.message)?.[1]
    // The first frame came with a wrong digit in its payload id, and was otherwise right; no
    // sequencer made such a payload for this height.
    if (payloadId !== undefined && chain.payloadIds.get(payloadId) !== Number(flashblock.number))
      return undefined
    throw error
  }
}

function checkBlock(view: ChainView, visible: VisibleBlock, about: About): void {
  checkContents(view, { block: blockOf(view, visible), visible }, about)
}

function checkContents(
  view: ChainView,
  { block, visible }: { readonly block: Block; readonly visible: VisibleBlock },
  { random, extent }: About,
): void {
  const name = nameOf(visible)
  const hash = visible.at === undefined ? visible.block.hash : (visible.hash ?? block.hash)
  const isPartial = visible.at !== undefined && visible.hash === undefined
  if (isPartial && !partOf(visible)!.moments.some((moment) => equalBytes(moment, hash)))
    throw new Mismatch(`hash of ${name}: ${bytesToHex(hash)} is of no partial block`)
  sameBytes(block.hash, hash, `hash of ${name}`)
  // The canonical block will state the root.
  const isRootless = extent.isLazy && equalBytes(block.header.stateRoot, ZERO_32)
  if (!isRootless || visible.at !== undefined)
    sameBytes(hashHeader(block.header), hash, `header of ${name}`)
  const executed = executedIn(visible)
  same(block.transactionCount, executed.length, `transactions of ${name}`)
  let logs = 0
  for (const [at, { transaction, receipt }] of executed.entries()) {
    const what = `transaction ${at} of ${name}`
    sameBytes(block.transactionHash(at), transaction.hash, what)
    sameBytes(block.transaction(at)?.raw, transaction.raw, what)
    const found = block.receipt(at)
    const stored = encodeStoredReceipt(receipt)
    sameBytes(found && encodeStoredReceipt(found), stored, `receipt of ${what}`)
    same(block.firstLogIndex(at), logs, `first log of ${what}`)
    logs += receipt.logs.length
  }
  same(block.transaction(executed.length), undefined, `one more transaction of ${name}`)
  if (visible.block.number < extent.firstState) return
  const state = view.state(block)
  sameSome(state, { visible, extent }, random)
  const below = visible.block.number - 1 - random.below(3)
  const ancestor = ancestorAt(visible.block, below)
  if (ancestor !== undefined && ancestor !== visible.block)
    sameBytes(state.blockHash(BigInt(below)), ancestor.hash, `hash of block ${below} in ${name}`)
}

/** Checks that a transaction is found at its location on the view's chain, and only there. */
function checkLocation(
  view: ChainView,
  top: VisibleBlock,
  { name, first }: { readonly name: string; readonly first: number },
): void {
  const wanted = locationOf(top, name)
  if (wanted !== undefined && wanted.block.number < first) return
  const found = view.findTransaction(fromLatin1(name))
  const what = `location of a transaction under ${nameOf(top)}`
  same(found && Number(found.block.number), wanted?.block.number, what)
  same(found?.index, wanted?.index, what)
}

function locationOf(top: VisibleBlock, name: string) {
  for (let block: TrueBlock | undefined = top.block; block !== undefined; block = block.parent) {
    const executed = block === top.block ? executedIn(top) : block.executed
    const index = executed.findIndex(({ transaction }) => latin1(transaction.hash) === name)
    if (index >= 0) return { block, index }
  }
  return undefined
}

function checkLogs(
  view: ChainView,
  top: VisibleBlock,
  { first, random }: { readonly first: number; readonly random: Random },
): void {
  const address = random.pick(BOXES)
  const wanted: string[] = []
  for (let number = first; number <= top.block.number; number++) {
    const visible = number === top.block.number ? top : completeAt(top, number)
    let at = 0
    for (const { transaction, receipt } of executedIn(visible))
      for (const log of receipt.logs) {
        const logIndex = at++
        if (latin1(log.address) === latin1(address))
          wanted.push(`${number}:${logIndex}:${latin1(transaction.hash)}`)
      }
  }
  const search = foundLogs(
    view,
    {
      fromBlock: BigInt(first),
      toBlock: BigInt(top.block.number),
      addresses: [address],
      topics: [],
    },
    { maxLogs: 10_000, maxBytes: 1e9, maxReads: 10_000, isExpired: () => false },
  )
  if (search.status !== 'found') throw new Mismatch(`logs under ${nameOf(top)}: ${search.status}`)
  const found = search.logs.map(
    ({ block, logIndex, transactionHash }) =>
      `${block.number}:${logIndex}:${latin1(transactionHash)}`,
  )
  same(found.join(), wanted.join(), `logs from block ${first} on under ${nameOf(top)}`)
}

/** Compares some of the values that were changed up to then, on this branch or another. */
function sameSome(state: StateReader, of: Of, random: Random): void {
  const { changes } = partOf(of.visible) ?? of.visible.block
  const own = [...changes.accounts.keys()]
  for (let n = 0; n < 4 && own.length > 0; n++) sameAccount(state, of, random.pick(own))
  for (const [address, slots] of changes.slots)
    for (const key of slots.keys()) if (random.chance(0.3)) sameSlot(state, of, { address, key })
}

/** Compares all values that were changed up to `block`, on any branch. */
function sameState(state: StateReader, of: Of, { changes }: TrueBlock): void {
  for (const address of changes.accounts.keys()) sameAccount(state, of, address)
  for (const [address, slots] of changes.slots)
    for (const key of slots.keys()) sameSlot(state, of, { address, key })
}
type Of = { readonly visible: VisibleBlock; readonly extent: Extent }

const out = new Uint32Array(ACCOUNT_WORDS)
const outOfTruth = new Uint32Array(ACCOUNT_WORDS)

function sameAccount(state: StateReader, { visible, extent }: Of, address: string): void {
  const words = wordsOf(fromLatin1(address))
  const truth = (partOf(visible) ?? visible.block).state
  const wanted = slotText(truth.account(words, outOfTruth, 0), outOfTruth, ACCOUNT_WORDS)
  const found = slotText(state.account(words, out, 0), out, ACCOUNT_WORDS)
  if (extent.isLazy && found === 'missing') return
  if (found !== wanted) same(found, wanted, `account 0x${hexOf(address)} after ${nameOf(visible)}`)
  if (wanted === 'absent') return
  const hash = bytesOf(out).slice(40, 72)
  const code = truth.code(hash)
  const foundCode = state.code(hash)
  if (extent.isLazy && foundCode === 'missing') return
  sameBytes(foundCode, code === 'missing' ? undefined : code, `code of ${hexOf(address)}`)
}

function sameSlot(
  state: StateReader,
  { visible, extent }: Of,
  { address, key }: { readonly address: string; readonly key: string },
): void {
  const [at, slot] = [wordsOf(fromLatin1(address)), wordsOf(fromLatin1(key))]
  const truth = (partOf(visible) ?? visible.block).state
  const wanted = slotText(truth.slot(at, slot, outOfTruth, 0), outOfTruth, SLOT_WORDS)
  const found = slotText(state.slot(at, slot, out, 0), out, SLOT_WORDS)
  if (extent.isLazy && found === 'missing') return
  if (found !== wanted)
    same(found, wanted, `slot ${hexOf(key)} of 0x${hexOf(address)} after ${nameOf(visible)}`)
}

const slotText = (presence: Presence, words: Uint32Array, length: number): string =>
  presence === 'present' ? hexOf(latin1(words.subarray(0, length))) : presence
const hexOf = (name: string) => Buffer.from(name, 'latin1').toString('hex')

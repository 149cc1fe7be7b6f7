/** Everything that a view answers, compared with plain execution: receipts, transactions, logs and state belong together. */

import type { Block, ChainView, FlashblockPlace } from '../../../engine/chain/types.ts'
import { hashHeader } from '../../../engine/primitives/header-codec.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { encodeStoredReceipt } from '../../../engine/primitives/receipt-codec.ts'
import { equalBytes, ZERO_32 } from '../../../engine/primitives/words.ts'
import {
  ACCOUNT_WORDS,
  PlaceError,
  type Presence,
  SLOT_WORDS,
  type StateReader,
} from '../../../engine/state/reader.ts'
import { bytesOf, fromLatin1, latin1, wordsOf } from '../../../engine/state/words.ts'
import { foundLogs } from '../../fixtures/found-logs.ts'
import { ancestorAt, type TrueBlock, type TrueChain } from './chain.ts'
import { Random } from './random.ts'
import {
  executedIn,
  Mismatch,
  nameOf,
  partOf,
  type Shown,
  same,
  sameBytes,
  shownOf,
} from './shown.ts'
import { BOXES } from './transactions.ts'

/** What the node has. */
export type Extent = {
  /** First block that it has whole, but for the genesis. */
  readonly firstBlock: number
  /** First block whose state it has. */
  readonly firstState: number
  /** Of the state it has what was asked for. */
  readonly isLazy: boolean
}
type About = { readonly chain: TrueChain; readonly random: Random; readonly extent: Extent }

/** A few questions about a view, most of them about its newest blocks. */
export function checkSample(view: ChainView, top: Shown, about: About): void {
  const { chain, random, extent } = about
  const first = extent.firstBlock
  if (top.block.number > chain.genesis.number) checkBlock(view, top, about)
  const below = top.block.number - 1 - random.below(4)
  if (below >= first) checkBlock(view, wholeAt(top, below), about)
  for (let n = 0; n < 3; n++)
    checkPlace(view, top, { name: random.pick([...chain.transactions.keys()]), first })
  if (random.chance(0.3)) checkLogs(view, top, { first: Math.max(first, below - 8), random })
}

/** Everything, of every block. */
export function checkAll(view: ChainView, top: Shown, about: About): void {
  const { chain, random, extent } = about
  const first = extent.firstBlock
  for (let number = first; number < top.block.number; number++)
    checkBlock(view, wholeAt(top, number), about)
  checkBlock(view, top, about)
  for (const name of chain.transactions.keys()) checkPlace(view, top, { name, first })
  checkLogs(view, top, { first, random })
  const state = view.state(blockOf(view, top))
  for (const block of chain.byHash.values()) sameState(state, { shown: top, extent }, block)
}

/** Blocks from before the state began anew, without their state. */
export function checkKept(
  view: ChainView,
  top: Shown,
  about: About,
  { from, to }: { readonly from: number; readonly to: number },
): void {
  for (let number = from; number <= to; number++) checkBlock(view, wholeAt(top, number), about)
}

const wholeAt = (top: Shown, number: number): Shown => ({
  block: ancestorAt(top.block, number)!,
  at: undefined,
})

function blockOf(view: ChainView, shown: Shown): Block {
  const found = view.block({ number: BigInt(shown.block.number) })
  if (found === undefined) throw new Mismatch(`there is no ${nameOf(shown)}`)
  return found
}

/**
 * One of the newest blocks at one of its flashblocks, by number, index and payload: all that was shown when that was its newest.
 * @returns how many were read: 0 where the view does not hold it
 */
export function checkFlashblock(view: ChainView, top: Shown, { chain, extent }: About): number {
  // Of its own numbers: the history stays what its seed makes it.
  const random = new Random(view.record, 'flashblocks')
  const block = ancestorAt(top.block, top.block.number - random.below(HELD_BLOCKS))
  if (block === undefined || block.parts.length === 0 || block.number < extent.firstState) return 0
  const index = random.below(block.parts.length)
  const { number, payloadId } = block
  const found = heldBlock(view, { number: BigInt(number), index, payloadId }, chain)
  if (found === undefined) return 0
  const shown = shownOf(found, chain, true)
  same(found.flashblockIndex, index, `index of ${nameOf(shown)}`)
  same(shown.block.payloadId, block.payloadId, `payload of ${nameOf(shown)}`)
  checkContents(view, { block: found, shown }, { chain, extent, random })
  return 1
}
const HELD_BLOCKS = 5

/** undefined: it has not come, or nobody told its block's flashblocks apart. */
function heldBlock(
  view: ChainView,
  flashblock: FlashblockPlace,
  chain: TrueChain,
): Block | undefined {
  try {
    return view.block({ flashblock })
  } catch (error) {
    if (!(error instanceof PlaceError)) throw error
    if (error.why === 'gone') return undefined
    const payloadId = /is of payload (0x[0-9a-f]{16}) here/.exec(error.message)?.[1]
    // Its first frame came with a wrong digit: a payload that no sequencer made for this height, and right otherwise.
    if (payloadId !== undefined && chain.payloadIds.get(payloadId) !== Number(flashblock.number))
      return undefined
    throw error
  }
}

function checkBlock(view: ChainView, shown: Shown, about: About): void {
  checkContents(view, { block: blockOf(view, shown), shown }, about)
}

function checkContents(
  view: ChainView,
  { block, shown }: { readonly block: Block; readonly shown: Shown },
  { random, extent }: About,
): void {
  const name = nameOf(shown)
  const hash = shown.at === undefined ? shown.block.hash : (shown.hash ?? block.hash)
  const isPartial = shown.at !== undefined && shown.hash === undefined
  if (isPartial && !partOf(shown)!.moments.some((moment) => equalBytes(moment, hash)))
    throw new Mismatch(`hash of ${name}: ${bytesToHex(hash)} is of no partial block`)
  sameBytes(block.hash, hash, `hash of ${name}`)
  // Its state root is the canonical block's to say.
  const isRootless = extent.isLazy && equalBytes(block.header.stateRoot, ZERO_32)
  if (!isRootless || shown.at !== undefined)
    sameBytes(hashHeader(block.header), hash, `header of ${name}`)
  const executed = executedIn(shown)
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
  if (shown.block.number < extent.firstState) return
  const state = view.state(block)
  sameSome(state, { shown, extent }, random)
  const below = shown.block.number - 1 - random.below(3)
  const ancestor = ancestorAt(shown.block, below)
  if (ancestor !== undefined && ancestor !== shown.block)
    sameBytes(state.blockHash(BigInt(below)), ancestor.hash, `hash of block ${below} in ${name}`)
}

/** A transaction is found where it is on the view's chain, and not otherwise. */
function checkPlace(
  view: ChainView,
  top: Shown,
  { name, first }: { readonly name: string; readonly first: number },
): void {
  const wanted = placeOf(top, name)
  if (wanted !== undefined && wanted.block.number < first) return
  const found = view.findTransaction(fromLatin1(name))
  const what = `place of a transaction under ${nameOf(top)}`
  same(found && Number(found.block.number), wanted?.block.number, what)
  same(found?.index, wanted?.index, what)
}

function placeOf(top: Shown, name: string) {
  for (let block: TrueBlock | undefined = top.block; block !== undefined; block = block.parent) {
    const executed = block === top.block ? executedIn(top) : block.executed
    const index = executed.findIndex(({ transaction }) => latin1(transaction.hash) === name)
    if (index >= 0) return { block, index }
  }
  return undefined
}

function checkLogs(
  view: ChainView,
  top: Shown,
  { first, random }: { readonly first: number; readonly random: Random },
): void {
  const address = random.pick(BOXES)
  const wanted: string[] = []
  for (let number = first; number <= top.block.number; number++) {
    const shown = number === top.block.number ? top : wholeAt(top, number)
    let at = 0
    for (const { transaction, receipt } of executedIn(shown))
      for (const log of receipt.logs) {
        const place = at++
        if (latin1(log.address) === latin1(address))
          wanted.push(`${number}:${place}:${latin1(transaction.hash)}`)
      }
  }
  const search = foundLogs(
    view,
    {
      ...{ fromBlock: BigInt(first), toBlock: BigInt(top.block.number) },
      ...{ addresses: [address], topics: [] },
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

/** Some of what was changed until then, by this branch or another. */
function sameSome(state: StateReader, of: Of, random: Random): void {
  const { changes } = partOf(of.shown) ?? of.shown.block
  const own = [...changes.accounts.keys()]
  for (let n = 0; n < 4 && own.length > 0; n++) sameAccount(state, of, random.pick(own))
  for (const [address, slots] of changes.slots)
    for (const key of slots.keys()) if (random.chance(0.3)) sameSlot(state, of, { address, key })
}

/** All that was changed by the time of `block`, on whatever branch. */
function sameState(state: StateReader, of: Of, { changes }: TrueBlock): void {
  for (const address of changes.accounts.keys()) sameAccount(state, of, address)
  for (const [address, slots] of changes.slots)
    for (const key of slots.keys()) sameSlot(state, of, { address, key })
}
type Of = { readonly shown: Shown; readonly extent: Extent }

const out = new Uint32Array(ACCOUNT_WORDS)
const outOfTruth = new Uint32Array(ACCOUNT_WORDS)

function sameAccount(state: StateReader, { shown, extent }: Of, address: string): void {
  const words = wordsOf(fromLatin1(address))
  const truth = (partOf(shown) ?? shown.block).state
  const wanted = told(truth.account(words, outOfTruth, 0), outOfTruth, ACCOUNT_WORDS)
  const found = told(state.account(words, out, 0), out, ACCOUNT_WORDS)
  if (extent.isLazy && found === 'missing') return
  if (found !== wanted) same(found, wanted, `account 0x${hexOf(address)} after ${nameOf(shown)}`)
  if (wanted === 'absent') return
  const hash = bytesOf(out).slice(40, 72)
  const code = truth.code(hash)
  const foundCode = state.code(hash)
  if (extent.isLazy && foundCode === 'missing') return
  sameBytes(foundCode, code === 'missing' ? undefined : code, `code of ${hexOf(address)}`)
}

function sameSlot(
  state: StateReader,
  { shown, extent }: Of,
  { address, key }: { readonly address: string; readonly key: string },
): void {
  const [at, slot] = [wordsOf(fromLatin1(address)), wordsOf(fromLatin1(key))]
  const truth = (partOf(shown) ?? shown.block).state
  const wanted = told(truth.slot(at, slot, outOfTruth, 0), outOfTruth, SLOT_WORDS)
  const found = told(state.slot(at, slot, out, 0), out, SLOT_WORDS)
  if (extent.isLazy && found === 'missing') return
  if (found !== wanted)
    same(found, wanted, `slot ${hexOf(key)} of 0x${hexOf(address)} after ${nameOf(shown)}`)
}

const told = (presence: Presence, words: Uint32Array, length: number): string =>
  presence === 'present' ? hexOf(latin1(words.subarray(0, length))) : presence
const hexOf = (name: string) => Buffer.from(name, 'latin1').toString('hex')

/** Compares what a leased view answers with the truth of its record: right, or "void" and "pruned" where that is allowed. */

import { matches } from '../../../engine/chain/logs.ts'
import type { Block, ChainView, LogPattern } from '../../../engine/chain/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { hashHeader } from '../../../engine/primitives/header-codec.ts'
import type { Log } from '../../../engine/primitives/receipt.ts'
import { encodeStoredReceipt } from '../../../engine/primitives/receipt-codec.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import { PlaceError, type StateReader, ViewError } from '../../../engine/state/reader.ts'
import { FOLD, OLDEST } from '../../../engine/views/arena.ts'
import { foundLogs } from '../../fixtures/found-logs.ts'
import { ADDRESSES, type World } from '../../fixtures/view-blocks.ts'
import type { Random } from './blocks.ts'
import { GENESIS, type Held, type Machine } from './machine.ts'
import { differenceOf, slotsOf } from './state.ts'
import {
  ancestorAt,
  isAncestor,
  lastOf,
  type Node,
  type Prefix,
  placeOf,
  shownPrefix,
  worldOf,
} from './truth.ts'

/** One block of the view chosen at random, and some questions about others. */
export function checkSample(machine: Machine, held: Held, random: Random): void {
  const { top } = headsOf(held)
  const { nodes, transactions } = machine.truth
  const heights = top.number - GENESIS + 1
  // Mostly near the head, where the tables are, or at the base, where they end; else anywhere.
  const back = random(random(3) === 0 ? heights : Math.min(heights, 7))
  const number = random(4) === 0 ? held.shown.base.number : top.number - back
  checkHeight(machine, held, { number, random, isWhole: random(3) === 0 })
  checkStranger(machine, held, nodes.at(-1 - random(Math.min(nodes.length, 60)))!)
  const transaction = transactions.at(-1 - random(Math.min(transactions.length, 80)))
  if (transaction !== undefined) checkPlace(machine, held, transaction.transaction.hash)
  if (random(4) === 0) {
    const node = ancestorAt(top, top.number - random(Math.min(heights, PREFIXES_BACK)))!
    checkPrefix(machine, held, { node, at: random(node.prefixes.length), random })
    checkFlashblock(machine, held, { node, at: random(node.prefixes.length + 1), random })
  }
  if (random(6) === 0) {
    const last = top.number - random(Math.min(heights, 30))
    checkLogs(machine, held, { last, first: last - random(8), random })
  }
}

/** Every block of the view, newest first, and whatever else was made lately. */
export function checkAll(machine: Machine, held: Held, random: Random): void {
  const { top } = headsOf(held)
  for (let node: Node | undefined = top; node !== undefined; node = node.parent) {
    checkHeight(machine, held, { number: node.number, random, isWhole: true })
    if (node.number > top.number - PREFIXES_BACK)
      for (let at = 0; at < node.prefixes.length; at++) {
        checkPrefix(machine, held, { node, at, random })
        checkFlashblock(machine, held, { node, at, random })
      }
  }
  for (const node of machine.truth.nodes.slice(-60)) checkStranger(machine, held, node)
  for (const { transaction } of machine.truth.transactions.slice(-60))
    checkPlace(machine, held, transaction.hash)
  checkLogs(machine, held, { first: GENESIS, last: top.number, random })
}
/** Blocks below the head whose hashes between flashblocks are asked for: the store keeps 64. */
const PREFIXES_BACK = 9

/** What the view shows as its newest block, up to which flashblock, and as `latest`. */
export function headsOf({ shown, endpoint }: Held) {
  const { canonical, complete, pending, index } = shown
  if (endpoint === 'standard') return { top: canonical, index: undefined, latest: canonical }
  return { top: pending, index, latest: complete }
}

/** The state that the writer builds on. @throws {ViewError} */
export function checkParentState(
  machine: Machine,
  held: Held,
  { parent, random }: { readonly parent: Node; readonly random: Random },
): void {
  const { view } = held.leased
  const block = view.block({ hash: parent.final!.hash, requireCanonical: false })
  if (block === undefined) throw new Mismatch(`the writer finds no block ${parent.number}`)
  const state = view.state(block)
  sameState(state, { world: worldOf(parent), random }, `state of parent ${parent.number}`)
  machine.counts.add('states', 1)
}

function checkHeight(
  machine: Machine,
  held: Held,
  at: { readonly number: number; readonly random: Random; readonly isWhole: boolean },
): void {
  const { number, random } = at
  const { view } = held.leased
  const { top, index } = headsOf(held)
  const node = ancestorAt(top, number)!
  const prefix = shownPrefix(node, node === top ? index : undefined)
  const isPrefix = node === top && index !== undefined
  const hash = isPrefix ? prefix.hash : node.final!.hash
  allowing(machine, held, { number }, () => {
    const block = view.block({ number: BigInt(number) })
    const name = `${nameOf(node, isPrefix ? index : undefined)} in record ${view.record}`
    if (block === undefined) throw new Mismatch(`${name}: there is none`)
    sameBytes(block.hash, hash, `hash of ${name}`)
    same(block.flashblockIndex, isPrefix ? index : undefined, `index of ${name}`)
    if (at.isWhole) checkContents(view, block, { prefix, name })
    const byHash = view.block({ hash, requireCanonical: true })
    sameBytes(byHash?.hash, hash, `by hash, ${name}`)
    checkState(machine, held, { block, node, prefix, random })
  })
  if (number === top.number) checkHeads(machine, held)
}

/** Header, transactions, receipts, and where they are found. */
function checkContents(
  view: ChainView,
  block: Block,
  { prefix, name }: { readonly prefix: Prefix; readonly name: string },
): void {
  sameBytes(hashHeader(block.header), block.hash, `header of ${name}`)
  sameBytes(block.logsBloom, block.header.logsBloom, `bloom of ${name}`)
  same(block.transactionCount, prefix.executed.length, `transactions of ${name}`)
  let logs = 0
  for (const [at, { transaction, receipt }] of prefix.executed.entries()) {
    const what = `transaction ${at} of ${name}`
    sameBytes(block.transactionHash(at), transaction.hash, what)
    sameBytes(block.transaction(at)?.raw, transaction.raw, what)
    const found = block.receipt(at)
    sameBytes(found && encodeStoredReceipt(found), encodeStoredReceipt(receipt), `receipt, ${what}`)
    same(block.firstLogIndex(at), logs, `first log, ${what}`)
    logs += receipt.logs.length
    const place = view.findTransaction(transaction.hash)
    same(place?.index, at, `place, ${what}`)
    sameBytes(place?.block.hash, block.hash, `block, ${what}`)
  }
  same(block.transaction(prefix.executed.length), undefined, `one more transaction of ${name}`)
}

function checkState(
  machine: Machine,
  held: Held,
  at: {
    readonly block: Block
    readonly node: Node
    readonly prefix: Prefix
    readonly random: Random
  },
): void {
  const { block, node, prefix, random } = at
  const name = `${nameOf(node, block.flashblockIndex)} in record ${held.leased.view.record}`
  const isPrefix = block.flashblockIndex !== undefined
  allowing(machine, held, { number: node.number, isPrefix }, () => {
    const state = held.leased.view.state(block)
    sameState(state, { world: prefix.world, random }, `state of ${name}`)
    machine.counts.add('states')
    const below = GENESIS + random(node.number - GENESIS + 2)
    const wanted = below === node.number ? block.hash : ancestorAt(node, below)?.final?.hash
    const hash = state.blockHash(BigInt(below))
    if (wanted === undefined) same(hash, undefined, `number ${below} to hash in ${name}`)
    else sameBytes(hash, wanted, `number ${below} to hash in ${name}`)
    if (node.number < held.shown.base.number || random(3) !== 0) return
    allowing(machine, held, { number: node.number, isListing: true }, () => {
      const account = random(ADDRESSES.length)
      same(slotsOf(state, account), prefix.world[account]!.slots.join(), `slots in ${name}`)
    })
  })
}

function checkHeads(machine: Machine, held: Held): void {
  const { view } = held.leased
  const { top, index, latest } = headsOf(held)
  const { canonical, safe, finalized } = held.shown
  allowing(machine, held, { number: finalized }, () => {
    same(Number(view.pending.number), top.number, 'pending')
    if (index !== undefined) same(view.pending.index, index, 'index of pending')
    sameBytes(view.latest.hash, latest.final!.hash, 'latest')
    sameBytes(view.canonical.hash, canonical.final!.hash, 'canonical')
    for (const [tag, number] of [['safe', safe] as const, ['finalized', finalized] as const]) {
      const wanted = ancestorAt(canonical, Math.min(number, canonical.number))!
      sameBytes(view.block({ tag })?.hash, wanted.final!.hash, tag)
    }
  })
}

/** A block of any branch is found where it is on the view's chain, and not otherwise. */
function checkStranger(machine: Machine, held: Held, node: Node): void {
  const { top, index } = headsOf(held)
  const { hash } = node.final!
  allowing(machine, held, { number: node.number }, () => {
    const found = held.leased.view.block({ hash, requireCanonical: false })
    if (isAncestor(node, top) && (node !== top || index === undefined))
      sameBytes(found?.hash, hash, `block ${node.number} of this chain by hash`)
    else same(found === undefined, true, `block ${node.number} of another chain is not found`)
  })
}

/** So is a transaction. */
function checkPlace(machine: Machine, held: Held, hash: Bytes): void {
  const { top, index } = headsOf(held)
  const wanted = placeOf(top, index, hash)
  allowing(machine, held, { number: wanted?.node.number ?? top.number }, () => {
    const { view } = held.leased
    const found = view.findTransaction(hash)
    same(found && Number(found.block.number), wanted?.node.number, 'block of a transaction')
    same(found?.index, wanted?.at, 'index of a transaction')
    const [folded] = view.foldedNumbers([hash])
    if (folded === undefined) return
    machine.counts.add('found in a folded block')
    same(folded, wanted?.node.number, 'folded block of a transaction')
  })
}

/** A block as it was between two of its flashblocks: by the hash that it had then. */
function checkPrefix(
  machine: Machine,
  held: Held,
  one: { readonly node: Node; readonly at: number; readonly random: Random },
): void {
  const { node, at, random } = one
  const { view } = held.leased
  const { top, index } = headsOf(held)
  if (node.parent === undefined) return
  const { hash } = node.prefixes[at]!
  // Empty flashblocks leave the header as it was.
  const last = node === top && index !== undefined ? index : node.prefixes.length - 1
  const equals = node.prefixes.findLastIndex(
    (each, other) => other <= last && equalBytes(each.hash, hash),
  )
  const name = `${nameOf(node, at)} by its hash in record ${view.record}`
  allowing(machine, held, { number: node.number }, () => {
    const block = view.block({ hash, requireCanonical: false })
    if (held.endpoint === 'standard' || equals < 0) {
      same(block === undefined, true, `no ${name}`)
      return
    }
    // From the tables of this run, or from the store; not where the block came whole.
    if (block === undefined) {
      same(node.isMomentaryKept, false, `that there is no ${name}`)
      return
    }
    same(block.flashblockIndex, equals, name)
    const prefix = node.prefixes[equals]!
    checkContentsOfPrefix(block, prefix, name)
    machine.counts.add('prefixes')
    const isFolded = node.number <= held.shown.base.number || machine.truth.recovered.has(node)
    allowing(machine, held, { number: node.number, isPrefix: true, isFolded }, () => {
      const state = view.state(block)
      sameState(state, { world: prefix.world, random }, `state of ${name}`)
    })
  })
}

/** The same by number and index: as long as its block is not folded in the record, and came with flashblocks in this run. */
function checkFlashblock(
  machine: Machine,
  held: Held,
  one: { readonly node: Node; readonly at: number; readonly random: Random },
): void {
  const { node, at, random } = one
  const { view } = held.leased
  const { top, index } = headsOf(held)
  const isTold = node.isMomentaryKept && !machine.truth.recovered.has(node)
  const isHeld = node.number > held.shown.base.number && isTold
  const last = node === top && index !== undefined ? index : node.prefixes.length - 1
  const name = `${nameOf(node, at)} by its index in record ${view.record}`
  allowing(machine, held, { number: node.number }, () => {
    const found = flashblockOf(view, node.number, at)
    if (!isHeld) {
      same(found, 'gone', `what is no ${name}`)
      machine.counts.add('flashblocks gone')
      return
    }
    if (at > last) {
      same(found, undefined, `what is not yet ${name}`)
      return
    }
    if (found === undefined || found === 'gone') throw new Mismatch(`no ${name}: ${found}`)
    same(found.flashblockIndex, at, name)
    const prefix = node.prefixes[at]!
    checkContentsOfPrefix(found, prefix, name)
    sameState(view.state(found), { world: prefix.world, random }, `state of ${name}`)
    machine.counts.add('flashblocks')
  })
}

function flashblockOf(view: ChainView, number: number, index: number): Block | undefined | 'gone' {
  try {
    return view.block({ flashblock: { number: BigInt(number), index } })
  } catch (error) {
    if (error instanceof PlaceError && error.why === 'gone') return 'gone'
    throw error
  }
}

function checkContentsOfPrefix(block: Block, prefix: Prefix, name: string): void {
  sameBytes(block.hash, prefix.hash, name)
  same(block.transactionCount, prefix.executed.length, `transactions of ${name}`)
  const hashes = block.transactionHashes()
  for (const [at, { transaction }] of prefix.executed.entries())
    sameBytes(hashes[at], transaction.hash, `transaction ${at} of ${name}`)
}

/** Logs of a range of blocks, by address. */
function checkLogs(
  machine: Machine,
  held: Held,
  range: { readonly first: number; readonly last: number; readonly random: Random },
): void {
  const { last, random } = range
  const { view } = held.leased
  const { top, index } = headsOf(held)
  const first = Math.max(GENESIS, range.first)
  const filter = {
    fromBlock: BigInt(first),
    toBlock: BigInt(last),
    ...patternOf(machine, random),
  }
  const wanted: string[] = []
  for (let number = first; number <= last; number++) {
    const node = ancestorAt(top, number)!
    const { executed } = node === top ? shownPrefix(node, index) : lastOf(node)
    let at = 0
    for (const { transaction, receipt } of executed)
      for (const log of receipt.logs) {
        const place = `${number}:${at++}`
        if (matches(log, filter)) wanted.push(`${place} ${hex(transaction.hash)}`)
      }
  }
  allowing(machine, held, { number: first }, () => {
    const found = foundLogs(view, filter, {
      maxLogs: 10_000,
      maxReads: 10_000,
      maxBytes: 1e9,
      isExpired: () => false,
    })
    if (found.status !== 'found') throw new Mismatch(`logs: ${found.status}`)
    const logs = found.logs.map(
      ({ block, logIndex, transactionHash }) =>
        `${block.number}:${logIndex} ${hex(transactionHash)}`,
    )
    same(logs.join(), wanted.join(), `logs of ${first} to ${last}`)
    machine.counts.add('log searches')
  })
}

/** Up to three alternatives at a position, some of them of logs that there were; mostly one or two positions. */
function patternOf(machine: Machine, random: Random): LogPattern {
  const logs = machine.truth.transactions.slice(-30).flatMap(({ receipt }) => receipt.logs)
  const values = (of: (log: Log) => Bytes, chance: number) =>
    random(chance) > 0
      ? []
      : Array.from({ length: 1 + random(3) }, () => {
          const log = logs[random(Math.max(1, logs.length))]
          return log === undefined ? new Uint8Array(20) : of(log)
        })
  const addresses = values(({ address }) => address, 2)
  const topics = [0, 1, 2].map((at) => values(({ topics }) => topics[at % 2]!, at === 0 ? 3 : 2))
  return { addresses, topics: topics.slice(0, random(4)) }
}

/** Runs a question; a refusal is right only where the record's protection has ended. */
function allowing(
  machine: Machine,
  { shown }: Held,
  about: {
    readonly number: number
    readonly isPrefix?: boolean
    readonly isFolded?: boolean
    readonly isListing?: boolean
  },
  ask: () => void,
): void {
  try {
    ask()
  } catch (error) {
    if (!(error instanceof ViewError)) throw error
    const { words } = machine.arena
    const isUnfolded = machine.unfolds.raised > shown.unfolds
    const isPruned = Math.min(about.number, shown.base.number) < Atomics.load(words, OLDEST)
    const isOvertaken = machine.truth.find(Atomics.load(words, FOLD)) !== shown.base
    const isAllowed =
      error.reason === 'void'
        ? isUnfolded || (about.isListing === true && isOvertaken)
        : error.reason === 'pruned' &&
          (isPruned || (about.isPrefix === true && about.isFolded !== false))
    if (!isAllowed) throw new Mismatch(`not allowed: ${error.reason}: ${error.message}`)
    machine.counts.add(`refused: ${error.reason}`)
  }
}

const nameOf = ({ number }: Node, index: number | undefined) => `block ${number}.${index ?? 'end'}`
const hex = (bytes: Bytes) => Buffer.from(bytes).toString('hex').slice(0, 12)

function sameState(
  state: StateReader,
  { world, random }: { readonly world: World; readonly random: Random },
  what: string,
): void {
  const difference = differenceOf(state, world, random)
  if (difference !== undefined) throw new Mismatch(`${what}: ${difference}`)
}
export function same<Value>(found: Value, wanted: Value, what: string): void {
  if (found !== wanted) throw new Mismatch(`${what}: ${String(found)}, expected ${String(wanted)}`)
}
function sameBytes(found: Bytes | 'missing' | undefined, wanted: Bytes, what: string): void {
  if (typeof found !== 'object' || !equalBytes(found, wanted))
    throw new Mismatch(
      `${what}: ${typeof found === 'object' ? hex(found) : found}, expected ${hex(wanted)}`,
    )
}

/** An answer that is not the truth. */
export class Mismatch extends Error {
  override name = 'Mismatch'
}

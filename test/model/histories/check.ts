/**
 * Compares the answers of a leased view with the truth of its snapshot. An answer is right, or it
 * is "void" or "pruned" where the rules allow that.
 */

import { matches } from '../../../engine/chain/logs.ts'
import type { Block, ChainView, LogPattern } from '../../../engine/chain/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { hashHeader } from '../../../engine/primitives/header.ts'
import type { Log } from '../../../engine/primitives/receipt.ts'
import { encodeStoredReceipt } from '../../../engine/primitives/receipt-codec.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import {
  FlashblockUnavailableError,
  type StateReader,
  ViewError,
} from '../../../engine/state/reader.ts'
import { OLDEST, PERSISTED_ID } from '../../../engine/views/arena.ts'
import { foundLogs } from '../../fixtures/found-logs.ts'
import { ADDRESSES, type World } from '../../fixtures/view-blocks.ts'
import type { Random } from './blocks.ts'
import { differenceOf, slotsOf } from './compare-state.ts'
import { GENESIS, type Machine, type Pinned } from './machine.ts'
import {
  ancestorAt,
  isAncestor,
  lastOf,
  locationOf,
  type Node,
  type Prefix,
  visiblePrefix,
  worldOf,
} from './truth.ts'

/** Checks one random block of the view, and asks some questions about others. */
export function checkSample(machine: Machine, pinned: Pinned, random: Random): void {
  const { top } = headsOf(pinned)
  const { nodes, transactions } = machine.truth
  const heights = top.number - GENESIS + 1
  // Most samples are near the head, where the diff layers are, or at the base, where they end.
  const back = random(random(3) === 0 ? heights : Math.min(heights, 7))
  const number = random(4) === 0 ? pinned.visible.base.number : top.number - back
  checkHeight(machine, pinned, { number, random, isComplete: random(3) === 0 })
  checkStranger(machine, pinned, nodes.at(-1 - random(Math.min(nodes.length, 60)))!)
  const transaction = transactions.at(-1 - random(Math.min(transactions.length, 80)))
  if (transaction !== undefined) checkLocation(machine, pinned, transaction.transaction.hash)
  if (random(4) === 0) {
    const node = ancestorAt(top, top.number - random(Math.min(heights, PREFIXES_BACK)))!
    checkPrefix(machine, pinned, { node, at: random(node.prefixes.length), random })
    checkFlashblock(machine, pinned, { node, at: random(node.prefixes.length + 1), random })
  }
  if (random(6) === 0) {
    const last = top.number - random(Math.min(heights, 30))
    checkLogs(machine, pinned, { last, first: last - random(8), random })
  }
}

/** Checks every block of the view, newest first, and all blocks and transactions made lately. */
export function checkAll(machine: Machine, pinned: Pinned, random: Random): void {
  const { top } = headsOf(pinned)
  for (let node: Node | undefined = top; node !== undefined; node = node.parent) {
    checkHeight(machine, pinned, { number: node.number, random, isComplete: true })
    if (node.number > top.number - PREFIXES_BACK)
      for (let at = 0; at < node.prefixes.length; at++) {
        checkPrefix(machine, pinned, { node, at, random })
        checkFlashblock(machine, pinned, { node, at, random })
      }
  }
  for (const node of machine.truth.nodes.slice(-60)) checkStranger(machine, pinned, node)
  for (const { transaction } of machine.truth.transactions.slice(-60))
    checkLocation(machine, pinned, transaction.hash)
  checkLogs(machine, pinned, { first: GENESIS, last: top.number, random })
}
/**
 * The hashes between flashblocks are requested for this many blocks below the head. The store keeps
 * 64.
 */
const PREFIXES_BACK = 9

/** Returns the newest block of the view, its newest visible flashblock, and `latest`. */
export function headsOf({ visible, endpoint }: Pinned) {
  const { canonical, complete, pending, index } = visible
  if (endpoint === 'standard') return { top: canonical, index: undefined, latest: canonical }
  return { top: pending, index, latest: complete }
}

/**
 * Checks the state that the writer builds on.
 * @throws {ViewError}
 */
export function checkParentState(
  machine: Machine,
  pinned: Pinned,
  { parent, random }: { readonly parent: Node; readonly random: Random },
): void {
  const { view } = pinned.leased
  const block = view.block({ hash: parent.final!.hash, requireCanonical: false })
  if (block === undefined) throw new Mismatch(`the writer finds no block ${parent.number}`)
  const state = view.state(block)
  sameState(state, { world: worldOf(parent), random }, `state of parent ${parent.number}`)
  machine.counts.add('states', 1)
}

function checkHeight(
  machine: Machine,
  pinned: Pinned,
  at: { readonly number: number; readonly random: Random; readonly isComplete: boolean },
): void {
  const { number, random } = at
  const { view } = pinned.leased
  const { top, index } = headsOf(pinned)
  const node = ancestorAt(top, number)!
  const prefix = visiblePrefix(node, node === top ? index : undefined)
  const isPrefix = node === top && index !== undefined
  const hash = isPrefix ? prefix.hash : node.final!.hash
  allowing(machine, pinned, { number }, () => {
    const block = view.block({ number: BigInt(number) })
    const name = `${nameOf(node, isPrefix ? index : undefined)} in snapshot ${view.snapshot}`
    if (block === undefined) throw new Mismatch(`${name}: there is none`)
    sameBytes(block.hash, hash, `hash of ${name}`)
    same(block.flashblockIndex, isPrefix ? index : undefined, `index of ${name}`)
    if (at.isComplete) checkContents(view, block, { prefix, name })
    const byHash = view.block({ hash, requireCanonical: true })
    sameBytes(byHash?.hash, hash, `by hash, ${name}`)
    checkState(machine, pinned, { block, node, prefix, random })
  })
  if (number === top.number) checkHeads(machine, pinned)
}

/** Compares header, transactions, receipts, and the locations of the transactions. */
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
    const location = view.findTransaction(transaction.hash)
    same(location?.index, at, `location, ${what}`)
    sameBytes(location?.block.hash, block.hash, `block, ${what}`)
  }
  same(block.transaction(prefix.executed.length), undefined, `one more transaction of ${name}`)
}

function checkState(
  machine: Machine,
  pinned: Pinned,
  at: {
    readonly block: Block
    readonly node: Node
    readonly prefix: Prefix
    readonly random: Random
  },
): void {
  const { block, node, prefix, random } = at
  const name = `${nameOf(node, block.flashblockIndex)} in snapshot ${pinned.leased.view.snapshot}`
  const isPrefix = block.flashblockIndex !== undefined
  allowing(machine, pinned, { number: node.number, isPrefix }, () => {
    const state = pinned.leased.view.state(block)
    sameState(state, { world: prefix.world, random }, `state of ${name}`)
    machine.counts.add('states')
    const below = GENESIS + random(node.number - GENESIS + 2)
    const wanted = below === node.number ? block.hash : ancestorAt(node, below)?.final?.hash
    const hash = state.blockHash(BigInt(below))
    if (wanted === undefined) same(hash, undefined, `number ${below} to hash in ${name}`)
    else sameBytes(hash, wanted, `number ${below} to hash in ${name}`)
    if (node.number < pinned.visible.base.number || random(3) !== 0) return
    allowing(machine, pinned, { number: node.number, isListing: true }, () => {
      const account = random(ADDRESSES.length)
      same(slotsOf(state, account), prefix.world[account]!.slots.join(), `slots in ${name}`)
    })
  })
}

function checkHeads(machine: Machine, pinned: Pinned): void {
  const { view } = pinned.leased
  const { top, index, latest } = headsOf(pinned)
  const { canonical, safe, finalized } = pinned.visible
  allowing(machine, pinned, { number: finalized }, () => {
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

/** The view must find a block of any branch exactly when the block is on the chain of the view. */
function checkStranger(machine: Machine, pinned: Pinned, node: Node): void {
  const { top, index } = headsOf(pinned)
  const { hash } = node.final!
  allowing(machine, pinned, { number: node.number }, () => {
    const found = pinned.leased.view.block({ hash, requireCanonical: false })
    if (isAncestor(node, top) && (node !== top || index === undefined))
      sameBytes(found?.hash, hash, `block ${node.number} of this chain by hash`)
    else same(found === undefined, true, `block ${node.number} of another chain is not found`)
  })
}

/** The view must find a transaction exactly when its block is on the chain of the view. */
function checkLocation(machine: Machine, pinned: Pinned, hash: Bytes): void {
  const { top, index } = headsOf(pinned)
  const wanted = locationOf(top, index, hash)
  allowing(machine, pinned, { number: wanted?.node.number ?? top.number }, () => {
    const { view } = pinned.leased
    const found = view.findTransaction(hash)
    same(found && Number(found.block.number), wanted?.node.number, 'block of a transaction')
    same(found?.index, wanted?.at, 'index of a transaction')
    const [persisted] = view.persistedNumbers([hash])
    if (persisted === undefined) return
    machine.counts.add('found in a persisted block')
    same(persisted, wanted?.node.number, 'folded block of a transaction')
  })
}

/** Asks for a block between two of its flashblocks, by the hash that it had then. */
function checkPrefix(
  machine: Machine,
  pinned: Pinned,
  one: { readonly node: Node; readonly at: number; readonly random: Random },
): void {
  const { node, at, random } = one
  const { view } = pinned.leased
  const { top, index } = headsOf(pinned)
  if (node.parent === undefined) return
  const { hash } = node.prefixes[at]!
  // Several prefixes can have one hash, because an empty flashblock leaves the header as it was.
  const last = node === top && index !== undefined ? index : node.prefixes.length - 1
  const equals = node.prefixes.findLastIndex(
    (each, other) => other <= last && equalBytes(each.hash, hash),
  )
  const name = `${nameOf(node, at)} by its hash in snapshot ${view.snapshot}`
  allowing(machine, pinned, { number: node.number }, () => {
    const block = view.block({ hash, requireCanonical: false })
    if (pinned.endpoint === 'standard' || equals < 0) {
      same(block === undefined, true, `no ${name}`)
      return
    }
    // The block comes from the diff layers of this run or from the store. A full block has no
    // prefixes.
    if (block === undefined) {
      same(node.isPartialRetained, false, `that there is no ${name}`)
      return
    }
    same(block.flashblockIndex, equals, name)
    const prefix = node.prefixes[equals]!
    checkContentsOfPrefix(block, prefix, name)
    machine.counts.add('prefixes')
    const isPersisted =
      node.number <= pinned.visible.base.number || machine.truth.recovered.has(node)
    allowing(machine, pinned, { number: node.number, isPrefix: true, isPersisted }, () => {
      const state = view.state(block)
      sameState(state, { world: prefix.world, random }, `state of ${name}`)
    })
  })
}

/**
 * Asks for a block between two of its flashblocks by number and index. The view has it until the
 * block is persisted, if its flashblocks came in this run.
 */
function checkFlashblock(
  machine: Machine,
  pinned: Pinned,
  one: { readonly node: Node; readonly at: number; readonly random: Random },
): void {
  const { node, at, random } = one
  const { view } = pinned.leased
  const { top, index } = headsOf(pinned)
  const isEmitted = node.isPartialRetained && !machine.truth.recovered.has(node)
  const isRetained = node.number > pinned.visible.base.number && isEmitted
  const last = node === top && index !== undefined ? index : node.prefixes.length - 1
  const name = `${nameOf(node, at)} by its index in snapshot ${view.snapshot}`
  allowing(machine, pinned, { number: node.number }, () => {
    const found = flashblockOf(view, node.number, at)
    if (!isRetained) {
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
    if (error instanceof FlashblockUnavailableError && error.why === 'gone') return 'gone'
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

/** Searches the logs of a range of blocks. */
function checkLogs(
  machine: Machine,
  pinned: Pinned,
  range: { readonly first: number; readonly last: number; readonly random: Random },
): void {
  const { last, random } = range
  const { view } = pinned.leased
  const { top, index } = headsOf(pinned)
  const first = Math.max(GENESIS, range.first)
  const filter = {
    fromBlock: BigInt(first),
    toBlock: BigInt(last),
    ...patternOf(machine, random),
  }
  const wanted: string[] = []
  for (let number = first; number <= last; number++) {
    const node = ancestorAt(top, number)!
    const { executed } = node === top ? visiblePrefix(node, index) : lastOf(node)
    let at = 0
    for (const { transaction, receipt } of executed)
      for (const log of receipt.logs) {
        const where = `${number}:${at++}`
        if (matches(log, filter)) wanted.push(`${where} ${hex(transaction.hash)}`)
      }
  }
  allowing(machine, pinned, { number: first }, () => {
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

/**
 * Builds a pattern of up to three alternatives at a position, some from existing logs. Most
 * patterns have one or two positions.
 */
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

/** Runs a question. A refusal is right only where the protection of the snapshot has ended. */
function allowing(
  machine: Machine,
  { visible }: Pinned,
  about: {
    readonly number: number
    readonly isPrefix?: boolean
    readonly isPersisted?: boolean
    readonly isListing?: boolean
  },
  request: () => void,
): void {
  try {
    request()
  } catch (error) {
    if (!(error instanceof ViewError)) throw error
    const { words } = machine.arena
    const isUnwound = machine.unwinds.raised > visible.unwinds
    const isPruned = Math.min(about.number, visible.base.number) < Atomics.load(words, OLDEST)
    const isOvertaken = machine.truth.find(Atomics.load(words, PERSISTED_ID)) !== visible.base
    const isAllowed =
      error.reason === 'void'
        ? isUnwound || (about.isListing === true && isOvertaken)
        : error.reason === 'pruned' &&
          (isPruned || (about.isPrefix === true && about.isPersisted !== false))
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

/** A response differs from the truth. */
export class Mismatch extends Error {
  override name = 'Mismatch'
}

/**
 * Questions about blocks, transactions, receipts, logs and hashes, even of blocks that the view
 * must not contain.
 */

import type { Block, FlashblockId, FoundLog } from '../../engine/chain/types.ts'
import { hashHeader } from '../../engine/primitives/header.ts'
import type { Log } from '../../engine/primitives/receipt.ts'
import { FlashblockUnavailableError } from '../../engine/state/reader.ts'
import { foundLogs } from '../fixtures/found-logs.ts'
import {
  blockTopic,
  executedOf,
  firstIndex,
  GENESIS_NUMBER,
  locationOf,
  logsOf,
  transactionsAt,
  transactionsIn,
  word,
} from './content.ts'
import {
  ancestorOf,
  blockOf,
  FINAL_STEP,
  GENESIS,
  hashOf,
  newestSalt,
  payloadIdOf,
} from './ledger.ts'
import {
  blockAt,
  hex,
  isLongAgo,
  MixedView,
  nameOf,
  pointAt,
  type Reading,
  same,
} from './reading.ts'
import type { Point } from './truth.ts'

const RECENT = 6
const OLD = 40
/**
 * Questions go back this many salts from the newest: to visible blocks, dropped ones and later
 * ones.
 */
const SALTS = 40
/** These few salts reach back to blocks that are not persisted. */
const FEW_SALTS = 6

export function requestChain(reading: Reading): void {
  const dice = reading.reader.random()
  if (dice < 0.3) requestBlock(reading)
  else if (dice < 0.65) requestTransaction(reading)
  else if (dice < 0.85) requestHash(reading)
  else if (dice < 0.93) requestFlashblock(reading)
  else if (dice < 0.97) requestLogs(reading)
  else requestTags(reading)
}

/** Requests a block by its number and checks all of its content. */
function requestBlock(reading: Reading): void {
  const { random, count, truth } = reading.reader
  const back = Math.floor(random() * (random() < 0.7 ? RECENT : OLD))
  const height = Math.max(GENESIS_NUMBER, reading.topHeight - back)
  const point = pointAt(reading, height)
  const block = blockAt(reading, { number: BigInt(height) }, point)
  checkBlock(reading, block, point)
  const total = transactionsAt(truth.ledger, point)
  for (let index = 0; index < total; index++) checkTransaction(reading, block, { point, index })
  count('blocks')
}

function checkBlock(reading: Reading, block: Block, point: Point): void {
  const { ledger } = reading.reader.truth
  const { header } = block
  const { height, parent } = blockOf(ledger, point.salt)
  const name = () => `block ${height} (${point.salt}.${point.step}) in ${nameOf(reading)}`
  same(hashHeader(header), hashOf(ledger, point.salt, point.step), () => `header of ${name()}`)
  same(header.extraData, word(point.salt, point.step), () => `extra data of ${name()}`)
  if (parent !== 0)
    same(header.parentHash, hashOf(ledger, parent, FINAL_STEP), () => `parent of ${name()}`)
  const total = transactionsAt(ledger, point)
  const step = point.step === FINAL_STEP ? undefined : point.step
  if (block.transactionCount !== total || block.flashblockIndex !== step)
    throw new MixedView(
      `${name()} has ${block.transactionCount} transactions at index ${block.flashblockIndex}, not ${total}`,
    )
}

function checkTransaction(
  reading: Reading,
  block: Block,
  { point, index }: { readonly point: Point; readonly index: number },
): void {
  const { truth, count } = reading.reader
  const location = locationOf(truth.ledger, point.salt, index)
  const from = { salt: point.salt, step: location.step }
  const wanted = executedOf(truth.ledger, from, location.index)
  const name = (what: string) => () =>
    `${what} ${index} of block ${block.number} (${from.salt}.${from.step}) in ${nameOf(reading)}`
  same(block.transactionHash(index), wanted.transaction.hash, name('hash of transaction'))
  // A decoded transaction must have the hash of its bytes.
  same(block.transaction(index)?.hash, wanted.transaction.hash, name('transaction'))
  const receipt = block.receipt(index)
  if (receipt?.cumulativeGasUsed !== wanted.receipt.cumulativeGasUsed)
    throw new MixedView(`${name('receipt')()} is of another transaction`)
  checkLogs(receipt.logs, wanted.receipt.logs, name('logs of receipt'))
  count('receipts')
}

function checkLogs(found: readonly Log[], wanted: readonly Log[], name: () => string): void {
  if (found.length !== wanted.length)
    throw new MixedView(`${name()}: ${found.length}, expected ${wanted.length}`)
  for (const [at, log] of wanted.entries()) {
    same(found[at]!.data, log.data, name)
    same(found[at]!.topics[0], log.topics[0], name)
    same(found[at]!.address, log.address, name)
  }
}

/** Chooses a block that started recently, even a dropped one. */
function chooseSalt({ reader }: Reading, back = SALTS): number {
  const newest = newestSalt(reader.truth.ledger)
  return Math.max(GENESIS + 1, newest - Math.floor(reader.random() * back))
}

/** Returns whether the view has the block at least up to a step; FINAL_STEP: to its end. */
function isOnChain({ reader, top, topHeight }: Reading, { salt, step }: Point): boolean {
  const { ledger } = reader.truth
  const { height } = blockOf(ledger, salt)
  if (height > topHeight || ancestorOf(ledger, top.salt, height) !== salt) return false
  if (height < topHeight || top.step === FINAL_STEP) return true
  return step !== FINAL_STEP && step <= top.step
}

/** Requests a transaction by its hash. The view must have it at its index, or not at all. */
function requestTransaction(reading: Reading): void {
  const { random, count, truth } = reading.reader
  const { ledger } = truth
  const salt = chooseSalt(reading)
  const { steps, height } = blockOf(ledger, salt)
  if (steps === 0) return
  const step = Math.floor(random() * steps)
  const within = transactionsIn(ledger, salt, step)
  if (within === 0) return
  const index = Math.floor(random() * within)
  const { hash } = executedOf(ledger, { salt, step }, index).transaction
  const found = reading.view.findTransaction(hash)
  const name = () => `transaction ${index} of ${height} (${salt}.${step}) in ${nameOf(reading)}`
  count('transactions')
  if (!isOnChain(reading, { salt, step })) {
    if (found !== undefined)
      throw new MixedView(`${name()} is found in block ${found.block.number}: it is not there`)
    return
  }
  const point = pointAt(reading, height)
  const wanted = firstIndex(ledger, { salt, step }) + index
  if (found?.index !== wanted || found.block.number !== BigInt(height))
    throw new MixedView(`${name()} is found at ${found?.block.number}.${found?.index}`)
  checkBlock(reading, found.block, point)
  checkTransaction(reading, found.block, { point, index: wanted })
}

/** Requests a block by its final hash or by one between two flashblocks. */
function requestHash(reading: Reading): void {
  const { reader, endpoint, top } = reading
  const { random, count, truth } = reader
  const { ledger } = truth
  const salt = chooseSalt(reading)
  const { steps, isFinished, isFullBlock, height } = blockOf(ledger, salt)
  const isFinal = isFullBlock || random() < 0.5
  if (isFinal ? !isFinished : steps === 0) return
  const step = isFinal ? FINAL_STEP : Math.floor(random() * steps)
  const requireCanonical = random() < 0.5
  const hash = hashOf(ledger, salt, step)
  const found = reading.view.block({ hash, requireCanonical })
  const isTop = top.salt === salt && top.step === step
  const isVisible = isFinal || (endpoint === 'flashblocks' && (isTop || !requireCanonical))
  const isWanted = isVisible && isOnChain(reading, { salt, step })
  count('hashes')
  const name = () =>
    `block ${height} (${salt}.${step}) by its hash ${hex(hash)} in ${nameOf(reading)}`
  if (found === undefined && !isFinal && isLongAgo(reading, height)) return
  if ((found !== undefined) !== isWanted)
    throw new MixedView(`${name()} is ${isWanted ? 'not ' : ''}found`)
  if (found !== undefined) checkBlock(reading, found, { salt, step })
}

/**
 * Requests a block at one of its flashblocks, by number and index. The payload is absent, that of
 * the chain, or another.
 */
function requestFlashblock(reading: Reading): void {
  const { random, count, truth } = reading.reader
  const salt = chooseSalt(reading, random() < 0.7 ? FEW_SALTS : SALTS)
  const { steps, height } = blockOf(truth.ledger, salt)
  const index = Math.floor(random() * (steps + 1))
  const payloadId = random() < 0.5 ? payloadIdOf(salt) : undefined
  const wanted = flashblockWanted(reading, { salt, height, index }, payloadId)
  const found = flashblockAt(reading, { number: BigInt(height), index, payloadId })
  const name = `flashblock ${height}.${index} (${payloadId}) of ${nameOf(reading)}`
  if (typeof wanted === 'object' && typeof found === 'object') {
    checkBlock(reading, found, wanted)
    const total = transactionsAt(truth.ledger, wanted)
    if (total > 0) checkTransaction(reading, found, { point: wanted, index: total - 1 })
    count('flashblocks')
    return
  }
  if (found !== wanted)
    throw new MixedView(`${name} is ${found ?? 'nothing'}, expected ${wanted ?? 'nothing'}`)
  if (wanted === 'gone') count('flashblocksGone')
}

function flashblockWanted(
  { reader: { truth }, snapshot, top, topHeight }: Reading,
  at: { readonly salt: number; readonly height: number; readonly index: number },
  payloadId: string | undefined,
): Point | 'gone' | 'replaced' | undefined {
  const { salt, height, index } = at
  if (height > topHeight) return undefined
  if (height <= snapshot.base.height) return 'gone'
  const there = ancestorOf(truth.ledger, top.salt, height)
  const { isFullBlock, steps } = blockOf(truth.ledger, there)
  if (isFullBlock) return 'gone'
  if (payloadId !== undefined && there !== salt) return 'replaced'
  const last = height === topHeight && top.step !== FINAL_STEP ? top.step : steps - 1
  return index > last ? undefined : { salt: there, step: index }
}

function flashblockAt(
  { view }: Reading,
  flashblockId: FlashblockId,
): Block | 'gone' | 'replaced' | undefined {
  try {
    return view.block({ flashblock: flashblockId })
  } catch (error) {
    if (error instanceof FlashblockUnavailableError) return error.why
    throw error
  }
}

/** Requests the logs of one block in a range of a few, and checks their order and indexes. */
function requestLogs(reading: Reading): void {
  const { random, count, truth } = reading.reader
  const { ledger } = truth
  const toBlock = Math.max(GENESIS_NUMBER, reading.topHeight - Math.floor(random() * 3))
  const fromBlock = Math.max(GENESIS_NUMBER, toBlock - 3)
  const of = fromBlock + Math.floor(random() * (toBlock - fromBlock + 1))
  const point = pointAt(reading, of)
  const filter = {
    fromBlock: BigInt(fromBlock),
    toBlock: BigInt(toBlock),
    addresses: [],
    topics: [[blockTopic(point.salt)]],
  }
  const limits = { maxLogs: 10_000, maxReads: 10_000, maxBytes: 1e9, isExpired: () => false }
  const search = foundLogs(reading.view, filter, limits)
  const found: readonly FoundLog[] = search.status === 'found' ? search.logs : []
  const wanted: Log[] = []
  const total = transactionsAt(ledger, point)
  for (let index = 0; index < total; index++) {
    const location = locationOf(ledger, point.salt, index)
    wanted.push(...logsOf(ledger, { salt: point.salt, step: location.step }, location.index))
  }
  const name = () => `logs of block ${of} (${point.salt}.${point.step}) in ${nameOf(reading)}`
  checkLogs(
    found.map(({ log }) => log),
    wanted,
    name,
  )
  for (const [at, { logIndex }] of found.entries())
    if (logIndex !== at) throw new MixedView(`${name()}: index ${logIndex} at ${at}`)
  count('logs', found.length)
}

function requestTags(reading: Reading): void {
  const { heads } = reading
  const { ledger } = reading.reader.truth
  const point = { salt: ancestorOf(ledger, heads.canonical, heads.safe), step: FINAL_STEP }
  for (const tag of ['safe', 'finalized'] as const)
    checkBlock(reading, blockAt(reading, { tag }, point), point)
  const genesis = { salt: GENESIS, step: FINAL_STEP }
  checkBlock(reading, blockAt(reading, { tag: 'earliest' }, genesis), genesis)
}

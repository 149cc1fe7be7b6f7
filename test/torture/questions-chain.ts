/** Questions about blocks, transactions, receipts, logs and hashes, also of blocks that the view must not know. */

import type { Block, FlashblockPlace, FoundLog } from '../../engine/chain/types.ts'
import { hashHeader } from '../../engine/primitives/header-codec.ts'
import type { Log } from '../../engine/primitives/receipt.ts'
import { PlaceError } from '../../engine/state/reader.ts'
import { foundLogs } from '../fixtures/found-logs.ts'
import {
  blockTopic,
  executedOf,
  firstIndex,
  GENESIS_NUMBER,
  logsOf,
  placeOf,
  transactionsAt,
  transactionsIn,
  word,
} from './content.ts'
import { ancestorOf, blockOf, GENESIS, hashOf, newestSalt, payloadIdOf, WHOLE } from './ledger.ts'
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

const NEAR = 6
const FAR = 40
/** Salts back from the newest of blocks that are asked for: shown ones, dropped ones, later ones. */
const SALTS = 40
/** And back to those that are not folded. */
const FEW_SALTS = 6

export function askChain(reading: Reading): void {
  const dice = reading.reader.random()
  if (dice < 0.3) askBlock(reading)
  else if (dice < 0.65) askTransaction(reading)
  else if (dice < 0.85) askHash(reading)
  else if (dice < 0.93) askFlashblock(reading)
  else if (dice < 0.97) askLogs(reading)
  else askTags(reading)
}

/** A block by its number: all that is in it. */
function askBlock(reading: Reading): void {
  const { random, count, truth } = reading.reader
  const back = Math.floor(random() * (random() < 0.7 ? NEAR : FAR))
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
    same(header.parentHash, hashOf(ledger, parent, WHOLE), () => `parent of ${name()}`)
  const total = transactionsAt(ledger, point)
  const step = point.step === WHOLE ? undefined : point.step
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
  const place = placeOf(truth.ledger, point.salt, index)
  const from = { salt: point.salt, step: place.step }
  const wanted = executedOf(truth.ledger, from, place.index)
  const name = (what: string) => () =>
    `${what} ${index} of block ${block.number} (${from.salt}.${from.step}) in ${nameOf(reading)}`
  same(block.transactionHash(index), wanted.transaction.hash, name('hash of transaction'))
  // The hash of what is decoded is that of its bytes.
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

/** A block that was begun not long ago, whatever became of it. */
function chooseSalt({ reader }: Reading, back = SALTS): number {
  const newest = newestSalt(reader.truth.ledger)
  return Math.max(GENESIS + 1, newest - Math.floor(reader.random() * back))
}

/** Whether the view has the block at least up to a step, WHOLE: to its end. */
function holds({ reader, top, topHeight }: Reading, { salt, step }: Point): boolean {
  const { ledger } = reader.truth
  const { height } = blockOf(ledger, salt)
  if (height > topHeight || ancestorOf(ledger, top.salt, height) !== salt) return false
  if (height < topHeight || top.step === WHOLE) return true
  return step !== WHOLE && step <= top.step
}

/** A transaction by its hash: found in its place, or not at all. */
function askTransaction(reading: Reading): void {
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
  if (!holds(reading, { salt, step })) {
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

/** A block by its hash, final or of a moment. */
function askHash(reading: Reading): void {
  const { reader, endpoint, top } = reading
  const { random, count, truth } = reader
  const { ledger } = truth
  const salt = chooseSalt(reading)
  const { steps, isFinished, isWhole, height } = blockOf(ledger, salt)
  const isFinal = isWhole || random() < 0.5
  if (isFinal ? !isFinished : steps === 0) return
  const step = isFinal ? WHOLE : Math.floor(random() * steps)
  const requireCanonical = random() < 0.5
  const hash = hashOf(ledger, salt, step)
  const found = reading.view.block({ hash, requireCanonical })
  const isTop = top.salt === salt && top.step === step
  const isShown = isFinal || (endpoint === 'flashblocks' && (isTop || !requireCanonical))
  const isWanted = isShown && holds(reading, { salt, step })
  count('hashes')
  const name = () =>
    `block ${height} (${salt}.${step}) by its hash ${hex(hash)} in ${nameOf(reading)}`
  if (found === undefined && !isFinal && isLongAgo(reading, height)) return
  if ((found !== undefined) !== isWanted)
    throw new MixedView(`${name()} is ${isWanted ? 'not ' : ''}found`)
  if (found !== undefined) checkBlock(reading, found, { salt, step })
}

/** A block at one of its flashblocks, by number and index, of the chain's payload or of one that may be another. */
function askFlashblock(reading: Reading): void {
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
  { reader: { truth }, record, top, topHeight }: Reading,
  at: { readonly salt: number; readonly height: number; readonly index: number },
  payloadId: string | undefined,
): Point | 'gone' | 'replaced' | undefined {
  const { salt, height, index } = at
  if (height > topHeight) return undefined
  if (height <= record.base.height) return 'gone'
  const there = ancestorOf(truth.ledger, top.salt, height)
  const { isWhole, steps } = blockOf(truth.ledger, there)
  if (isWhole) return 'gone'
  if (payloadId !== undefined && there !== salt) return 'replaced'
  const last = height === topHeight && top.step !== WHOLE ? top.step : steps - 1
  return index > last ? undefined : { salt: there, step: index }
}

function flashblockAt(
  { view }: Reading,
  place: FlashblockPlace,
): Block | 'gone' | 'replaced' | undefined {
  try {
    return view.block({ flashblock: place })
  } catch (error) {
    if (error instanceof PlaceError) return error.why
    throw error
  }
}

/** Logs of a few blocks, those of one of them, in order and with their places. */
function askLogs(reading: Reading): void {
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
    const place = placeOf(ledger, point.salt, index)
    wanted.push(...logsOf(ledger, { salt: point.salt, step: place.step }, place.index))
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

function askTags(reading: Reading): void {
  const { heads } = reading
  const { ledger } = reading.reader.truth
  const point = { salt: ancestorOf(ledger, heads.canonical, heads.safe), step: WHOLE }
  for (const tag of ['safe', 'finalized'] as const)
    checkBlock(reading, blockAt(reading, { tag }, point), point)
  const genesis = { salt: GENESIS, step: WHOLE }
  checkBlock(reading, blockAt(reading, { tag: 'earliest' }, genesis), genesis)
}

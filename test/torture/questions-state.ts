/** Questions about state. Each response is compared with the plain rules. */
import type { Block } from '../../engine/chain/types.ts'
import { EMPTY_HASH } from '../../engine/primitives/keccak.ts'
import {
  ACCOUNT_WORDS,
  SLOT_WORDS,
  type StateReader,
  ViewError,
} from '../../engine/state/reader.ts'
import { bytesOf, wordsOf } from '../../engine/state/words.ts'
import { GENESIS_NUMBER } from './content.ts'
import { ancestorOf, blockOf, FINAL_STEP, hashOf } from './ledger.ts'
import {
  blockAt,
  checkRefusal,
  hex,
  isLongAgo,
  MixedView,
  nameOf,
  pointAt,
  type Reading,
  same,
} from './reading.ts'
import {
  ADDRESSES,
  accountBytes,
  accountOf,
  codeOf,
  hotAccount,
  type Point,
  SLOT_KEYS,
  SLOTS,
  slotBytes,
  type Write,
  writerOfAccount,
  writerOfSlot,
} from './truth.ts'

/** A state that the reader can query. */
export type StateAt = {
  readonly reading: Reading
  readonly point: Point
  readonly height: number
  readonly state: StateReader
}

const ADDRESS_WORDS = ADDRESSES.map(wordsOf)
const SLOT_WORDS_OF = SLOT_KEYS.map(wordsOf)
const account = new Uint32Array(ACCOUNT_WORDS)
const slot = new Uint32Array(SLOT_WORDS)

/** Depth of questions below the newest block: usual depth and rare depth. */
const RECENT = 6
const OLD = 40

/** Opens the state of some block of the view; undefined: the view refused it, and rightly. */
export function chooseState(reading: Reading): StateAt | undefined {
  const { reader, snapshot, topHeight, heads, endpoint, view } = reading
  const { random, truth } = reader
  const dice = random()
  if (dice < 0.5) return openState(reading, blockAt(reading, { tag: 'pending' }, reading.top))
  if (dice < 0.65) {
    const salt = endpoint === 'standard' ? heads.canonical : heads.complete
    const point = { salt, step: FINAL_STEP }
    return openState(reading, blockAt(reading, { tag: 'latest' }, point), point)
  }
  const back = Math.floor(random() * (dice < 0.85 || dice >= 0.95 ? RECENT : OLD))
  const height = Math.max(GENESIS_NUMBER, topHeight - back)
  const point = pointAt(reading, height)
  if (dice < 0.95 || endpoint === 'standard')
    return openState(reading, blockAt(reading, { number: BigInt(height) }, point), point)
  // Opens a prefix by the hash that the block had between two flashblocks.
  const { steps, isFullBlock } = blockOf(truth.ledger, point.salt)
  if (steps === 0 || isFullBlock) return undefined
  const last = point.step === FINAL_STEP ? steps - 1 : point.step
  const step = Math.floor(random() * (last + 1))
  const hash = hashOf(truth.ledger, point.salt, step)
  // A prefix can also be opened by number and index while its block is not persisted.
  const isByFlashblock = height > snapshot.base.height && random() < 0.5
  const flashblock = { number: BigInt(height), index: step }
  const block = view.block(isByFlashblock ? { flashblock } : { hash, requireCanonical: false })
  if (block === undefined && isLongAgo(reading, height)) return undefined
  same(block?.hash, hash, () => `prefix ${point.salt}.${step} of ${nameOf(reading)}`)
  reader.count(isByFlashblock ? 'flashblocks' : 'prefixes')
  return openState(reading, block!, { salt: point.salt, step })
}

function openState(reading: Reading, block: Block, point = reading.top): StateAt | undefined {
  const height = Number(block.number)
  try {
    return { reading, point, height, state: reading.view.state(block) }
  } catch (error) {
    if (!(error instanceof ViewError)) throw error
    checkRefusal(reading, error, height, point.step !== FINAL_STEP)
    reading.reader.count('pruned')
    return undefined
  }
}

/** Asks one random question about a state. */
export function requestState(at: StateAt): void {
  const { reader, snapshot } = at.reading
  const dice = reader.random()
  const of = hotAccount(Math.floor(reader.random() * 2 ** 31))
  try {
    if (dice < 0.44) requestAccount(at, of)
    else if (dice < 0.88) requestSlot(at, of, Math.floor(reader.random() * SLOTS))
    else if (dice < 0.94) requestCode(at, of)
    else if (dice < 0.98) requestNumber(at)
    else requestSlots(at, of)
    if (at.height < snapshot.base.height) reader.count('history')
  } catch (error) {
    if (!(error instanceof ViewError)) throw error
    const isListing = dice >= 0.98
    // A listing reads flat state alone, so it fails below the base and during a persist pass.
    const isRefused = isListing && (error.reason === 'void' || at.height < snapshot.base.height)
    if (!isRefused) checkRefusal(at.reading, error, at.height, at.point.step !== FINAL_STEP)
    if (error.reason === 'void' && !isListing) throw error
    reader.count('pruned')
  }
}

function requestAccount(at: StateAt, of: number): void {
  const { reading, point, state } = at
  const { truth, count } = reading.reader
  const flatBefore = reading.reader.flatReads()
  const presence = state.account(ADDRESS_WORDS[of]!, account, 0)
  const write = truth.account(point, of)
  const found = presence === 'present' ? bytesOf(account) : undefined
  same(found, write && accountBytes(write, of), () => {
    const who = found === undefined ? 'nobody' : writerOfAccount(found)
    return `account ${of} of ${nameOfState(at)} is by ${who}, not ${writerName(write)} (${reading.reader.flatReads() - flatBefore} flat reads)`
  })
  count('accounts')
  countHit(at, write, flatBefore)
}

function requestSlot(at: StateAt, of: number, which: number): void {
  const { reading, point, state } = at
  const { truth, count } = reading.reader
  const flatBefore = reading.reader.flatReads()
  const presence = state.slot(ADDRESS_WORDS[of]!, SLOT_WORDS_OF[which]!, slot, 0)
  const write = truth.slot(point, of, which)
  const found = presence === 'present' ? bytesOf(slot) : undefined
  same(found, write && slotBytes(write, of, which), () => {
    const who = found === undefined ? 'nobody' : writerOfSlot(found)
    return `slot ${which} of account ${of} of ${nameOfState(at)} is by ${who}, not ${writerName(write)}`
  })
  count('slots')
  countHit(at, write, flatBefore)
}

/**
 * Counts a hit of the thread's cache: no diff layer above the base has the value, and no database
 * read happened.
 */
function countHit({ reading, height }: StateAt, write: Write | undefined, flatBefore: number) {
  const { reader, snapshot } = reading
  if (write === undefined || write.height > snapshot.base.height || height < snapshot.base.height)
    return
  if (reader.flatReads() === flatBefore) reader.count('cacheHits')
}

function requestCode({ reading, point, state }: StateAt, of: number): void {
  const { truth, count } = reading.reader
  const write = truth.account(point, of)
  if (write === undefined) return
  const { codeHash } = accountOf(write, of)
  const code = state.code(codeHash)
  same(code, codeOf(write, of), () => `code ${hex(codeHash)} of ${nameOf(reading)}`)
  same(state.code(EMPTY_HASH), new Uint8Array(0), () => 'the empty code')
  count('codes')
}

/** Requests the hash of a lower block, as BLOCKHASH does. */
function requestNumber({ reading, point, height, state }: StateAt): void {
  const { truth, random, count } = reading.reader
  if (height === GENESIS_NUMBER) return
  const back = 1 + Math.floor(random() * Math.min(height - GENESIS_NUMBER, OLD))
  const number = height - back
  const wanted = hashOf(truth.ledger, ancestorOf(truth.ledger, point.salt, number), FINAL_STEP)
  const found = state.blockHash(BigInt(number))
  same(found, wanted, () => `hash of ${number} at ${height} of ${nameOf(reading)}`)
  count('numbers')
}

function requestSlots(at: StateAt, of: number): void {
  const { reading, point, state } = at
  const { truth, count } = reading.reader
  const found = new Map<string, string>()
  for (const { key, value } of state.slots(ADDRESS_WORDS[of]!)) found.set(hex(key), hex(value))
  const wanted = new Map<string, string>()
  for (const [which, key] of SLOT_KEYS.entries()) {
    const write = truth.slot(point, of, which)
    if (write !== undefined) wanted.set(hex(key), hex(slotBytes(write, of, which)))
  }
  if (state.hasSlots(ADDRESS_WORDS[of]!) !== wanted.size > 0)
    throw new MixedView(
      `whether account ${of} of ${nameOfState(at)} has slots: not ${wanted.size > 0}`,
    )
  const isSame =
    found.size === wanted.size && [...wanted].every(([key, value]) => found.get(key) === value)
  if (!isSame)
    throw new MixedView(
      `slots of account ${of} of ${nameOfState(at)}: ${[...found]}, expected ${[...wanted]}`,
    )
  count('listings')
}

const nameOfState = ({ reading, point, height }: StateAt): string =>
  `block ${height} (${point.salt}.${point.step}) in ${nameOf(reading)}`
const writerName = (write: Write | undefined): string =>
  write === undefined ? 'nobody' : `block ${write.height} (${write.salt}.${write.step})`

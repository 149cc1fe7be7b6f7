/** Questions about state: each answer is compared with what the plain rules say. */
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
import { ancestorOf, blockOf, hashOf, WHOLE } from './ledger.ts'
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

/** A state that can be asked. */
export type Place = {
  readonly reading: Reading
  readonly point: Point
  readonly height: number
  readonly state: StateReader
}

const ADDRESS_WORDS = ADDRESSES.map(wordsOf)
const SLOT_WORDS_OF = SLOT_KEYS.map(wordsOf)
const account = new Uint32Array(ACCOUNT_WORDS)
const slot = new Uint32Array(SLOT_WORDS)

/** Blocks below the newest that are asked for, mostly and now and then. */
const NEAR = 6
const FAR = 40

/** Opens the state of some block of the view; undefined: it was refused, and rightly. */
export function choosePlace(reading: Reading): Place | undefined {
  const { reader, record, topHeight, heads, endpoint, view } = reading
  const { random, truth } = reader
  const dice = random()
  if (dice < 0.5) return openPlace(reading, blockAt(reading, { tag: 'pending' }, reading.top))
  if (dice < 0.65) {
    const salt = endpoint === 'standard' ? heads.canonical : heads.complete
    const point = { salt, step: WHOLE }
    return openPlace(reading, blockAt(reading, { tag: 'latest' }, point), point)
  }
  const back = Math.floor(random() * (dice < 0.85 || dice >= 0.95 ? NEAR : FAR))
  const height = Math.max(GENESIS_NUMBER, topHeight - back)
  const point = pointAt(reading, height)
  if (dice < 0.95 || endpoint === 'standard')
    return openPlace(reading, blockAt(reading, { number: BigInt(height) }, point), point)
  // A prefix by the hash that it had for a moment.
  const { steps, isWhole } = blockOf(truth.ledger, point.salt)
  if (steps === 0 || isWhole) return undefined
  const last = point.step === WHOLE ? steps - 1 : point.step
  const step = Math.floor(random() * (last + 1))
  const hash = hashOf(truth.ledger, point.salt, step)
  // Or by its place, where that is held.
  const isByPlace = height > record.base.height && random() < 0.5
  const flashblock = { number: BigInt(height), index: step }
  const block = view.block(isByPlace ? { flashblock } : { hash, requireCanonical: false })
  if (block === undefined && isLongAgo(reading, height)) return undefined
  same(block?.hash, hash, () => `prefix ${point.salt}.${step} of ${nameOf(reading)}`)
  reader.count(isByPlace ? 'flashblocks' : 'prefixes')
  return openPlace(reading, block!, { salt: point.salt, step })
}

function openPlace(reading: Reading, block: Block, point = reading.top): Place | undefined {
  const height = Number(block.number)
  try {
    return { reading, point, height, state: reading.view.state(block) }
  } catch (error) {
    if (!(error instanceof ViewError)) throw error
    checkRefusal(reading, error, height, point.step !== WHOLE)
    reading.reader.count('pruned')
    return undefined
  }
}

/** Anything about a state. */
export function askState(place: Place): void {
  const { reader, record } = place.reading
  const dice = reader.random()
  const of = hotAccount(Math.floor(reader.random() * 2 ** 31))
  try {
    if (dice < 0.44) askAccount(place, of)
    else if (dice < 0.88) askSlot(place, of, Math.floor(reader.random() * SLOTS))
    else if (dice < 0.94) askCode(place, of)
    else if (dice < 0.98) askNumber(place)
    else askSlots(place, of)
    if (place.height < record.base.height) reader.count('history')
  } catch (error) {
    if (!(error instanceof ViewError)) throw error
    const isListing = dice >= 0.98
    // Slots are listed from flat state alone: not below the base, and not while a fold goes on.
    const isRefused = isListing && (error.reason === 'void' || place.height < record.base.height)
    if (!isRefused) checkRefusal(place.reading, error, place.height, place.point.step !== WHOLE)
    if (error.reason === 'void' && !isListing) throw error
    reader.count('pruned')
  }
}

function askAccount(place: Place, of: number): void {
  const { reading, point, state } = place
  const { truth, count } = reading.reader
  const flatBefore = reading.reader.flatReads()
  const presence = state.account(ADDRESS_WORDS[of]!, account, 0)
  const write = truth.account(point, of)
  const found = presence === 'present' ? bytesOf(account) : undefined
  same(found, write && accountBytes(write, of), () => {
    const who = found === undefined ? 'nobody' : writerOfAccount(found)
    return `account ${of} of ${nameOfPlace(place)} is by ${who}, not ${writerName(write)} (${reading.reader.flatReads() - flatBefore} flat reads)`
  })
  count('accounts')
  countHit(place, write, flatBefore)
}

function askSlot(place: Place, of: number, which: number): void {
  const { reading, point, state } = place
  const { truth, count } = reading.reader
  const flatBefore = reading.reader.flatReads()
  const presence = state.slot(ADDRESS_WORDS[of]!, SLOT_WORDS_OF[which]!, slot, 0)
  const write = truth.slot(point, of, which)
  const found = presence === 'present' ? bytesOf(slot) : undefined
  same(found, write && slotBytes(write, of, which), () => {
    const who = found === undefined ? 'nobody' : writerOfSlot(found)
    return `slot ${which} of account ${of} of ${nameOfPlace(place)} is by ${who}, not ${writerName(write)}`
  })
  count('slots')
  countHit(place, write, flatBefore)
}

/** What no table above the base holds and nobody asked the database for came from the thread's cache. */
function countHit({ reading, height }: Place, write: Write | undefined, flatBefore: number) {
  const { reader, record } = reading
  if (write === undefined || write.height > record.base.height || height < record.base.height)
    return
  if (reader.flatReads() === flatBefore) reader.count('cacheHits')
}

function askCode({ reading, point, state }: Place, of: number): void {
  const { truth, count } = reading.reader
  const write = truth.account(point, of)
  if (write === undefined) return
  const { codeHash } = accountOf(write, of)
  const code = state.code(codeHash)
  same(code, codeOf(write, of), () => `code ${hex(codeHash)} of ${nameOf(reading)}`)
  same(state.code(EMPTY_HASH), new Uint8Array(0), () => 'the empty code')
  count('codes')
}

/** The hash of a block below, as BLOCKHASH has it. */
function askNumber({ reading, point, height, state }: Place): void {
  const { truth, random, count } = reading.reader
  if (height === GENESIS_NUMBER) return
  const back = 1 + Math.floor(random() * Math.min(height - GENESIS_NUMBER, FAR))
  const number = height - back
  const wanted = hashOf(truth.ledger, ancestorOf(truth.ledger, point.salt, number), WHOLE)
  const found = state.blockHash(BigInt(number))
  same(found, wanted, () => `hash of ${number} at ${height} of ${nameOf(reading)}`)
  count('numbers')
}

function askSlots(place: Place, of: number): void {
  const { reading, point, state } = place
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
      `whether account ${of} of ${nameOfPlace(place)} has slots: not ${wanted.size > 0}`,
    )
  const isSame =
    found.size === wanted.size && [...wanted].every(([key, value]) => found.get(key) === value)
  if (!isSame)
    throw new MixedView(
      `slots of account ${of} of ${nameOfPlace(place)}: ${[...found]}, expected ${[...wanted]}`,
    )
  count('listings')
}

const nameOfPlace = ({ reading, point, height }: Place): string =>
  `block ${height} (${point.salt}.${point.step}) in ${nameOf(reading)}`
const writerName = (write: Write | undefined): string =>
  write === undefined ? 'nobody' : `block ${write.height} (${write.salt}.${write.step})`

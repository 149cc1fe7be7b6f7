/**
 * What was published, in plain shared memory beside the arena: the blocks with their parents and hashes, and the heads of each record.
 * The writer writes a line before it publishes what the line is about; readers take from here what a view has to say.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'

/** Plain data: crosses threads. */
export type SharedLedger = {
  readonly seed: number
  /** Bytes of a large transaction, and that one of so many is large. */
  readonly payloadBytes: number
  readonly largeIn: number
  readonly blocks: Int32Array<SharedArrayBuffer>
  readonly records: Int32Array<SharedArrayBuffer>
}

/** A block is known by its salt: 1 is genesis, each further one, shown or not, takes the next number. */
export type LedgerBlock = {
  readonly salt: number
  readonly height: number
  /** Salt of its parent, 0 of genesis. */
  readonly parent: number
  /** Flashblocks so far. */
  readonly steps: number
  readonly isFinished: boolean
  /** Executed for its source alone: nobody saw a header of it before the final one. */
  readonly isWhole: boolean
}
export type LedgerRecord = {
  readonly canonical: number
  readonly complete: number
  readonly pending: number
  /** Newest flashblock of pending, WHOLE when it is finished. */
  readonly pendingStep: number
  readonly safe: number
}

export const GENESIS = 1
export const MAX_STEPS = 8
/** The step of a finished block. */
export const WHOLE = -1

const BLOCKS = 2 ** 16
const BLOCK_WORDS = 16 + 8 * MAX_STEPS
const RECORDS = 2 ** 18
const RECORD_WORDS = 8

const HEIGHT = 0
const PARENT = 1
const STEPS = 2
const FINISHED = 3
const FROM_SOURCE = 4
const FINAL_HASH = 8
const STEP_HASHES = 16

const COMPLETE = 1
const PENDING = 2
const PENDING_STEP = 3
const SAFE = 4
const SEEN = 5

export function createLedger(options: {
  readonly seed: number
  readonly payloadBytes: number
  readonly largeIn: number
}): SharedLedger {
  const words = (count: number) => new Int32Array(new SharedArrayBuffer(4 * count))
  return { ...options, blocks: words(BLOCKS * BLOCK_WORDS), records: words(RECORDS * RECORD_WORDS) }
}

const line = (salt: number) => salt * BLOCK_WORDS

export function blockOf({ blocks }: SharedLedger, salt: number): LedgerBlock {
  const at = line(salt)
  return {
    salt,
    steps: Atomics.load(blocks, at + STEPS),
    height: blocks[at + HEIGHT]!,
    parent: blocks[at + PARENT]!,
    isFinished: Atomics.load(blocks, at + FINISHED) === 1,
    isWhole: blocks[at + FROM_SOURCE] === 1,
  }
}

/** Salt of the newest block. */
export const newestSalt = ({ blocks }: SharedLedger): number => Atomics.load(blocks, 0)

/** 32 bytes: the hash of a block as it was after a step, WHOLE: the final one. */
export function hashOf({ blocks }: SharedLedger, salt: number, step: number): Bytes {
  const at = line(salt) + (step === WHOLE ? FINAL_HASH : STEP_HASHES + 8 * step)
  return new Uint8Array(blocks.buffer, at * 4, 32).slice()
}

/** The block of height `height` that `salt` stands on, or is. */
export function ancestorOf(ledger: SharedLedger, salt: number, height: number): number {
  const { blocks } = ledger
  let at = salt
  while (blocks[line(at) + HEIGHT]! > height) at = blocks[line(at) + PARENT]!
  return at
}

/** The writer's. @throws {Error} when the ledger is full. */
export function beginBlock(
  ledger: SharedLedger,
  block: Pick<LedgerBlock, 'height' | 'parent' | 'isWhole'>,
): number {
  const { blocks } = ledger
  const salt = newestSalt(ledger) + 1
  if (salt >= BLOCKS) throw new Error(`ledger: more than ${BLOCKS} blocks`)
  blocks[line(salt) + HEIGHT] = block.height
  blocks[line(salt) + PARENT] = block.parent
  blocks[line(salt) + FROM_SOURCE] = block.isWhole ? 1 : 0
  Atomics.store(blocks, 0, salt)
  return salt
}

/** The writer's: the block has one flashblock more. */
export function noteStep({ blocks }: SharedLedger, salt: number, hash: Bytes): void {
  const step = blocks[line(salt) + STEPS]!
  putHash(blocks, line(salt) + STEP_HASHES + 8 * step, hash)
  Atomics.store(blocks, line(salt) + STEPS, step + 1)
}

/** The writer's. */
export function noteFinal({ blocks }: SharedLedger, salt: number, hash: Bytes): void {
  putHash(blocks, line(salt) + FINAL_HASH, hash)
  Atomics.store(blocks, line(salt) + FINISHED, 1)
}

function putHash(words: Int32Array<SharedArrayBuffer>, at: number, hash: Bytes): void {
  new Uint8Array(words.buffer).set(hash, at * 4)
}

/** The writer's, before it publishes record `number`. */
export function noteRecord({ records }: SharedLedger, number: number, heads: LedgerRecord): void {
  const { canonical, complete, pending, pendingStep, safe } = heads
  if (number >= RECORDS) throw new Error(`ledger: more than ${RECORDS} records`)
  records.set([canonical, complete, pending, pendingStep, safe, 0], number * RECORD_WORDS)
}

export function recordOf({ records }: SharedLedger, number: number): LedgerRecord {
  const at = number * RECORD_WORDS
  return {
    canonical: records[at]!,
    complete: records[at + COMPLETE]!,
    pending: records[at + PENDING]!,
    pendingStep: records[at + PENDING_STEP]!,
    safe: records[at + SAFE]!,
  }
}

/** A reader has leased it. True: as the first one. */
export const noteSeen = ({ records }: SharedLedger, number: number): boolean =>
  Atomics.exchange(records, number * RECORD_WORDS + SEEN, 1) === 0

/** Of the payload that a block came with. */
export const payloadIdOf = (salt: number): string => `0x${salt.toString(16).padStart(16, '0')}`

/**
 * A record of everything published, in plain shared memory beside the arena: the blocks with their
 * parents and hashes, and the heads of each snapshot. The writer writes a line before it publishes,
 * and readers take from here what a view must contain.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'

/** Plain data that can pass between threads. */
export type SharedLedger = {
  readonly seed: number
  /** Bytes of a large transaction; one in `largeIn` is large. */
  readonly payloadBytes: number
  readonly largeIn: number
  readonly blocks: Int32Array<SharedArrayBuffer>
  readonly snapshots: Int32Array<SharedArrayBuffer>
}

/**
 * A block is identified by its salt. Genesis has 1, and each further block takes the next number,
 * even if it is never published.
 */
export type LedgerBlock = {
  readonly salt: number
  readonly height: number
  /** Salt of its parent; 0 for genesis. */
  readonly parent: number
  /** Flashblocks so far. */
  readonly steps: number
  readonly isFinished: boolean
  /** The block came in full, so no reader saw a header of it before the final one. */
  readonly isFullBlock: boolean
}
export type LedgerSnapshot = {
  readonly canonical: number
  readonly complete: number
  readonly pending: number
  /** Newest flashblock of pending; FINAL_STEP when the block is finished. */
  readonly pendingStep: number
  readonly safe: number
}

export const GENESIS = 1
export const MAX_STEPS = 8
/** Step of a finished block. */
export const FINAL_STEP = -1

const BLOCKS = 2 ** 16
const BLOCK_WORDS = 16 + 8 * MAX_STEPS
const SNAPSHOTS = 2 ** 18
const SNAPSHOT_WORDS = 8

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
  return {
    ...options,
    blocks: words(BLOCKS * BLOCK_WORDS),
    snapshots: words(SNAPSHOTS * SNAPSHOT_WORDS),
  }
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
    isFullBlock: blocks[at + FROM_SOURCE] === 1,
  }
}

/** Returns the salt of the newest block. */
export const newestSalt = ({ blocks }: SharedLedger): number => Atomics.load(blocks, 0)

/** Returns the hash of a block after a step; FINAL_STEP: the final hash. */
export function hashOf({ blocks }: SharedLedger, salt: number, step: number): Bytes {
  const at = line(salt) + (step === FINAL_STEP ? FINAL_HASH : STEP_HASHES + 8 * step)
  return new Uint8Array(blocks.buffer, at * 4, 32).slice()
}

/** Returns the salt of the ancestor of `salt` at a height, which may be `salt` itself. */
export function ancestorOf(ledger: SharedLedger, salt: number, height: number): number {
  const { blocks } = ledger
  let at = salt
  while (blocks[line(at) + HEIGHT]! > height) at = blocks[line(at) + PARENT]!
  return at
}

/**
 * Only the writer calls this.
 * @throws {Error} when the ledger is full.
 */
export function startBlock(
  ledger: SharedLedger,
  block: Pick<LedgerBlock, 'height' | 'parent' | 'isFullBlock'>,
): number {
  const { blocks } = ledger
  const salt = newestSalt(ledger) + 1
  if (salt >= BLOCKS) throw new Error(`ledger: more than ${BLOCKS} blocks`)
  blocks[line(salt) + HEIGHT] = block.height
  blocks[line(salt) + PARENT] = block.parent
  blocks[line(salt) + FROM_SOURCE] = block.isFullBlock ? 1 : 0
  Atomics.store(blocks, 0, salt)
  return salt
}

/** Only the writer calls this: the block has one more flashblock. */
export function recordStep({ blocks }: SharedLedger, salt: number, hash: Bytes): void {
  const step = blocks[line(salt) + STEPS]!
  putHash(blocks, line(salt) + STEP_HASHES + 8 * step, hash)
  Atomics.store(blocks, line(salt) + STEPS, step + 1)
}

/** Only the writer calls this. */
export function recordFinal({ blocks }: SharedLedger, salt: number, hash: Bytes): void {
  putHash(blocks, line(salt) + FINAL_HASH, hash)
  Atomics.store(blocks, line(salt) + FINISHED, 1)
}

function putHash(words: Int32Array<SharedArrayBuffer>, at: number, hash: Bytes): void {
  new Uint8Array(words.buffer).set(hash, at * 4)
}

/** Only the writer calls this, before it publishes snapshot `number`. */
export function addSnapshot(
  { snapshots }: SharedLedger,
  number: number,
  heads: LedgerSnapshot,
): void {
  const { canonical, complete, pending, pendingStep, safe } = heads
  if (number >= SNAPSHOTS) throw new Error(`ledger: more than ${SNAPSHOTS} snapshots`)
  snapshots.set([canonical, complete, pending, pendingStep, safe, 0], number * SNAPSHOT_WORDS)
}

export function snapshotOf({ snapshots }: SharedLedger, number: number): LedgerSnapshot {
  const at = number * SNAPSHOT_WORDS
  return {
    canonical: snapshots[at]!,
    complete: snapshots[at + COMPLETE]!,
    pending: snapshots[at + PENDING]!,
    pendingStep: snapshots[at + PENDING_STEP]!,
    safe: snapshots[at + SAFE]!,
  }
}

/** Notes a lease of a snapshot. Returns true for the first one. */
export const markSeen = ({ snapshots }: SharedLedger, number: number): boolean =>
  Atomics.exchange(snapshots, number * SNAPSHOT_WORDS + SEEN, 1) === 0

/** Returns the payload id of a block. */
export const payloadIdOf = (salt: number): string => `0x${salt.toString(16).padStart(16, '0')}`

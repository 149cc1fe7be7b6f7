/**
 * Caches replays of blocks, so that tracing a block's transactions one by one executes each only
 * once.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine, Limits } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import type { Receipt } from '../../primitives/receipt.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { StateReader } from '../../state/reader.ts'
import type { Observer } from '../../tracers/types.ts'
import { attributesOfHeader, openBlock } from '../block/block.ts'
import { postExecOf } from '../transaction/post-exec.ts'
import type { BlockCheckpoint, BlockExecution } from '../transaction/types.ts'
import { MAX_REPLAYS } from './max-replays.ts'

export type ReplayOptions = {
  readonly engine: Engine
  readonly chain: Pick<ChainSpec, 'rulesAt'>
  /** The state after the parent. */
  readonly reader: StateReader
  readonly header: Header
  readonly hash: Bytes
  /** All transactions of the block. */
  readonly transactions: readonly Transaction[]
  /**
   * Provides the refunds of gas while the block's last transaction may be missing. Left out if the
   * block is complete.
   */
  readonly receipts?: () => readonly Receipt[]
  /** One deadline covers the whole replay. Memory has no limit, because a block's gas bounds it. */
  readonly limits: Omit<Limits, 'memoryBytes'>
  /** Replays of this thread; undefined disables the cache. */
  readonly cached?: ReplayCache
}

/** A block executed up to a transaction. */
export type Replay = {
  readonly engine: Engine
  readonly hash: Bytes
  readonly block: BlockExecution
  /** Checkpoints before each executed transaction. */
  readonly checkpoints: BlockCheckpoint[]
  /** False while a transaction runs, and after an error in a transaction. */
  isIntact: boolean
  /** Sets the reader for further reads; undefined while the replay is in the cache. */
  readFrom(reader: StateReader | undefined): void
}

/** A thread has one cache. A replay that is taken has a single user. */
export type ReplayCache = {
  take(engine: Engine, hash: Bytes): Replay | undefined
  give(replay: Replay): void
}

export function createReplayCache(): ReplayCache {
  let cached: readonly Replay[] = []
  return {
    take(engine, hash) {
      const found = cached.find((one) => one.engine === engine && equalBytes(one.hash, hash))
      cached = cached.filter((one) => one !== found)
      return found
    },
    give(replay) {
      replay.readFrom(undefined)
      const others = cached.filter(({ hash }) => !equalBytes(hash, replay.hash))
      const next = [replay, ...others].slice(0, MAX_REPLAYS)
      for (const one of cached) if (!next.includes(one)) one.block.close()
      cached = next
    },
  }
}

/** The limits ended the replay. */
export class ReplayStopped extends Error {
  override name = 'ReplayStopped'
}

/**
 * Calls `use` with the block before transaction `at`, starting from a cached replay or the block's
 * start. The replay is cached afterwards, unless a transaction failed.
 * @throws {ViewError} {MissingError} {ReplayStopped}
 */
export async function replayed<T>(
  options: ReplayOptions,
  at: number,
  use: (replay: Replay) => Promise<T> | T,
): Promise<T> {
  const { engine, hash, reader, transactions, limits, cached } = options
  const known = cached?.take(engine, hash)
  known?.readFrom(reader)
  const replay = known ?? (await startReplay(options))
  try {
    goBack(replay, at)
    for (const transaction of transactions.slice(replay.checkpoints.length, at))
      await execute(replay, transaction, limits)
    return await use(replay)
  } finally {
    if (replay.isIntact && cached !== undefined) cached.give(replay)
    else replay.block.close()
  }
}

async function startReplay(options: ReplayOptions): Promise<Replay> {
  const { engine, chain, header, hash, transactions, receipts } = options
  const { reader, readFrom } = movable(options.reader)
  const ended = attributesOfHeader(header, transactions.at(-1)?.raw)
  const isOpen = ended.postExec === undefined && receipts !== undefined
  const mayRefund = isOpen && chain.rulesAt(header.number, header.timestamp).hasPostExec
  const postExec = mayRefund ? postExecOf(header.number, receipts()) : ended.postExec
  const attributes = { ...ended, postExec }
  const block = openBlock({ engine, chain, reader, attributes })
  try {
    await block.start()
  } catch (error) {
    block.close()
    throw error
  }
  return { engine, hash, block, checkpoints: [], isIntact: true, readFrom }
}

function goBack({ block, checkpoints }: Replay, to: number): void {
  const mark = checkpoints[to]
  if (mark === undefined) return
  block.revert(mark)
  checkpoints.length = to
}

/**
 * Executes the next transaction of the block.
 * @throws {ReplayStopped} with the block as before
 */
export async function execute(
  replay: Replay,
  transaction: Transaction,
  limits: ReplayOptions['limits'],
  tracer?: Observer,
): Promise<void> {
  if (limits.isExpired?.() === true) throw new ReplayStopped('the deadline has passed')
  const { block, checkpoints } = replay
  const mark = block.checkpoint()
  replay.isIntact = false
  const done = await block.execute(transaction, limits, tracer)
  replay.isIntact = true
  if (done.status === 'stopped') throw new ReplayStopped('the transaction was stopped')
  if (done.status === 'executed') {
    checkpoints.push(mark)
    return
  }
  const name = bytesToHex(transaction.hash)
  throw new Error(
    `replay of block ${block.attributes.number}: ${name} is in it but invalid: ${done.reason.message}`,
  )
}

/**
 * Makes a reader that can switch to another view of the same state. A cached replay must not read a
 * view that was returned.
 */
function movable(first: StateReader): {
  readonly reader: StateReader
  readonly readFrom: Replay['readFrom']
} {
  let current: StateReader | undefined = first
  const now = (): StateReader => {
    if (current === undefined) throw new Error('a kept replay reads while nobody has it')
    return current
  }
  return {
    reader: {
      account: (address, out, at) => now().account(address, out, at),
      slot: (address, key, out, at) => now().slot(address, key, out, at),
      code: (hash) => now().code(hash),
      blockHash: (number) => now().blockHash(number),
      hasSlots: (address) => now().hasSlots(address),
      slots: (address) => now().slots(address),
    },
    readFrom(reader) {
      current = reader
    },
  }
}

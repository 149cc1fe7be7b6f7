/** Replays of blocks, kept for a while: whoever traces the transactions of a block one by one has each of them executed once. */
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
import { MOST_REPLAYS } from './most-replays.ts'

export type ReplayOptions = {
  readonly engine: Engine
  readonly chain: Pick<ChainSpec, 'rulesAt'>
  /** The state after the parent. */
  readonly reader: StateReader
  readonly header: Header
  readonly hash: Bytes
  /** All of the block. */
  readonly transactions: readonly Transaction[]
  /**
   * Asked where the last transaction may be missing yet, which says the refunds of gas; left out:
   * it is there.
   */
  readonly receipts?: () => readonly Receipt[]
  /** One deadline for all of it. Memory has none: what a block has executed is bounded by its gas. */
  readonly limits: Omit<Limits, 'memoryBytes'>
  /** Those of this thread; undefined: none are kept. */
  readonly kept?: KeptReplays
}

/** A block as far as it was executed. */
export type Replay = {
  readonly engine: Engine
  readonly hash: Bytes
  readonly block: BlockExecution
  /** Before each transaction that is executed. */
  readonly marks: BlockCheckpoint[]
  /** False while a transaction runs, and after an error in it. */
  isWhole: boolean
  /** Through whom it reads what it has not read yet; undefined: nobody, until it is taken again. */
  readFrom(reader: StateReader | undefined): void
}

/** One for a thread. Who takes a replay has it alone. */
export type KeptReplays = {
  take(engine: Engine, hash: Bytes): Replay | undefined
  give(replay: Replay): void
}

export function keptReplays(): KeptReplays {
  let kept: readonly Replay[] = []
  return {
    take(engine, hash) {
      const found = kept.find((one) => one.engine === engine && equalBytes(one.hash, hash))
      kept = kept.filter((one) => one !== found)
      return found
    },
    give(replay) {
      replay.readFrom(undefined)
      const others = kept.filter(({ hash }) => !equalBytes(hash, replay.hash))
      const next = [replay, ...others].slice(0, MOST_REPLAYS)
      for (const one of kept) if (!next.includes(one)) one.block.close()
      kept = next
    },
  }
}

/** The limits ended the replay. */
export class ReplayStopped extends Error {
  override name = 'ReplayStopped'
}

/**
 * Runs `use` on the block before its transaction `at`, executed from where a kept replay is or from its begin. It is kept after an error
 * as well, unless that came out of a transaction. @throws {ViewError} {MissingError} {ReplayStopped}
 */
export async function replayed<T>(
  options: ReplayOptions,
  at: number,
  use: (replay: Replay) => Promise<T> | T,
): Promise<T> {
  const { engine, hash, reader, transactions, limits, kept } = options
  const known = kept?.take(engine, hash)
  known?.readFrom(reader)
  const replay = known ?? (await beginReplay(options))
  try {
    goBack(replay, at)
    for (const transaction of transactions.slice(replay.marks.length, at))
      await execute(replay, transaction, limits)
    return await use(replay)
  } finally {
    if (replay.isWhole && kept !== undefined) kept.give(replay)
    else replay.block.close()
  }
}

async function beginReplay(options: ReplayOptions): Promise<Replay> {
  const { engine, chain, header, hash, transactions, receipts } = options
  const { reader, readFrom } = movable(options.reader)
  const ended = attributesOfHeader(header, transactions.at(-1)?.raw)
  const isOpen = ended.postExec === undefined && receipts !== undefined
  const mayRefund = isOpen && chain.rulesAt(header.number, header.timestamp).hasPostExec
  const postExec = mayRefund ? postExecOf(header.number, receipts()) : ended.postExec
  const attributes = { ...ended, postExec }
  const block = openBlock({ engine, chain, reader, attributes })
  try {
    await block.begin()
  } catch (error) {
    block.close()
    throw error
  }
  return { engine, hash, block, marks: [], isWhole: true, readFrom }
}

function goBack({ block, marks }: Replay, to: number): void {
  const mark = marks[to]
  if (mark === undefined) return
  block.revert(mark)
  marks.length = to
}

/** The next transaction of the block. @throws {ReplayStopped} and the block is as before */
export async function execute(
  replay: Replay,
  transaction: Transaction,
  limits: ReplayOptions['limits'],
  tracer?: Observer,
): Promise<void> {
  if (limits.isExpired?.() === true) throw new ReplayStopped('the deadline has passed')
  const { block, marks } = replay
  const mark = block.checkpoint()
  replay.isWhole = false
  const done = await block.execute(transaction, limits, tracer)
  replay.isWhole = true
  if (done.status === 'stopped') throw new ReplayStopped('the transaction was stopped')
  if (done.status === 'executed') {
    marks.push(mark)
    return
  }
  const name = bytesToHex(transaction.hash)
  throw new Error(
    `replay of block ${block.attributes.number}: ${name} is in it but invalid: ${done.reason.message}`,
  )
}

/** The same state through another view: what was read stays read, and a view that was given back is not read any more. */
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

/**
 * Events that wait for missing state. All keys known to be missing are requested, and the event is
 * applied again afterwards.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import { openBlock } from '../../execution/block/block.ts'
import type { BlockAttributes, BlockExecution } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import {
  decodeTransaction,
  type SenderOf,
  TransactionError,
} from '../../primitives/transaction-codec.ts'
import { collectingReader, MissingKeys, readNamed } from '../../state/collecting.ts'
import { overlayReader } from '../../state/overlay.ts'
import { MissingError, type MissingKey, type StateReader } from '../../state/reader.ts'
import type { NeedEffect } from './types.ts'
import { count, emit, type Wait, type WriterState, wakeAt } from './writer-state.ts'

/**
 * Requests the keys.
 * @returns undefined when the event has reached its limit of requests or keys
 */
export function requestState<Event>(
  state: WriterState,
  { event, before }: { readonly event: Event; readonly before: Wait<Event> | undefined },
  { missing, purpose }: { readonly missing: MissingError; readonly purpose: NeedEffect['for'] },
): Wait<Event> | undefined {
  const { limits, options } = state
  const requested = before ?? { rounds: 0, keys: 0 }
  const keys = missing.missing.slice(0, limits.fetchKeys - requested.keys)
  if (requested.rounds >= limits.fetchRounds || keys.length === 0) return undefined
  const request = need(state, keys, purpose)
  const untilMs = options.now() + limits.fetchMs
  wakeAt(state, untilMs)
  const [rounds, all] = [requested.rounds + 1, requested.keys + keys.length]
  return { event, request, rounds, keys: all, untilMs, isOver: false }
}

/**
 * Requests keys without a wait.
 * @returns the number of the request
 */
export function need(
  state: WriterState,
  keys: readonly MissingKey[],
  purpose: NeedEffect['for'],
): number {
  const request = ++state.newestRequest
  emit(state, { type: 'need', request, keys, for: purpose })
  count(state, `need_${purpose}`, keys.length)
  return request
}

/**
 * Runs `run`; on missing state, a prefetch extends the error with the other missing keys.
 * @throws {MissingError}
 * @throws {ViewError}
 */
export async function withPrefetch<Result>(
  state: WriterState,
  run: () => Promise<Result>,
  about: () => Promise<Omit<Scouted, 'senderOf'>>,
): Promise<Result> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    const { options, limits, expected } = state
    const untilMs = options.now() + limits.scoutMs
    const isExpired = () => options.now() >= untilMs
    const scouted = { ...(await about()), senderOf: expected.senderOf }
    throw await prefetch(options, scouted, { first: error, max: limits.fetchKeys, isExpired })
  }
}

/** Returns the state after the transactions executed so far. */
export const stateAfter = async (
  execution: BlockExecution,
  under: StateReader,
): Promise<StateReader> => overlayReader(await execution.diff(), under)

type Scouted = {
  /** The state before the first transaction; with `starts`, before the start of the block. */
  readonly reader: StateReader
  readonly attributes: BlockAttributes
  readonly starts: boolean
  readonly transactions: readonly Bytes[]
  readonly senderOf: SenderOf
}

/**
 * Runs the transactions again with zeros for missing values and discards the result.
 * @returns an error with the keys of `first` and of this run, at most `max`
 * @throws {ViewError}
 */
async function prefetch(
  context: { readonly chain: ChainSpec; readonly engine: Engine },
  { reader, attributes, starts, transactions, senderOf }: Scouted,
  bounds: {
    readonly first: MissingError
    readonly max: number
    readonly isExpired: () => boolean
  },
): Promise<MissingError> {
  const missing = new MissingKeys(bounds.max)
  for (const key of bounds.first.missing) missing.add(key)
  const collecting = collectingReader(reader, missing)
  const decoded = transactions.flatMap((raw) => decode(raw, senderOf))
  for (const transaction of decoded) readNamed(collecting, transaction)
  const execution = openBlock({ ...context, reader: collecting, attributes })
  try {
    if (starts) await collectMissing(() => execution.start(), missing)
    for (const transaction of decoded) {
      if (bounds.isExpired() || missing.isFull) break
      const limits = { isExpired: bounds.isExpired }
      await collectMissing(() => execution.execute(transaction, limits), missing)
    }
  } finally {
    execution.close()
  }
  const [first] = bounds.first.missing
  return new MissingError(first, ...missing.list().slice(1))
}

async function collectMissing(run: () => Promise<unknown>, missing: MissingKeys): Promise<void> {
  try {
    await run()
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    for (const key of error.missing) missing.add(key)
  }
}

function decode(raw: Bytes, senderOf: SenderOf): readonly Transaction[] {
  try {
    return [decodeTransaction(raw, senderOf)]
  } catch (error) {
    if (error instanceof TransactionError) return []
    throw error
  }
}

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
 * Requests the missing keys of an event, as many as its limit still allows. `before` is the event's
 * previous wait, and undefined at its first request.
 * @returns the wait; undefined, without a request, when the event's limit is reached
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
  const rounds = requested.rounds + 1
  const totalKeys = requested.keys + keys.length
  return { event, request, rounds, keys: totalKeys, untilMs, isOver: false }
}

/**
 * Requests keys without creating a `Wait`, so that no event depends on the response.
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
 * Runs `run` once. On missing state, a prefetch extends the error with the other missing keys.
 * @param about called on missing state only; it may revert the failed run
 * @throws {MissingError} with the keys of `run` and of the prefetch
 * @throws {ViewError} if state cannot be read for another reason
 */
export async function withPrefetch<Result>(
  state: WriterState,
  run: () => Promise<Result>,
  about: () => Promise<Omit<PrefetchInput, 'senderOf'>>,
): Promise<Result> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    const { options, limits, expected } = state
    const untilMs = options.now() + limits.scoutMs
    const isExpired = () => options.now() >= untilMs
    const input = { ...(await about()), senderOf: expected.senderOf }
    throw await prefetch(options, input, { first: error, max: limits.fetchKeys, isExpired })
  }
}

/**
 * Returns the state after the transactions executed so far; later ones do not change it.
 * @param under the state on which the execution was opened
 */
export const stateAfter = async (
  execution: BlockExecution,
  under: StateReader,
): Promise<StateReader> => overlayReader(await execution.diff(), under)

type PrefetchInput = {
  /** The state before the first transaction; with `starts`, before the start of the block. */
  readonly reader: StateReader
  readonly attributes: BlockAttributes
  /** The prefetch also runs the system calls at the start of the block. */
  readonly starts: boolean
  /** Transactions as bytes; those that cannot be decoded are skipped. */
  readonly transactions: readonly Bytes[]
  /** Returns a sender that is known already, so that its signature is not recovered again. */
  readonly senderOf: SenderOf
}

/**
 * Runs the transactions on a state whose missing accounts and slots read as absent. The result is
 * discarded.
 * @returns an error with the keys of `first` and of this run, at most `max`
 * @throws {ViewError} if state cannot be read for another reason
 */
async function prefetch(
  context: { readonly chain: ChainSpec; readonly engine: Engine },
  { reader, attributes, starts, transactions, senderOf }: PrefetchInput,
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
  // The list has the order of insertion, so its first key is the first key of the error.
  const [first] = bounds.first.missing
  return new MissingError(first, ...missing.list().slice(1))
}

/** Records the keys of a `MissingError`. A collecting reader still throws it for missing code. */
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

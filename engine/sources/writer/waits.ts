/** Events that wait for state which nobody has yet: asked for with all that is known to be missing, and applied again when it is there. */
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
import { count, emit, type Wait, type WriterState, wakeAt } from './state.ts'
import type { NeedEffect } from './types.ts'

/** Asks for the keys. undefined: the event has asked often enough, or for enough. */
export function ask<Event>(
  state: WriterState,
  { event, before }: { readonly event: Event; readonly before: Wait<Event> | undefined },
  { missing, purpose }: { readonly missing: MissingError; readonly purpose: NeedEffect['for'] },
): Wait<Event> | undefined {
  const { limits, options } = state
  const asked = before ?? { rounds: 0, keys: 0 }
  const keys = missing.missing.slice(0, limits.fetchKeys - asked.keys)
  if (asked.rounds >= limits.fetchRounds || keys.length === 0) return undefined
  const request = need(state, keys, purpose)
  const untilMs = options.now() + limits.fetchMs
  wakeAt(state, untilMs)
  const [rounds, all] = [asked.rounds + 1, asked.keys + keys.length]
  return { event, request, rounds, keys: all, untilMs, isOver: false }
}

/** Gives the number of the request. Nobody needs to wait for it. */
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

/** Runs `work`; what it misses is thrown with everything else that it would miss. @throws {MissingError} {ViewError} */
export async function withScout<Result>(
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
    throw await scout(options, scouted, { first: error, most: limits.fetchKeys, isExpired })
  }
}

/** The state after what was executed so far. */
export const stateAfter = async (
  execution: BlockExecution,
  under: StateReader,
): Promise<StateReader> => overlayReader(await execution.diff(), under)

type Scouted = {
  /** The state in which the first of the transactions runs; before it the block begins, where `begins`. */
  readonly reader: StateReader
  readonly attributes: BlockAttributes
  readonly begins: boolean
  readonly transactions: readonly Bytes[]
  readonly senderOf: SenderOf
}

/** What else a run will ask for: it is done once more with zeros in place of what is missing, and thrown away. All keys that `first` and such a run name, at most `most`. @throws {ViewError} */
async function scout(
  context: { readonly chain: ChainSpec; readonly engine: Engine },
  { reader, attributes, begins, transactions, senderOf }: Scouted,
  bounds: {
    readonly first: MissingError
    readonly most: number
    readonly isExpired: () => boolean
  },
): Promise<MissingError> {
  const missing = new MissingKeys(bounds.most)
  for (const key of bounds.first.missing) missing.note(key)
  const collecting = collectingReader(reader, missing)
  const decoded = transactions.flatMap((raw) => decode(raw, senderOf))
  for (const transaction of decoded) readNamed(collecting, transaction)
  const execution = openBlock({ ...context, reader: collecting, attributes })
  try {
    if (begins) await noted(() => execution.begin(), missing)
    for (const transaction of decoded) {
      if (bounds.isExpired() || missing.isFull) break
      const limits = { isExpired: bounds.isExpired }
      await noted(() => execution.execute(transaction, limits), missing)
    }
  } finally {
    execution.close()
  }
  const [first] = bounds.first.missing
  return new MissingError(first, ...missing.list().slice(1))
}

async function noted(run: () => Promise<unknown>, missing: MissingKeys): Promise<void> {
  try {
    await run()
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    for (const key of error.missing) missing.note(key)
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

/** Events that wait for state which nobody has yet: asked for with all that is known to be missing, and applied again when it is there. */
import type { BlockExecution } from '../../execution/transaction/types.ts'
import { overlayReader } from '../../state/overlay.ts'
import { MissingError, type MissingKey, type StateReader } from '../../state/reader.ts'
import { type Scouted, scout } from './scout.ts'
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

/** EIP-2681: an account whose nonce is 2^64 − 1 cannot create contracts. */
import { NO_BYTES } from '../primitives/bytes.ts'
import type { Message, Outcome, Session, TraceSink } from './engine.ts'
import { NONCE_OVERFLOW } from './halt-reason.ts'

export const MAX_NONCE = 2n ** 64n - 1n

/**
 * Refuses a creation by a sender whose raised nonce has wrapped to 0. The nonce stays unchanged and
 * no gas is used, as in go-ethereum (core/vm, createFramePreCheck).
 * @returns the outcome of the refused creation; undefined if the message may run
 */
export function refusedCreation(
  session: Pick<Session, 'account' | 'setNonce'>,
  message: Message,
  trace: TraceSink | undefined,
): Outcome | undefined {
  const { from, to, value, gas, input } = message
  if (to !== undefined || session.account(from).nonce !== 0n) return undefined
  session.setNonce(from, MAX_NONCE)
  trace?.enter?.('CREATE', from, undefined, value, gas, input)
  trace?.exit?.(NONCE_OVERFLOW, 0n, NO_BYTES)
  return { status: 'halt', reason: NONCE_OVERFLOW, gasLeft: gas }
}

/** What a thread reads of the txpool of another one. */
import type { Bytes } from '../../primitives/bytes.ts'
import { INCLUDED, OPEN, type WaitingMemory } from './memory.ts'
import { Rows } from './rows.ts'
import { openRuns } from './runs.ts'

/** Both answer what the `Txpool` did at some moment of the call: all that it had answered to a submit before is in them. */
export type WaitingReader = {
  /** @param stateNonce of a state that may be older than the txpool's, or newer */
  nextNonce(sender: Bytes, stateNonce: bigint): bigint
  /** @param hash 32 bytes, of which the first 16 are compared */
  isExpected(hash: Bytes): boolean
}

export function openWaitingReader(memory: WaitingMemory): WaitingReader {
  const expected = new Rows(memory.expected)
  const senders = new Rows(memory.senders)
  const runs = openRuns(memory.runs)
  const unlisted = new Int32Array(memory.unlisted)
  return {
    // Both end: the writer would have to be at work on one stripe of 1,024 each time.
    nextNonce(sender, stateNonce) {
      senders.aim(sender)
      for (;;) {
        const seen = senders.begin()
        const isSame = () => senders.isSame(seen)
        const row = senders.find(seen)
        if (row === 0) {
          if (isSame()) return stateNonce
          continue
        }
        // As the txpool does it: over those in blocks, then over those that are not.
        const shown = runs.after(senders.data(row, INCLUDED), stateNonce, isSame)
        const nonce = runs.after(senders.data(row, OPEN), shown, isSame)
        if (isSame()) return nonce
      }
    },
    isExpected(hash) {
      expected.aim(hash)
      for (;;) {
        const seen = expected.begin()
        const isFound = expected.find(seen) !== 0
        // Read before it is known that the look holds: it may have become a row meanwhile, and then the look does not.
        const isAny = Atomics.load(unlisted, 0) > 0
        if (expected.isSame(seen)) return isFound || isAny
      }
    },
  }
}

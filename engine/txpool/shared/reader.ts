/** Reads the txpool of another thread. */
import type { Bytes } from '../../primitives/bytes.ts'
import { INCLUDED, OPEN, type WaitingMemory } from './memory.ts'
import { Rows } from './rows.ts'
import { openRuns } from './runs.ts'

/**
 * Both methods return a result of the `Txpool` at some moment of the call. Every submit that was
 * answered before the call is included.
 */
export type WaitingReader = {
  /**
   * Returns the sender's next nonce.
   * @param stateNonce nonce in a state that may be older or newer than the txpool's
   */
  nextNonce(sender: Bytes, stateNonce: bigint): bigint
  /**
   * Returns whether the txpool may have the transaction.
   * @param hash 32 bytes, of which the first 16 are compared
   */
  isExpected(hash: Bytes): boolean
}

export function openWaitingReader(memory: WaitingMemory): WaitingReader {
  const expected = new Rows(memory.expected)
  const senders = new Rows(memory.senders)
  const runs = openRuns(memory.runs)
  const unlisted = new Int32Array(memory.unlisted)
  return {
    /*
     * Both loops end, because the writer would have to change the same one of 1,024 stripes each
     * time.
     */
    nextNonce(sender, stateNonce) {
      senders.aim(sender)
      for (;;) {
        const seen = senders.start()
        const isSame = () => senders.isSame(seen)
        const row = senders.find(seen)
        if (row === 0) {
          if (isSame()) return stateNonce
          continue
        }
        // The order is as in the txpool: first the nonces in blocks, then the others.
        const visible = runs.after(senders.data(row, INCLUDED), stateNonce, isSame)
        const nonce = runs.after(senders.data(row, OPEN), visible, isSame)
        if (isSame()) return nonce
      }
    },
    isExpected(hash) {
      expected.aim(hash)
      for (;;) {
        const seen = expected.start()
        const isFound = expected.find(seen) !== 0
        /*
         * `unlisted` is read before the final check. A transaction may get a row meanwhile, and
         * then the check fails.
         */
        const isAny = Atomics.load(unlisted, 0) > 0
        if (expected.isSame(seen)) return isFound || isAny
      }
    },
  }
}

/** Senders whose next nonce is missing: what they wait for can come without a transaction of theirs. */
import type { Sender } from './sender.ts'

/**
 * Finds senders of which no transaction has the next nonce. Their nonce can rise by an authorization (EIP-7702) in a transaction of
 * somebody else, and by an edit of a development chain. Each call goes on where the last one ended.
 * @param count senders that one call looks at
 */
export function createGapRound(
  senders: ReadonlyMap<string, Sender>,
  count: number,
): () => readonly Sender[] {
  let round = senders.values()
  return () => {
    const found: Sender[] = []
    for (let looked = 0; looked < count; looked++) {
      const { value: sender } = round.next()
      if (sender === undefined) {
        round = senders.values()
        break
      }
      if (!sender.entries.has(sender.nonce)) found.push(sender)
    }
    return found
  }
}

/** Journalled transactions of a node whose state is fetched: what is missing to look at them is asked for, once somebody can be asked. */
import { ViewError } from '../../engine/state/reader.ts'
import type { Restored } from '../../engine/txpool/follow.ts'
import { OWN_CLIENT } from '../../rpc/seam/executor.ts'
import type { LazyState } from '../../rpc/seam/ports.ts'
import type { Transactions } from './transactions.ts'

/** Each brings what the one before has missed: an account, then what its transaction costs. */
const MOST_ROUNDS = 8
/** Of one question to the fetcher, which has its own bound. */
const MOST_KEYS = 500
const PATIENCE_MS = 30_000

/**
 * @param first what the first try has left
 * @returns how many came back; those that wait on are in the journal for the next start
 */
export async function bringBack(
  first: Restored,
  {
    transactions,
    lazy,
  }: { readonly transactions: Pick<Transactions, 'restore'>; readonly lazy: LazyState },
): Promise<number> {
  let left = first
  let restored = 0
  const signal = AbortSignal.timeout(PATIENCE_MS)
  const { address: client } = OWN_CLIENT
  for (let round = 0; round < MOST_ROUNDS && left.waiting.length > 0; round++) {
    const keys = left.missing.slice(0, MOST_KEYS)
    const { failed } = await lazy.fetch(keys, { for: 'send', client, signal })
    if (failed !== undefined) return restored
    try {
      left = transactions.restore(left.waiting)
    } catch (error) {
      // The chain is on its way to another branch.
      if (error instanceof ViewError) return restored
      throw error
    }
    restored += left.restored
  }
  return restored
}

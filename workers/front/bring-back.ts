/**
 * Restores journalled transactions of a node with lazy state. Missing state is fetched once an
 * upstream is available.
 */
import { ViewError } from '../../engine/state/reader.ts'
import type { Restored } from '../../engine/txpool/follow.ts'
import { OWN_CLIENT } from '../../rpc/core/executor.ts'
import type { LazyState } from '../../rpc/core/ports.ts'
import type { Transactions } from './transactions.ts'

/**
 * Each round fetches what the round before has missed: an account, then the cost of its
 * transaction.
 */
const MAX_ROUNDS = 8
/** Keys of one request to the fetcher, which has its own bound. */
const MAX_KEYS = 500
const TIMEOUT_MS = 30_000

/**
 * Restores the transactions that wait for state.
 * @param first result of the first try, without fetching
 * @returns how many were restored; the others stay in the journal for the next start
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
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const { address: client } = OWN_CLIENT
  for (let round = 0; round < MAX_ROUNDS && left.waiting.length > 0; round++) {
    const keys = left.missing.slice(0, MAX_KEYS)
    const { failed } = await lazy.fetch(keys, { for: 'send', client, signal })
    if (failed !== undefined) return restored
    try {
      left = transactions.restore(left.waiting)
    } catch (error) {
      // A reorg is in progress.
      if (error instanceof ViewError) return restored
      throw error
    }
    restored += left.restored
  }
  return restored
}

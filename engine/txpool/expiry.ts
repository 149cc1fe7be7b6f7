/** Which entries the txpool need not keep any longer: blocks that are deep enough, too many bytes of settled ones, too long without a block. */
import type { TxpoolLimits } from './limits.ts'
import type { Entry } from './types.ts'

/** `entries`: oldest first. `canonical`: the newest block that is final as far as the txpool knows. */
export function outdated(
  entries: readonly Entry[],
  at: { readonly canonical: number; readonly nowMs: number; readonly limits: TxpoolLimits },
): Entry[] {
  const { canonical, nowMs, limits } = at
  let settledBytes = 0
  for (const { place, transaction } of entries)
    if (place.status === 'included' && place.blockNumber <= canonical)
      settledBytes += transaction.raw.length
  return entries.filter(({ place, transaction, addedAtMs }) => {
    if (place.status !== 'included')
      return place.status === 'waiting' && nowMs - addedAtMs > limits.expiryMs
    const isSettled = place.blockNumber <= canonical
    const isOld = place.blockNumber + limits.keepBlocks < canonical
    if (!isOld && !(isSettled && settledBytes > limits.includedBytes)) return false
    settledBytes -= transaction.raw.length
    return true
  })
}

/**
 * Published snapshots that clients do not see yet (ADR 55). Requests can name their flashblocks.
 */
import { ViewError } from '../state/reader.ts'
import type { ChainReader, ChainView, Endpoint, LeasedView } from './types.ts'

/**
 * Leases the first snapshot above the visible one for which `isWanted` is true; undefined: there is
 * none.
 */
export function leaseNotYetVisible(
  reader: ChainReader,
  endpoint: Endpoint,
  isWanted: (view: ChainView) => boolean,
): LeasedView | undefined {
  const newest = reader.newestOfAll()
  // The number of steps is limited by the number of snapshots that may wait (views/visibility.ts).
  for (let snapshot = reader.newestSnapshot() + 1; snapshot <= newest; snapshot++) {
    const lease = reader.adopt(snapshot, endpoint)
    if (lease === undefined) continue
    let isTaken = false
    try {
      isTaken = isWantedOf(lease, isWanted)
      if (isTaken) return lease
    } finally {
      if (!isTaken) lease.release()
    }
  }
  return undefined
}

/** Treats a snapshot that vanished as not wanted, because a newer one follows. */
function isWantedOf({ view }: LeasedView, isWanted: (view: ChainView) => boolean): boolean {
  try {
    return isWanted(view)
  } catch (error) {
    if (error instanceof ViewError) return false
    throw error
  }
}

export function isNotYetVisible(
  reader: ChainReader,
  endpoint: Endpoint,
  isWanted: (view: ChainView) => boolean,
): boolean {
  const lease = leaseNotYetVisible(reader, endpoint, isWanted)
  lease?.release()
  return lease !== undefined
}

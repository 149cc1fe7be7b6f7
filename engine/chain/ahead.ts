/** What is published and clients are not shown yet (ADR 55): read by who asks for it by name. */
import { ViewError } from '../state/reader.ts'
import type { ChainReader, ChainView, Endpoint, LeasedView } from './types.ts'

/** Leases the first record above the one that clients are shown for which `isWanted`; undefined: there is none. */
export function leaseAhead(
  reader: ChainReader,
  endpoint: Endpoint,
  isWanted: (view: ChainView) => boolean,
): LeasedView | undefined {
  const newest = reader.newestOfAll()
  // No more than may wait to be shown (views/showing.ts).
  for (let record = reader.newestRecord() + 1; record <= newest; record++) {
    const lease = reader.adopt(record, endpoint)
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

/** One that vanished has a successor. */
function isWantedOf({ view }: LeasedView, isWanted: (view: ChainView) => boolean): boolean {
  try {
    return isWanted(view)
  } catch (error) {
    if (error instanceof ViewError) return false
    throw error
  }
}

/** Whether there is such a record. */
export function isAhead(
  reader: ChainReader,
  endpoint: Endpoint,
  isWanted: (view: ChainView) => boolean,
): boolean {
  const lease = leaseAhead(reader, endpoint, isWanted)
  lease?.release()
  return lease !== undefined
}

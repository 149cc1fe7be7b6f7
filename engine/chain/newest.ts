/** Reads of the newest view for the length of one synchronous call. */
import { ViewError } from '../state/reader.ts'
import type { ChainReader, ChainView, Endpoint } from './types.ts'

const ATTEMPTS = 4

/** Runs `read` over the newest record; again when that record vanished under it. */
export function readNewest<T>(
  reader: ChainReader,
  endpoint: Endpoint,
  read: (view: ChainView) => T,
): T {
  for (let attempt = 1; ; attempt++) {
    const lease = reader.lease(endpoint)
    try {
      return read(lease.view)
    } catch (error) {
      const isStale = error instanceof ViewError && error.reason !== 'pruned'
      if (!isStale || attempt === ATTEMPTS) throw error
    } finally {
      lease.release()
    }
  }
}

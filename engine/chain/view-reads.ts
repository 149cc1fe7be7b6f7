/**
 * Reads through views: the newest view during one synchronous call, and blocks that a node may
 * lack. A lazy state that was restarted has a gap above its older blocks.
 */
import { ViewError } from '../state/reader.ts'
import type { Block, ChainReader, ChainView, Endpoint } from './types.ts'

const ATTEMPTS = 4

/** Runs `read` on the newest snapshot, and again on a newer one when the snapshot vanishes. */
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

/**
 * Returns a block; undefined when only its state was loaded, or when it is in a gap.
 * @throws {ViewError} when the view is gone
 */
export function blockIfStored(view: ChainView, number: bigint): Block | undefined {
  try {
    return view.block({ number })
  } catch (error) {
    if (error instanceof ViewError && error.reason === 'pruned') return undefined
    throw error
  }
}

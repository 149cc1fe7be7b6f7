/** Divides the node's total limits among its front threads. */
import type { Limits } from '../../rpc/core/limits.ts'
import type { NodeConfig } from '../config/serving-options.ts'

/**
 * Limits of memory, permits and queues. Limits of one request, and counts by address in shared
 * memory, are not divided.
 */
const DIVIDED = [
  'bodiesBytes',
  'callQueue',
  'callQueueBytes',
  'traceQueue',
  'logsQueue',
  'sidecarQueue',
  'filterBytes',
  'replayBytes',
  'feedSubscribers',
  'sockets',
  'unsentBytes',
  'compressingBytes',
  'pageViewers',
  'resultCacheItems',
  'resultCacheBytes',
  'keptTextBytes',
] as const satisfies readonly (keyof Limits)[]

/** Returns the limits of one front thread; a limit that is off stays off. */
export function shareOf(config: NodeConfig, frontThreads: number): NodeConfig {
  const limits: Record<string, number> = { ...config.limits }
  for (const name of DIVIDED) limits[name] = Math.ceil(config.limits[name] / frontThreads)
  return { ...config, limits: limits as Limits }
}

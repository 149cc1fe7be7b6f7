/** What is a total of the node, divided among its cells. */
import type { Limits } from '../../rpc/seam/limits.ts'
import type { NodeConfig } from '../config/serving.ts'

/** Memory, places and queues; what is counted by address in shared memory is not among them, nor what is of one request. */
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

/** Of one cell of so many. What is off stays off. */
export function shareOf(config: NodeConfig, cells: number): NodeConfig {
  const limits: Record<string, number> = { ...config.limits }
  for (const name of DIVIDED) limits[name] = Math.ceil(config.limits[name] / cells)
  return { ...config, limits: limits as Limits }
}

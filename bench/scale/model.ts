/**
 * Computes the utilisation of each part of an installation, and the request rate at which it is
 * full.
 */
import { type Costs, REQUEST_MICROS, type RequestClass } from './costs.ts'

export type Installation = {
  readonly requestsPerSecond: number
  readonly replicas: number
  readonly flashblocksPerSecond: number
  readonly cores: number
  readonly frontThreads: number
  readonly balancers: number
  readonly balancerCores: number
  /** Bits a second of the network of the node whose feed the replicas read. */
  readonly networkBits: number
  /** With `redis`, each request is charged there; with `memory`, none is. */
  readonly limitStore: 'redis' | 'memory'
}

export type Part = {
  readonly name: string
  /** Both values have the same unit. */
  readonly used: number
  readonly there: number
  readonly unit: string
  /** Requests a second at which the part is full; Infinity if requests do not use it. */
  readonly fullAt: number
}

type Mix = Readonly<Record<RequestClass, number>>

/** µs of a node for an average request of the mix. */
export const meanMicros = (mix: Mix): number =>
  Object.entries(mix).reduce(
    (sum, [name, share]) => sum + share * REQUEST_MICROS[name as RequestClass].value,
    0,
  )

/** Cores that a replica needs for following alone. */
export const followingCores = (at: Installation, costs: Costs): number =>
  (at.flashblocksPerSecond * costs.executedFlashblockMs) / 1_000

/** Bits a second that a feed sends to each replica. */
export const readerBits = (at: Installation, costs: Costs): number =>
  8 * at.flashblocksPerSecond * costs.frameBytes

export function partsOf(at: Installation, costs: Costs, mix: Mix): readonly Part[] {
  const { replicas } = at
  const chargeMicros = at.limitStore === 'redis' ? costs.redisChargeMicros : 0
  const shareMicros = costs.redisAppendMicros + replicas * costs.redisReadMicros
  return [
    {
      name: 'cores of the replicas',
      unit: 'cores',
      there: replicas * at.cores,
      fixed: replicas * followingCores(at, costs),
      micros: meanMicros(mix),
    },
    {
      name: 'front threads',
      unit: 'threads',
      there: replicas * at.frontThreads,
      fixed: 0,
      micros: costs.frontMicros,
    },
    {
      name: 'cores of HAProxy',
      unit: 'cores',
      there: at.balancers * at.balancerCores,
      fixed: 0,
      micros: costs.balancerMicros,
    },
    {
      name: 'the thread of Redis',
      unit: 'threads',
      there: 1,
      fixed: 0,
      micros: chargeMicros + mix.send * shareMicros,
    },
    {
      name: 'network of a feed',
      unit: 'Mbit/s',
      there: at.networkBits / 1e6,
      fixed: (replicas * readerBits(at, costs)) / 1e6,
      micros: 0,
    },
  ]
    .map(({ name, unit, there, fixed, micros }) => ({
      name,
      unit,
      there,
      used: fixed + (at.requestsPerSecond * micros) / 1e6,
      fullAt:
        micros === 0 ? Number.POSITIVE_INFINITY : Math.max(0, ((there - fixed) * 1e6) / micros),
    }))
    .toSorted((a, b) => b.used / b.there - a.used / a.there)
}

/**
 * Computes how long a request waits for one of `servers`, in ms. The model is M/M/c (Erlang's C):
 * random arrivals and exponential service times.
 * @param serviceMs mean service time
 * @returns Infinity if requests arrive faster than they are served
 */
export function waits(
  perSecond: number,
  serviceMs: number,
  servers: number,
): { readonly meanMs: number; readonly p95Ms: number } {
  const load = (perSecond * serviceMs) / 1_000
  if (load >= servers) return { meanMs: Number.POSITIVE_INFINITY, p95Ms: Number.POSITIVE_INFINITY }
  // Erlang's B by recursion, which avoids factorials that overflow.
  let blocked = 1
  for (let n = 1; n <= servers; n++) blocked = (load * blocked) / (n + load * blocked)
  const waiting = blocked / (1 - (load / servers) * (1 - blocked))
  const spareMs = serviceMs / (servers - load)
  return {
    meanMs: waiting * spareMs,
    p95Ms: waiting <= 0.05 ? 0 : Math.log(waiting / 0.05) * spareMs,
  }
}

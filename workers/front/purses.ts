/** The purses of each address, and the points that a stall of this thread gives to all. */
import { type Charge, createLimiter, type Limiter } from '../../rpc/limiter/limiter.ts'
import { type Stalls, watchStalls } from '../../rpc/limiter/stalls.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import type { NodeConfig } from '../config/serving.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Report } from '../observe/reporter.ts'

export type PursesOptions = {
  readonly config: Pick<NodeConfig, 'rateLimit'> & { readonly limits: Pick<Limits, 'limiterKeys'> }
  readonly metrics: Pick<Metrics, 'refused' | 'stalled'>
  readonly report: Report
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** What an address may ask for: of JSON-RPC requests, and of whatever else is asked over HTTP. */
export type Purses = {
  readonly limiter: Limiter
  readonly visits: Limiter
  /** Each as it is counted: what charges goes through it. */
  readonly charging: Charging
  readonly visiting: Charging
}

export function openPurses({ config, metrics, report, now }: PursesOptions): Purses {
  const { rateLimit, limits } = config
  const purse = {
    perSecond: rateLimit === 'off' ? undefined : rateLimit,
    keys: limits.limiterKeys,
    now: Date.now,
  }
  const limiter = createLimiter(purse)
  const visits = createLimiter(purse)
  const stalls = watchStalls(now, (ms) => {
    limiter.stalled(ms)
    visits.stalled(ms)
    metrics.stalled(ms)
    report('front_stalled', { ms: Math.round(ms) })
  })
  const charging = counted(limiter, (points) => metrics.refused(points), stalls)
  return { limiter, visits, charging, visiting: counted(visits, () => {}, stalls) }
}

/** Notices a stall before it judges: what waited comes before the timer that was late. */
type Charging = Pick<Limiter, 'charge' | 'refund' | 'held' | 'owe'>
function counted(limiter: Limiter, onRefused: (points: number) => void, stalls: Stalls): Charging {
  return {
    ...limiter,
    charge(address, points) {
      stalls.look()
      const note = (charge: Charge): Charge => {
        if (!charge.isAllowed) onRefused(points)
        return charge
      }
      const charge = limiter.charge(address, points)
      return charge instanceof Promise ? charge.then(note) : note(charge)
    },
  }
}

/** Selects the figures of a front thread's parts that its metrics report. */
import type { Server } from '../../rpc/http/server.ts'
import type { RpcStats } from '../../rpc/rpc.ts'
import type { RateBuckets } from './rate-buckets.ts'

export function statsOfServer({ inFlight, webSockets, unsent, encoding, sockets }: Server) {
  return {
    inFlight,
    webSockets,
    unsent: unsent.responses,
    unsentBytes: unsent.bytes,
    unsentCut: unsent.cut,
    compressed: encoding.responses,
    compressedFromBytes: encoding.from,
    compressedToBytes: encoding.to,
    compressRefused: encoding.refused,
    socketsRefused: sockets.refused,
    socketsEvicted: sockets.evicted,
    socketsLate: sockets.late,
    socketsCutOff: sockets.cutOff,
    socketsUnnamed: sockets.unnamed,
  }
}

export const statsOfRateBuckets = ({ limiter, nonRpcRequests, store }: RateBuckets) => ({
  limiterKeys: limiter.known,
  pointsCharged: limiter.charged + nonRpcRequests.charged,
  ...(store === undefined ? {} : store()),
})

export function statsOfRpc(stats: RpcStats) {
  const { filters, subscriptions, subscribersSlow, syncSends, cache, texts } = stats
  const { forwarding, upstream, rounds } = stats
  return {
    filters,
    subscriptions,
    subscribersSlow,
    syncSends,
    cacheHits: cache.hits,
    cacheMisses: cache.misses,
    textHits: texts.hits,
    textMisses: texts.misses,
    textBytes: texts.bytes,
    cacheCarried: cache.carried,
    cacheDroppedWritten: cache.dropped.written,
    cacheDroppedBlock: cache.dropped.block,
    cacheDroppedChain: cache.dropped.chain,
    cacheDroppedUntold: cache.dropped.untracked,
    ...(forwarding === undefined
      ? {}
      : {
          legacyCalls: forwarding.calls,
          legacyErrors: forwarding.errors,
          legacyInFlight: forwarding.inFlight,
        }),
    ...(upstream === undefined
      ? {}
      : {
          forwarded: upstream.calls,
          forwardErrors: upstream.errors,
          forwardsInFlight: upstream.inFlight,
        }),
    ...(rounds === undefined
      ? {}
      : { fetches: rounds.fetches, fetchedKeys: rounds.keys, withoutState: rounds.without }),
  }
}

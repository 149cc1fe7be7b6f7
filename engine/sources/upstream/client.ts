/**
 * One upstream: JSON-RPC calls and batches over a given transport, with limits of number and time.
 */
import {
  type Call,
  type CallOptions,
  type ClientOptions,
  createSender,
  type Settled,
  type Transport,
} from './messages.ts'

export interface Upstream {
  /** The origin alone, because a path or a query may contain a key. */
  readonly name: string
  /** @throws {UpstreamError} */
  call(method: string, params: readonly unknown[], options?: CallOptions): Promise<unknown>
  /**
   * Returns responses in the order of the calls.
   * @throws {UpstreamError} when no call could be sent
   */
  batch(calls: readonly Call[], options?: CallOptions): Promise<readonly Settled[]>
  /**
   * Subscribes to new heads; undefined: the transport has no pushes. The call is repeated after a
   * lost connection.
   */
  readonly watchHeads: ((listener: (head: unknown) => void) => Promise<void>) | undefined
  readonly isWatching: boolean
  /** Lost connections, where all calls share one; 0 where each call has its own. */
  readonly lostConnections: number
  close(): void
}

export function createUpstream(options: ClientOptions): Upstream {
  const { name, transport, limits } = options
  const send = createSender(options)
  /** Largest batch that the upstream takes, below the limit after a refusal. */
  let maxBatch = limits.upstreamBatch

  async function call(method: string, params: readonly unknown[], options: CallOptions = {}) {
    const responses = await send([{ method, params }], options)
    const response = 'single' in responses ? responses.single : responses[0]!
    if ('error' in response) throw response.error
    return response.result
  }

  async function part(calls: readonly Call[], options: CallOptions): Promise<readonly Settled[]> {
    const responses = await send(calls, options)
    if (!('single' in responses)) return responses
    const { single } = responses
    if ('error' in single && single.error.kind !== 'refused') throw single.error
    // A single response to all calls means that the upstream takes no batch of this size.
    maxBatch = Math.min(maxBatch, Math.max(1, calls.length >> 1))
    return batch(calls, options)
  }

  async function batch(
    calls: readonly Call[],
    options: CallOptions = {},
  ): Promise<readonly Settled[]> {
    const parts: (readonly Call[])[] = []
    for (let at = 0; at < calls.length; at += maxBatch) parts.push(calls.slice(at, at + maxBatch))
    return (await Promise.all(parts.map((one) => part(one, options)))).flat()
  }

  const heads = watching(transport, call)
  return {
    name,
    call,
    batch,
    watchHeads: heads?.watch,
    get isWatching() {
      return heads?.isOn() ?? false
    },
    get lostConnections() {
      return heads?.lost() ?? 0
    },
    close: () => transport.close(),
  }
}

function watching({ pushes }: Transport, call: Upstream['call']) {
  if (pushes === undefined) return undefined
  let listener: ((head: unknown) => void) | undefined
  let subscription: unknown
  let openRequest: Promise<void> | undefined
  let lost = 0
  pushes.onMessage((message) => {
    const { method, params } = message as { readonly method?: unknown; readonly params?: unknown }
    if (method !== 'eth_subscription' || typeof params !== 'object' || params === null) return
    const { subscription: id, result } = params as {
      readonly subscription?: unknown
      readonly result?: unknown
    }
    if (id === subscription && subscription !== undefined) listener?.(result)
  })
  pushes.onClose(() => {
    subscription = undefined
    lost++
  })
  async function request(): Promise<void> {
    try {
      subscription = await call('eth_subscribe', ['newHeads'])
    } finally {
      openRequest = undefined
    }
  }
  return {
    isOn: () => subscription !== undefined,
    lost: () => lost,
    async watch(taker: (head: unknown) => void) {
      listener = taker
      if (subscription !== undefined) return
      openRequest ??= request()
      await openRequest
    },
  }
}

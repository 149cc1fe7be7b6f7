/** One upstream: JSON-RPC calls and batches over a transport that is handed in, bounded in number and time. */
import { type ClientOptions, createSender } from './messages.ts'
import type { Call, CallOptions, Settled, Transport } from './transport.ts'

export interface Upstream {
  /** Its origin: a path or a query may hold a key. */
  readonly name: string
  /** @throws {UpstreamError} */
  call(method: string, params: readonly unknown[], options?: CallOptions): Promise<unknown>
  /** In the order of the calls. @throws {UpstreamError} when none of them could be asked */
  batch(calls: readonly Call[], options?: CallOptions): Promise<readonly Settled[]>
  /** Asks to be told of each new head; undefined where the transport cannot be told. Again after the connection has ended. */
  readonly watchHeads: ((listener: (head: unknown) => void) => Promise<void>) | undefined
  readonly isWatching: boolean
  /** Counts the ends of the one connection that all calls take; 0 where each call has its own. */
  readonly lostConnections: number
  close(): void
}

export function createUpstream(options: ClientOptions): Upstream {
  const { name, transport, limits } = options
  const send = createSender(options)
  /** Calls of a batch that it takes: fewer than the limit once it has refused as many. */
  let batchMost = limits.upstreamBatch

  async function call(method: string, params: readonly unknown[], options: CallOptions = {}) {
    const answers = await send([{ method, params }], options)
    const answer = 'whole' in answers ? answers.whole : answers[0]!
    if ('error' in answer) throw answer.error
    return answer.result
  }

  async function part(calls: readonly Call[], options: CallOptions): Promise<readonly Settled[]> {
    const answers = await send(calls, options)
    if (!('whole' in answers)) return answers
    const { whole } = answers
    if ('error' in whole && whole.error.kind !== 'refused') throw whole.error
    // One answer for all of them: it takes no batch, or none as long.
    batchMost = Math.min(batchMost, Math.max(1, calls.length >> 1))
    return batch(calls, options)
  }

  async function batch(
    calls: readonly Call[],
    options: CallOptions = {},
  ): Promise<readonly Settled[]> {
    const parts: (readonly Call[])[] = []
    for (let at = 0; at < calls.length; at += batchMost) parts.push(calls.slice(at, at + batchMost))
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
  let asking: Promise<void> | undefined
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
  async function ask(): Promise<void> {
    try {
      subscription = await call('eth_subscribe', ['newHeads'])
    } finally {
      asking = undefined
    }
  }
  return {
    isOn: () => subscription !== undefined,
    lost: () => lost,
    async watch(taker: (head: unknown) => void) {
      listener = taker
      if (subscription !== undefined) return
      asking ??= ask()
      await asking
    },
  }
}

/** What stands between a follower and what it follows, as the test holds it: threads that can do wrong. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

export type UpstreamFault =
  | 'none'
  /** No connection, and those that are there end. */
  | 'cut'
  /** Requests are taken and never answered. */
  | 'silence'
  | '429'
  /** A field of a block is not that of its hash. */
  | 'wrong-block'
  /** A block that was never on the chain, with a hash of its own. */
  | 'forged-block'
  | 'wrong-proof'
export type FeedFault =
  | 'none'
  | 'cut'
  | 'silence'
  /** After some frames. */
  | 'falls silent'
  | 'garbage'

export type ProxyOptions = {
  readonly target: string
  /** undefined: all. */
  readonly methods?: readonly string[]
  readonly callsPerSecond?: number
  readonly delayMs?: number
  /** Methods that `delayMs` is of; undefined: all. */
  readonly delayed?: readonly string[]
  /** State is given of so many blocks below the head. */
  readonly stateBlocks?: number
}
export type RelayOptions = { readonly target: string }
export type ToProxy =
  | { readonly type: 'fault'; readonly fault: UpstreamFault }
  | { readonly type: 'counts'; readonly isReset: boolean }
  | { readonly type: 'stop' }
export type ToRelay =
  | { readonly type: 'fault'; readonly fault: FeedFault }
  | { readonly type: 'counts' }
  | { readonly type: 'stop' }

export type Wire<Fault> = {
  readonly url: string
  fault(fault: Fault): Promise<void>
  /** Calls by method; frames. Forgets them, where the wire counts calls. */
  counts(): Promise<Readonly<Record<string, number>>>
  stop(): Promise<void>
}

export const startProxy = (options: ProxyOptions): Promise<Wire<UpstreamFault>> =>
  start(new URL('./upstream-proxy.ts', import.meta.url), options)
export const startRelay = (options: RelayOptions): Promise<Wire<FeedFault>> =>
  start(new URL('./feed-relay.ts', import.meta.url), options)

async function start<Fault>(file: URL, workerData: unknown): Promise<Wire<Fault>> {
  const worker = new Worker(file, { workerData })
  const [{ url }] = (await once(worker, 'message')) as [{ url: string }]
  const ask = async (message: unknown) => {
    const answer = once(worker, 'message')
    worker.postMessage(message)
    return (await answer)[0] as { counts: Record<string, number> }
  }
  return {
    url,
    fault: async (fault) => void (await ask({ type: 'fault', fault })),
    counts: async () => (await ask({ type: 'counts', isReset: true })).counts,
    async stop() {
      await worker.terminate()
    },
  }
}

/**
 * The test controls these proxy threads between a follower and its sources, and can make them
 * misbehave.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

export type UpstreamFault =
  | 'none'
  /** No connection is accepted, and open ones end. */
  | 'cut'
  /** Requests are accepted and never get a response. */
  | 'silence'
  | '429'
  /** A field of a block contradicts its hash. */
  | 'wrong-block'
  /** The block was never on the chain, and has its own correct hash. */
  | 'forged-block'
  | 'wrong-proof'
export type FeedFault =
  | 'none'
  | 'cut'
  | 'silence'
  /** The feed falls silent after some frames. */
  | 'falls silent'
  | 'garbage'

export type ProxyOptions = {
  readonly target: string
  /** undefined: all methods. */
  readonly methods?: readonly string[]
  readonly callsPerSecond?: number
  readonly delayMs?: number
  /** The methods with a delay of `delayMs`; undefined: all. */
  readonly delayed?: readonly string[]
  /** State is available for this many blocks below the head. */
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
  /** Gives the calls by method, or the frames. The counts of calls start again from zero. */
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
  const request = async (message: unknown) => {
    const response = once(worker, 'message')
    worker.postMessage(message)
    return (await response)[0] as { counts: Record<string, number> }
  }
  return {
    url,
    fault: async (fault) => void (await request({ type: 'fault', fault })),
    counts: async () => (await request({ type: 'counts', isReset: true })).counts,
    async stop() {
      await worker.terminate()
    },
  }
}

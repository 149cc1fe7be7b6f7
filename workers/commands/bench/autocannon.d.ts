/** The part of autocannon 9.0.0 that `load.ts` uses; the package ships no types. */
declare module 'autocannon' {
  import type { EventEmitter } from 'node:events'
  import type { Socket } from 'node:net'

  interface Request {
    readonly body?: string
    setupRequest(request: Request): Request
    onResponse(status: number): void
  }
  /** A connection that is reopened when the server closes it. */
  export interface Client extends EventEmitter {
    setRequests(requests: readonly Request[]): void
    /** The members below are undocumented, so the version of the package is exact. */
    destroy(): void
    readonly destroyed: boolean
    readonly conn: Socket & { readonly authorized?: boolean; readonly authorizationError?: unknown }
    readonly parser: { reinitialize(type: 'RESPONSE'): void }
    readonly pipelinedRequests: { addBody(part: Buffer): void; clear(): void }
  }
  type Options = {
    readonly url: string
    readonly connections: number
    readonly method: 'POST'
    readonly headers: Readonly<Record<string, string>>
    /** Seconds until a request counts as unanswered. */
    readonly timeout: number
    /** Seconds. */
    readonly duration: number
    /** Milliseconds between two checks if the run is over. */
    readonly sampleInt: number
    setupClient(client: Client): void
  }
  export default function autocannon(options: Options): Promise<unknown>
}

/**
 * State that all sockets share: the number of unanswered requests, and whether requests are
 * accepted.
 */

/**
 * Address to listen at. `reusePort`: several servers of this process listen there, and the system
 * distributes connections.
 */
export type ListenOptions = {
  readonly host: string
  readonly port: number
  readonly reusePort?: boolean
}

/** Content of /readyz. */
export type Readiness = {
  readonly status: 'ready' | 'degraded' | 'unready'
  readonly reasons: readonly string[]
  readonly details: Readonly<Record<string, unknown>>
}

export type ServerState = {
  paused: 'starting' | 'draining' | undefined
  inFlight: number
  /** Counts another request, until `ended`. */
  started(): void
  ended(): void
  /** Resolves when no request is unanswered, or after `withinMs`. */
  idle(withinMs: number): Promise<void>
}

export function createState(): ServerState {
  let onIdle = () => {}
  return {
    paused: undefined,
    inFlight: 0,
    started() {
      this.inFlight++
    },
    ended() {
      if (--this.inFlight === 0) onIdle()
    },
    async idle(withinMs) {
      if (this.inFlight === 0) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, withinMs)
        onIdle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    },
  }
}

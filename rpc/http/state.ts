/** What the sockets share: how many answers are being made, and whether requests are taken. */

/** `reusePort`: others of this process listen there too, and the system divides connections among them. */
export type ListenAddress = {
  readonly host: string
  readonly port: number
  readonly reusePort?: boolean
}

/** For /readyz. */
export type Readiness = {
  readonly status: 'ready' | 'degraded' | 'unready'
  readonly reasons: readonly string[]
  readonly details: Readonly<Record<string, unknown>>
}

export type ServerState = {
  paused: 'starting' | 'draining' | undefined
  inFlight: number
  /** One answer more, until `ended`. */
  begun(): void
  ended(): void
  /** Resolves when nothing is in flight, or after `withinMs`. */
  idle(withinMs: number): Promise<void>
}

export function createState(): ServerState {
  let onIdle = () => {}
  return {
    paused: undefined,
    inFlight: 0,
    begun() {
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

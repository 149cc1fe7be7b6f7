/** Numbered requests to another thread; each is answered once or given up after a timeout. */

export interface Questions<Value> {
  /**
   * Sends a request. Undefined means an empty answer, or none in time.
   * @param times factor of the usual timeout
   */
  request(send: (request: number) => void, times?: number): Promise<Value | undefined>
  /** Answers a request; false means that nobody waits for it any more. */
  respond(request: number, response: Value | undefined): boolean
  /** Gives up all open requests, because the other thread has ended. */
  close(): void
}

export function createQuestions<Result>(timeoutMs: number): Questions<Result> {
  const open = new Map<number, (response: Result | undefined) => void>()
  let requested = 0
  return {
    request(send, times = 1) {
      const request = ++requested
      return new Promise((resolve) => {
        const timer = setTimeout(() => settle(undefined), timeoutMs * times)
        const settle = (response: Result | undefined) => {
          clearTimeout(timer)
          open.delete(request)
          resolve(response)
        }
        open.set(request, settle)
        send(request)
      })
    },
    respond(request, response) {
      const settle = open.get(request)
      settle?.(response)
      return settle !== undefined
    },
    close() {
      for (const settle of [...open.values()]) settle(undefined)
    },
  }
}

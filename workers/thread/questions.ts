/** Questions to another thread: numbered, each answered once or given up after a while. */

export interface Questions<Answer> {
  /** undefined: not answered in time, which is so many times as long as usual, or answered with nothing. */
  ask(send: (request: number) => void, times?: number): Promise<Answer | undefined>
  /** False: too late, nobody waits for it any more. */
  answer(request: number, answer: Answer | undefined): boolean
  /** The other thread has ended: all that are open are given up. */
  close(): void
}

export function createQuestions<Answer>(patienceMs: number): Questions<Answer> {
  const open = new Map<number, (answer: Answer | undefined) => void>()
  let asked = 0
  return {
    ask(send, times = 1) {
      const request = ++asked
      return new Promise((resolve) => {
        const timer = setTimeout(() => settle(undefined), patienceMs * times)
        const settle = (answer: Answer | undefined) => {
          clearTimeout(timer)
          open.delete(request)
          resolve(answer)
        }
        open.set(request, settle)
        send(request)
      })
    },
    answer(request, answer) {
      const settle = open.get(request)
      settle?.(answer)
      return settle !== undefined
    },
    close() {
      for (const settle of [...open.values()]) settle(undefined)
    },
  }
}

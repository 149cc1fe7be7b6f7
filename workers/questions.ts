/** Questions to another thread: numbered, each answered once or given up after a while. */

export interface Questions<Answer> {
  /** undefined: not answered in time, or answered with nothing. */
  ask(send: (request: number) => void): Promise<Answer | undefined>
  /** An answer that comes too late is thrown away. */
  answer(request: number, answer: Answer | undefined): void
}

export function createQuestions<Answer>(patienceMs: number): Questions<Answer> {
  const open = new Map<number, (answer: Answer | undefined) => void>()
  let asked = 0
  return {
    ask(send) {
      const request = ++asked
      return new Promise((resolve) => {
        const timer = setTimeout(() => settle(undefined), patienceMs)
        const settle = (answer: Answer | undefined) => {
          clearTimeout(timer)
          open.delete(request)
          resolve(answer)
        }
        open.set(request, settle)
        send(request)
      })
    },
    answer: (request, answer) => open.get(request)?.(answer),
  }
}

/** Questions between the main thread and a cell, as either side asks and answers them. */
import { createQuestions } from '../thread/questions.ts'
import type { AnswerTo, CellQuestions, MainQuestions, Question } from './messages.ts'

type Questions = CellQuestions & MainQuestions
type Name = keyof Questions

export type Asker<All extends Name> = <K extends All>(
  question: Question<K>,
  options?: {
    /** Nobody waits for the answer any more. */
    readonly signal?: AbortSignal
    /** Longer than the other side takes. */
    readonly withinMs?: number
  },
) => Promise<AnswerTo<K> | undefined>

export type AskSide<All extends Name> = {
  readonly ask: Asker<All>
  /** What the other side has said to one of the questions. */
  answered(request: number, answer: unknown): void
  /** It has ended: what is open is answered with nothing, and so is what is asked from now on. */
  close(): void
}

type Post<All extends Name> = (
  message:
    | { readonly type: 'ask'; readonly request: number; readonly question: Question<All> }
    | { readonly type: 'gone'; readonly request: number },
) => void

/** What takes longest by itself is bounded by its own limits; this is for a side that has ended. */
const PATIENCE_MS = 60_000

/** As many are open as clients may have: each is of one request that has its place. */
export function createAsker<All extends Name>(post: Post<All>): AskSide<All> {
  const questions = createQuestions<unknown>(PATIENCE_MS)
  let isClosed = false
  const ask: Asker<All> = (question, { signal, withinMs = PATIENCE_MS } = {}) => {
    if (isClosed) return Promise.resolve(undefined)
    let request = 0
    const asked = questions.ask((number) => {
      request = number
      post({ type: 'ask', request, question })
    }, withinMs / PATIENCE_MS)
    if (signal === undefined) return asked as Promise<never>
    const onGone = () => post({ type: 'gone', request })
    signal.addEventListener('abort', onGone, { once: true })
    return asked.finally(() => signal.removeEventListener('abort', onGone)) as Promise<never>
  }
  return {
    ask,
    answered: (request, answer) => void questions.answer(request, answer),
    close() {
      isClosed = true
      questions.close()
    },
  }
}

/** By question: the answer, or a promise of it that never rejects. */
export type Answers<All extends Name> = {
  readonly [K in All]: (
    ask: Questions[K][0],
    client: AskedFor,
  ) => AnswerTo<K> | Promise<AnswerTo<K>>
}
/** For whom it is asked, as far as the other side is told. */
export type AskedFor = { readonly isGone: boolean; readonly signal: AbortSignal }

export type AnswerSide<All extends Name> = {
  asked(request: number, question: Question<All>): void
  gone(request: number): void
  /** Whoever has asked has ended. */
  close(): void
}

export function createAnswerSide<All extends Name>(
  answers: Answers<All>,
  post: (message: {
    readonly type: 'answer'
    readonly request: number
    readonly answer: unknown
  }) => void,
  onBug: (error: unknown) => void,
): AnswerSide<All> {
  const open = new Map<number, AbortController>()
  async function answer(request: number, { what, ...ask }: Question<All>): Promise<void> {
    const controller = new AbortController()
    const { signal } = controller
    open.set(request, controller)
    const client: AskedFor = {
      signal,
      get isGone() {
        return signal.aborted
      },
    }
    let said: unknown
    try {
      const run = answers[what as All] as (ask: object, client: AskedFor) => unknown
      said = await run(ask, client)
    } catch (error) {
      onBug(error)
    }
    if (open.delete(request)) post({ type: 'answer', request, answer: said })
  }
  return {
    asked: (request, question) => void answer(request, question),
    gone: (request) => open.get(request)?.abort(),
    close() {
      for (const controller of open.values()) controller.abort()
      open.clear()
    },
  }
}

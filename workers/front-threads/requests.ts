/** Requests between the main thread and a front thread, for either side. */
import { createQuestions } from '../thread/questions.ts'
import type { FrontThreadQuestions, MainQuestions, Question, ResponseTo } from './messages.ts'

type Questions = FrontThreadQuestions & MainQuestions
type Name = keyof Questions

export type RequestFunction<All extends Name> = <K extends All>(
  question: Question<K>,
  options?: {
    /** Aborted when the requester no longer waits. */
    readonly signal?: AbortSignal
    /** Timeout; it should exceed the other side's own. */
    readonly withinMs?: number
  },
) => Promise<ResponseTo<K> | undefined>

export type RequestSide<All extends Name> = {
  readonly request: RequestFunction<All>
  onResponse(request: number, response: unknown): void
  /** The other side has ended: open and later requests resolve to undefined. */
  close(): void
}

type Post<All extends Name> = (
  message:
    | { readonly type: 'ask'; readonly request: number; readonly question: Question<All> }
    | { readonly type: 'gone'; readonly request: number },
) => void

/** Slow requests have shorter timeouts of their own; this one is for a side that has ended. */
const TIMEOUT_MS = 60_000

/**
 * Open requests need no limit here, because each belongs to a client's request, and those are
 * limited.
 */
export function createRequestSide<All extends Name>(post: Post<All>): RequestSide<All> {
  const questions = createQuestions<unknown>(TIMEOUT_MS)
  let isClosed = false
  const request: RequestFunction<All> = (question, { signal, withinMs = TIMEOUT_MS } = {}) => {
    if (isClosed) return Promise.resolve(undefined)
    let request = 0
    const requested = questions.request((number) => {
      request = number
      post({ type: 'ask', request, question })
    }, withinMs / TIMEOUT_MS)
    if (signal === undefined) return requested as Promise<never>
    const onGone = () => post({ type: 'gone', request })
    signal.addEventListener('abort', onGone, { once: true })
    return requested.finally(() => signal.removeEventListener('abort', onGone)) as Promise<never>
  }
  return {
    request,
    onResponse: (request, response) => void questions.respond(request, response),
    close() {
      isClosed = true
      questions.close()
    },
  }
}

/** Handlers by request; each returns the response, or a promise that never rejects. */
export type RequestHandlers<All extends Name> = {
  readonly [K in All]: (
    request: Questions[K][0],
    client: RequestClient,
  ) => ResponseTo<K> | Promise<ResponseTo<K>>
}
/** The client on whose behalf the request is made. */
export type RequestClient = { readonly isGone: boolean; readonly signal: AbortSignal }

export type ResponseSide<All extends Name> = {
  onRequest(request: number, question: Question<All>): void
  gone(request: number): void
  /** The requester has ended. */
  close(): void
}

export function createResponseSide<All extends Name>(
  handlers: RequestHandlers<All>,
  post: (message: {
    readonly type: 'answer'
    readonly request: number
    readonly response: unknown
  }) => void,
  onBug: (error: unknown) => void,
): ResponseSide<All> {
  const open = new Map<number, AbortController>()
  async function respond(request: number, { what, ...query }: Question<All>): Promise<void> {
    const controller = new AbortController()
    const { signal } = controller
    open.set(request, controller)
    const client: RequestClient = {
      signal,
      get isGone() {
        return signal.aborted
      },
    }
    let said: unknown
    try {
      const run = handlers[what as All] as (parameters: object, client: RequestClient) => unknown
      said = await run(query, client)
    } catch (error) {
      onBug(error)
    }
    if (open.delete(request)) post({ type: 'answer', request, response: said })
  }
  return {
    onRequest: (request, question) => void respond(request, question),
    gone: (request) => open.get(request)?.abort(),
    close() {
      for (const controller of open.values()) controller.abort()
      open.clear()
    },
  }
}

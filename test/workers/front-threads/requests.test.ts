import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { MainQuestions } from '../../../workers/front-threads/messages.ts'
import {
  createRequestSide,
  createResponseSide,
  type RequestClient,
  type RequestHandlers,
} from '../../../workers/front-threads/requests.ts'

type RequestName = keyof MainQuestions
const NOT_REQUESTED = () => {
  throw new Error('nobody asks that')
}
const QUIET: RequestHandlers<RequestName> = {
  listen: NOT_REQUESTED,
  ownFilter: NOT_REQUESTED,
  drain: NOT_REQUESTED,
  close: NOT_REQUESTED,
  reloadKeys: NOT_REQUESTED,
  metrics: NOT_REQUESTED,
  metric: NOT_REQUESTED,
  stats: NOT_REQUESTED,
}

/** Makes both sides of a channel; each message is copied like between threads. */
function pair(responses: Partial<RequestHandlers<RequestName>>) {
  const bugs: unknown[] = []
  const responseSide = createResponseSide<RequestName>(
    { ...QUIET, ...responses },
    (message) => {
      const { request, response } = structuredClone(message)
      requestSide.onResponse(request, response)
    },
    (error) => bugs.push(error),
  )
  const requestSide = createRequestSide<RequestName>((message) => {
    const copy = structuredClone(message)
    if (copy.type === 'ask') responseSide.onRequest(copy.request, copy.question)
    else responseSide.gone(copy.request)
  })
  return { requestSide, responseSide, bugs }
}

describe('a request between the main thread and a front thread', () => {
  test('gets the response of its handler', async () => {
    const { requestSide } = pair({
      metrics: () => ({ text: 'all' }),
      metric: async ({ name }) => ({ values: [{ part: '', labels: { name }, value: 1 }] }),
    })
    expect(await requestSide.request<'metrics'>({ what: 'metrics' })).toEqual({ text: 'all' })
    const one = await requestSide.request<'metric'>({ what: 'metric', name: 'a' })
    expect(one).toEqual({ values: [{ part: '', labels: { name: 'a' }, value: 1 }] })
  })

  test('that fails gets an empty response, and is reported', async () => {
    const { requestSide, bugs } = pair({})
    expect(await requestSide.request<'stats'>({ what: 'stats' })).toBeUndefined()
    expect(bugs).toEqual([new Error('nobody asks that')])
  })

  test('aborts the signal of its handler when its client disconnects', async () => {
    let received: RequestClient | undefined
    const { requestSide, responseSide } = pair({
      drain: (_, client) => {
        received = client
        return new Promise(() => {})
      },
    })
    const gone = new AbortController()
    void requestSide.request<'drain'>({ what: 'drain', withinMs: 5 }, { signal: gone.signal })
    await turn()
    expect(received?.isGone).toBe(false)
    gone.abort()
    expect(received?.isGone).toBe(true)
    void requestSide.request<'drain'>({ what: 'drain', withinMs: 5 })
    await turn()
    expect(received?.isGone).toBe(false)
    responseSide.close()
    expect(received?.signal.aborted).toBe(true)
  })

  test('gets an empty response when the other side ends', async () => {
    const { requestSide } = pair({ close: () => new Promise(() => {}) })
    const open = requestSide.request<'close'>({ what: 'close', withinMs: 1_000 })
    requestSide.close()
    expect(await open).toBeUndefined()
    // No side is left to respond.
    expect(await requestSide.request<'close'>({ what: 'close', withinMs: 1_000 })).toBeUndefined()
  })
})

/**
 * This module sends JSON-RPC requests and reads the FlashblockId that each response was made at.
 */

export type Reply = {
  readonly id: number
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}
export type BatchReplies = { readonly flashblockId: string; readonly replies: readonly Reply[] }

type Question = readonly [method: string, params: readonly unknown[]]
type Options = {
  readonly headers?: Readonly<Record<string, string>>
  readonly givenUpMs?: number
}

const GIVEN_UP_MS = 120_000
const requestOf = ([method, params]: Question, id: number) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
})

/**
 * Sends the questions as one batch.
 * @throws when the response is not a list
 */
export async function sendRequest(
  url: string,
  questions: readonly Question[],
  options: Options = {},
): Promise<BatchReplies> {
  const { flashblockId, body } = await post(url, questions.map(requestOf), options)
  if (!Array.isArray(body)) throw new Error(`${url}: ${JSON.stringify(body)}`)
  return { flashblockId, replies: (body as Reply[]).toSorted((a, b) => a.id - b.id) }
}

/** Sends one request that is not a batch. */
export async function requestOne(
  url: string,
  question: Question,
  options: Options = {},
): Promise<BatchReplies> {
  const { flashblockId, body } = await post(url, requestOf(question, 0), options)
  return { flashblockId, replies: [body as Reply] }
}

async function post(url: string, body: unknown, { headers, givenUpMs = GIVEN_UP_MS }: Options) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(givenUpMs),
  })
  const flashblockId = response.headers.get('x-flashblock') ?? ''
  return { flashblockId, body: (await response.json()) as unknown }
}

/** Batches of JSON-RPC with the place that each answer has in the flashblocks. */

export type Reply = {
  readonly id: number
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}
export type Answers = { readonly place: string; readonly replies: readonly Reply[] }

const GIVEN_UP_MS = 30_000

/** @throws when there is no list of answers */
export async function ask(
  url: string,
  questions: readonly (readonly [method: string, params: readonly unknown[]])[],
  {
    headers = {},
    givenUpMs = GIVEN_UP_MS,
  }: {
    readonly headers?: Readonly<Record<string, string>>
    readonly givenUpMs?: number
  } = {},
): Promise<Answers> {
  const body = questions.map(([method, params], id) => ({ jsonrpc: '2.0', id, method, params }))
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(givenUpMs),
  })
  const replies = (await response.json()) as Reply[]
  if (!Array.isArray(replies)) throw new Error(`${url}: ${JSON.stringify(replies)}`)
  return {
    place: response.headers.get('x-flashblock') ?? '',
    replies: replies.toSorted((a, b) => a.id - b.id),
  }
}

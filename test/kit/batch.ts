/** Batches of JSON-RPC with the place that each answer has in the flashblocks. */

export type Reply = {
  readonly id: number
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}
export type Answers = { readonly place: string; readonly replies: readonly Reply[] }

type Question = readonly [method: string, params: readonly unknown[]]
type Options = {
  readonly headers?: Readonly<Record<string, string>>
  readonly givenUpMs?: number
}

const GIVEN_UP_MS = 30_000
const requestOf = ([method, params]: Question, id: number) => ({
  ...{ jsonrpc: '2.0', id, method, params },
})

/** @throws when there is no list of answers */
export async function ask(
  url: string,
  questions: readonly Question[],
  options: Options = {},
): Promise<Answers> {
  const { place, body } = await post(url, questions.map(requestOf), options)
  if (!Array.isArray(body)) throw new Error(`${url}: ${JSON.stringify(body)}`)
  return { place, replies: (body as Reply[]).toSorted((a, b) => a.id - b.id) }
}

/** A request that is no batch. */
export async function askOne(
  url: string,
  question: Question,
  options: Options = {},
): Promise<Answers> {
  const { place, body } = await post(url, requestOf(question, 0), options)
  return { place, replies: [body as Reply] }
}

async function post(url: string, body: unknown, { headers, givenUpMs = GIVEN_UP_MS }: Options) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(givenUpMs),
  })
  const place = response.headers.get('x-flashblock') ?? ''
  return { place, body: (await response.json()) as unknown }
}

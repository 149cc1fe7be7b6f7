/** Batches of JSON-RPC with the place that each answer has in the flashblocks. */

export type Place = { readonly number: number; readonly index: number; readonly payloadId: string }
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
  headers: Readonly<Record<string, string>> = {},
): Promise<Answers> {
  const body = questions.map(([method, params], id) => ({ jsonrpc: '2.0', id, method, params }))
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(GIVEN_UP_MS),
  })
  const replies = (await response.json()) as Reply[]
  if (!Array.isArray(replies)) throw new Error(`${url}: ${JSON.stringify(replies)}`)
  return {
    place: response.headers.get('x-flashblock') ?? '',
    replies: replies.toSorted((a, b) => a.id - b.id),
  }
}

/** undefined: of a block that came without flashblocks. */
export function parsePlace(text: string): Place | undefined {
  const [, number, index, payloadId] = /^(\d+):(\d+):(0x[0-9a-f]{16})$/.exec(text) ?? []
  return payloadId === undefined
    ? undefined
    : { number: Number(number), index: Number(index), payloadId }
}

export const textOf = ({ number, index, payloadId }: Place): string =>
  `${number}:${index}:${payloadId}`

/** Below zero: `one` is the older one. */
export const compare = (one: Place, other: Place): number =>
  one.number - other.number || one.index - other.index

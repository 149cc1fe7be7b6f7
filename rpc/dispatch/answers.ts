/** Replies become answers: the envelope is put around each, and what is large stays in parts. */
import { errorText } from '../json/envelope.ts'
import { internalError } from '../seam/errors.ts'
import { type Answer, LARGE, LargeAnswer, type Part } from '../seam/exchange.ts'
import type { PoolReply } from '../seam/executor.ts'
import type { Item } from './items.ts'

type Headers = Answer['headers']
/** What an item is answered: text, or the parts of a result that came in pieces. */
export type Said = string | readonly Part[]

export const NO_HEADERS: Headers = {}

/** undefined: to a notification, nothing. */
export function saidOf(item: Item, reply: PoolReply): Said | undefined {
  if (item.id === undefined) return undefined
  if ('pieces' in reply) return [resultHead(item.id), ...reply.pieces, '}']
  if ('result' in reply) return `${resultHead(item.id)}${reply.result}}`
  return errorText(item.id, 'error' in reply ? reply.error : internalError().toObject())
}

export const lengthOf = (said: Said): number =>
  typeof said === 'string' ? said.length : said.reduce((sum, { length }) => sum + length, 0)

export function singleAnswer(item: Item, reply: PoolReply, headers: Headers): Answer {
  if ('result' in reply && reply.result.length >= LARGE && item.id !== undefined)
    return new LargeAnswer([resultHead(item.id), reply.result, '}'], headers)
  const said = saidOf(item, reply)
  if (typeof said === 'object') return new LargeAnswer(said, headers)
  return { text: said, status: said === undefined ? 204 : 200, headers }
}

/** @param all what each item is answered, in their order */
export function batchAnswer(all: readonly (Said | undefined)[], headers: Headers): Answer {
  const said = all.filter((one) => one !== undefined)
  if (said.length === 0) return { text: undefined, status: 204, headers }
  const length = said.reduce((sum, one) => sum + lengthOf(one), 0)
  if (length < LARGE && said.every((one) => typeof one === 'string'))
    return { text: `[${said.join(',')}]`, status: 200, headers }
  const parts = said.flatMap((one, at) => [at === 0 ? '[' : ',', ...partsOf(one)])
  return new LargeAnswer([...parts, ']'], headers)
}

const partsOf = (said: Said): readonly Part[] => (typeof said === 'string' ? [said] : said)

const resultHead = (id: string): string => `{"jsonrpc":"2.0","id":${id},"result":`

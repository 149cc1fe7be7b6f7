/** Builds responses: adds the envelope to each reply and leaves large results in parts. */

import { internalError } from '../core/errors.ts'
import { LARGE, LargeResponse, type Part, type RpcResponse } from '../core/exchange.ts'
import type { PoolReply } from '../core/executor.ts'
import { errorText } from '../json/envelope.ts'
import type { Item } from './items.ts'

type Headers = RpcResponse['headers']
/** Answer to an item: text, or the parts of a result in pieces. */
export type Said = string | readonly Part[]

export const NO_HEADERS: Headers = {}

/** Builds the answer to an item. undefined: the item is a notification. */
export function saidOf(item: Item, reply: PoolReply): Said | undefined {
  if (item.id === undefined) return undefined
  if ('pieces' in reply) return [resultHead(item.id), ...reply.pieces, '}']
  if ('result' in reply) return `${resultHead(item.id)}${reply.result}}`
  return errorText(item.id, 'error' in reply ? reply.error : internalError().toObject())
}

export const lengthOf = (said: Said): number =>
  typeof said === 'string' ? said.length : said.reduce((sum, { length }) => sum + length, 0)

export function singleResponse(item: Item, reply: PoolReply, headers: Headers): RpcResponse {
  if ('result' in reply && reply.result.length >= LARGE && item.id !== undefined)
    return new LargeResponse([resultHead(item.id), reply.result, '}'], headers)
  const said = saidOf(item, reply)
  if (typeof said === 'object') return new LargeResponse(said, headers)
  return { text: said, status: said === undefined ? 204 : 200, headers }
}

/** @param all answers of the items, in order */
export function batchResponse(all: readonly (Said | undefined)[], headers: Headers): RpcResponse {
  const said = all.filter((one) => one !== undefined)
  if (said.length === 0) return { text: undefined, status: 204, headers }
  const length = said.reduce((sum, one) => sum + lengthOf(one), 0)
  if (length < LARGE && said.every((one) => typeof one === 'string'))
    return { text: `[${said.join(',')}]`, status: 200, headers }
  const parts = said.flatMap((one, at) => [at === 0 ? '[' : ',', ...partsOf(one)])
  return new LargeResponse([...parts, ']'], headers)
}

const partsOf = (said: Said): readonly Part[] => (typeof said === 'string' ? [said] : said)

const resultHead = (id: string): string => `{"jsonrpc":"2.0","id":${id},"result":`

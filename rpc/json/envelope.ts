/** JSON-RPC 2.0 envelopes: what JSON.parse gave, with ids and parameters as they were sent. */
import { invalidParams, invalidRequest, type RpcErrorObject } from '../seam/errors.ts'

export type Request = {
  /** JSON text; undefined: a notification, which is not answered. */
  readonly id: string | undefined
  readonly method: string
  readonly params: readonly unknown[]
  /** JSON text of `params`. */
  readonly text: string
  /** `minFlashblock` as it was sent; undefined: nothing is asked. */
  readonly minFlashblock: unknown
}
/** An item that is no request, with the answer it gets. */
export type BadRequest = { readonly id: string | undefined; readonly error: RpcErrorObject }

/** Of one item: what the scan cut out for it, and how long its id may be. */
export type ItemCut = {
  readonly id: string | undefined
  readonly params: string | undefined
  readonly idCharacters: number
}

/** @param item what JSON.parse gave */
export function readRequest(item: unknown, cut: ItemCut): Request | BadRequest {
  if (typeof item !== 'object' || item === null || Array.isArray(item))
    return { id: 'null', error: INVALID }
  const { jsonrpc, method, params, id, minFlashblock } = item as Readonly<Record<string, unknown>>
  const idText = id === undefined ? undefined : textOfId(id, cut)
  const isValid =
    jsonrpc === '2.0' &&
    typeof method === 'string' &&
    method !== '' &&
    (id === undefined || idText !== undefined)
  if (!isValid) return { id: idText ?? 'null', error: INVALID }
  if (params === undefined || params === null)
    return { id: idText, method, params: [], text: '[]', minFlashblock }
  if (!Array.isArray(params))
    return { id: idText, error: invalidParams('non-array args').toObject() }
  return { id: idText, method, params, text: cut.params ?? JSON.stringify(params), minFlashblock }
}

/** undefined: an object or an array, which no id may be, or longer than an id may be. */
function textOfId(id: unknown, cut: ItemCut): string | undefined {
  if (typeof id === 'number') return cut.id ?? JSON.stringify(id)
  // The scan says the same of all but those whose key is written with escapes.
  if (typeof id === 'string') return id.length > cut.idCharacters ? undefined : asciiJson(id)
  return typeof id === 'object' && id !== null ? undefined : String(id)
}

/** JSON text in ASCII alone, so that its length in bytes is its length and a socket may write it as latin1. */
export function asciiJson(value: unknown): string {
  return asciiText(JSON.stringify(value))
}
/** The same of JSON text: what is not ASCII stands in its strings alone. */
export const asciiText = (text: string): string => text.replace(/[\u0080-\uffff]/g, escaped)

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
function escaped(character: string): string {
  const code = character.charCodeAt(0)
  return `\\u${HEX[code >> 8]}${HEX[code & 255]}`
}

/** Text of an answer that is an error. @param id as JSON text */
export const errorText = (id: string, error: RpcErrorObject): string =>
  `{"jsonrpc":"2.0","id":${id},"error":${error === INVALID ? INVALID_TEXT : asciiJson(error)}}`

/** Texts of the answer of a batch of which each item gets the same error. */
export function errorTexts(ids: readonly (string | undefined)[], error: RpcErrorObject): string[] {
  const text = asciiJson(error)
  return ids.map((id) => `{"jsonrpc":"2.0","id":${id ?? 'null'},"error":${text}}`)
}

/** A batch may be full of it. */
const INVALID: RpcErrorObject = invalidRequest().toObject()
const INVALID_TEXT = asciiJson(INVALID)

/** JSON-RPC 2.0 envelopes from parsed JSON, with ids and parameters as they were sent. */
import { invalidParams, invalidRequest, type RpcErrorObject } from '../core/errors.ts'

export type Request = {
  /** Id as JSON text; undefined for a notification, which gets no response. */
  readonly id: string | undefined
  readonly method: string
  readonly params: readonly unknown[]
  /** JSON text of `params`. */
  readonly text: string
  /** `minFlashblock` as it was sent; undefined when absent. */
  readonly minFlashblock: unknown
}
/** An item that is no request, with the response that it gets. */
export type BadRequest = { readonly id: string | undefined; readonly error: RpcErrorObject }

/** Parts of one item that the scan cut out, and the maximum length of its id. */
export type ItemCut = {
  readonly id: string | undefined
  readonly params: string | undefined
  readonly idCharacters: number
}

/**
 * Reads one request.
 * @param item result of JSON.parse
 */
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

/** Returns the id's text; undefined for an object, an array, or an id that is too long. */
function textOfId(id: unknown, cut: ItemCut): string | undefined {
  if (typeof id === 'number') return cut.id ?? JSON.stringify(id)
  // The scan has checked all ids except those whose key has escapes.
  if (typeof id === 'string') return id.length > cut.idCharacters ? undefined : asciiJson(id)
  return typeof id === 'object' && id !== null ? undefined : String(id)
}

/**
 * Encodes JSON text in ASCII, so that its length counts bytes and a socket may write it as latin1.
 */
export function asciiJson(value: unknown): string {
  return asciiText(JSON.stringify(value))
}
/** Converts JSON text to ASCII; only its strings can have other characters. */
export const asciiText = (text: string): string => text.replace(/[\u0080-\uffff]/g, escaped)

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
function escaped(character: string): string {
  const code = character.charCodeAt(0)
  return `\\u${HEX[code >> 8]}${HEX[code & 255]}`
}

/**
 * Builds the text of an error response.
 * @param id as JSON text
 */
export const errorText = (id: string, error: RpcErrorObject): string =>
  `{"jsonrpc":"2.0","id":${id},"error":${error === INVALID ? INVALID_TEXT : asciiJson(error)}}`

/** Builds the response texts of a batch whose items all get the same error. */
export function errorTexts(ids: readonly (string | undefined)[], error: RpcErrorObject): string[] {
  const text = asciiJson(error)
  return ids.map((id) => `{"jsonrpc":"2.0","id":${id ?? 'null'},"error":${text}}`)
}

/** The text is built once, because all items of a batch may be invalid. */
const INVALID: RpcErrorObject = invalidRequest().toObject()
const INVALID_TEXT = asciiJson(INVALID)

/** Request bodies: a cheap look at the text before JSON.parse, then JSON-RPC 2.0 envelopes with their ids and parameters as they were sent. */
import { invalidParams, invalidRequest, type RpcErrorObject } from './errors.ts'

export type ScanLimits = {
  readonly depth: number
  /** Keys of one object. Keys that begin with 0x (addresses, slots) are counted apart: they are data, bounded by `hexKeys`. */
  readonly keys: number
  readonly hexKeys: number
  /** Lists, objects, and what stands in them: a small value costs JSON.parse as much as a long one, a list several times that. */
  readonly values: number
  /** Scanning stops beyond so many items of a batch. */
  readonly items: number
}
export type Scan = {
  readonly isBatch: boolean
  /** Items of a batch, 1 otherwise. */
  readonly items: number
  /** Why the body is refused without being parsed. */
  readonly fault: string | undefined
  /** Text of an id that is a number, by item. */
  readonly ids: readonly (string | undefined)[]
  /** Text of the params array, by item. */
  readonly params: readonly (string | undefined)[]
}

const QUOTE = 34
const BACKSLASH = 92
const OPEN_OBJECT = 123
const OPEN_ARRAY = 91

/**
 * One pass over the text, without a stack of its own to overflow: JSON.parse takes a second for a megabyte of "[". It also cuts out number
 * ids (12345678901234567890 would come back as …567000) and params texts (cache keys, and what a worker gets).
 */
export function scan(text: string, limits: ScanLimits): Scan {
  const ids: (string | undefined)[] = []
  const params: (string | undefined)[] = []
  const keys: number[] = []
  const hexKeys: number[] = []
  let depth = 0
  let envelope = 1
  let items = 1
  let values = 0
  let paramsFrom = -1
  let keyFrom = 0
  let keyTo = 0
  let hasEscapedKey = false
  let isStarted = false

  const result = (fault?: string): Scan => ({
    isBatch: envelope === 2,
    items,
    fault,
    // An escaped key may spell "id" or "params" a second time, unseen here: the parsed values count then.
    ids: hasEscapedKey ? [] : ids,
    params: hasEscapedKey ? [] : params,
  })

  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        keyFrom = at + 1
        at = endOfString(text, keyFrom)
        if (at < 0) return result('unterminated string')
        keyTo = at
        break
      }
      case OPEN_ARRAY:
        if (!isStarted) envelope = 2
        isStarted = true
        if (++depth > limits.depth) return result(`nested deeper than ${limits.depth}`)
        if (++values > limits.values) return result(`more than ${limits.values} values`)
        break
      case OPEN_OBJECT:
        isStarted = true
        if (++depth > limits.depth) return result(`nested deeper than ${limits.depth}`)
        if (++values > limits.values) return result(`more than ${limits.values} values`)
        keys[depth] = 0
        hexKeys[depth] = 0
        break
      case 93: // ]
        depth--
        if (depth === envelope && paramsFrom >= 0) {
          params[items - 1] = text.slice(paramsFrom, at + 1)
          paramsFrom = -1
        }
        break
      case 125: // }
        depth--
        break
      case 44: // ,
        if (++values > limits.values) return result(`more than ${limits.values} values`)
        if (depth === 1 && envelope === 2 && ++items > limits.items)
          return result(`more than ${limits.items} items`)
        break
      case 58: {
        // :
        const isHex = text.charCodeAt(keyFrom) === 48 && (text.charCodeAt(keyFrom + 1) | 32) === 120
        const counts = isHex ? hexKeys : keys
        const most = isHex ? limits.hexKeys : limits.keys
        counts[depth] = (counts[depth] ?? 0) + 1
        if (counts[depth]! > most) return result(`object with more than ${most} keys`)
        if (depth !== envelope) break
        const name = text.slice(keyFrom, keyTo)
        if (name === 'id') ids[items - 1] = numberAt(text, skipSpace(text, at + 1))
        else if (name === 'params') {
          const from = skipSpace(text, at + 1)
          params[items - 1] = undefined
          paramsFrom = text.charCodeAt(from) === OPEN_ARRAY ? from : -1
        } else if (name.includes('\\')) hasEscapedKey = true
        break
      }
    }
  }
  return result()
}

/** Index of the closing quote; -1: there is none. */
function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (at - 1 - slashes >= from && text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes++
    if (slashes % 2 === 0) return at
  }
  return -1
}

function skipSpace(text: string, at: number): number {
  for (;;) {
    const code = text.charCodeAt(at)
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at
    at++
  }
}

/** The number that begins at `at`, as written; JSON.parse has the last word on its form. */
function numberAt(text: string, at: number): string | undefined {
  let to = at
  for (; ; to++) {
    const code = text.charCodeAt(to)
    const isPart =
      (code >= 48 && code <= 57) || code === 45 || code === 43 || code === 46 || (code | 32) === 101
    if (!isPart) break
  }
  return to === at ? undefined : text.slice(at, to)
}

export type Request = {
  /** JSON text; undefined: a notification, which is not answered. */
  readonly id: string | undefined
  readonly method: string
  readonly params: readonly unknown[]
  /** JSON text of `params`. */
  readonly text: string
}
/** An item that is no request, with the answer it gets. */
export type BadRequest = { readonly id: string | undefined; readonly error: RpcErrorObject }

/** @param item what JSON.parse gave; `idCut` and `paramsCut`: the texts that the scan cut out for it. */
export function readRequest(
  item: unknown,
  idCut: string | undefined,
  paramsCut: string | undefined,
): Request | BadRequest {
  if (typeof item !== 'object' || item === null || Array.isArray(item))
    return { id: 'null', error: invalidRequest().toObject() }
  const { jsonrpc, method, params, id } = item as Readonly<Record<string, unknown>>
  const idText = id === undefined ? undefined : textOfId(id, idCut)
  const isValid =
    jsonrpc === '2.0' &&
    typeof method === 'string' &&
    method !== '' &&
    (id === undefined || idText !== undefined)
  if (!isValid) return { id: idText ?? 'null', error: invalidRequest().toObject() }
  if (params === undefined || params === null) return { id: idText, method, params: [], text: '[]' }
  if (!Array.isArray(params))
    return { id: idText, error: invalidParams('non-array args').toObject() }
  return { id: idText, method, params, text: paramsCut ?? JSON.stringify(params) }
}

/** undefined: an object or an array, which no id may be. */
function textOfId(id: unknown, cut: string | undefined): string | undefined {
  if (typeof id === 'number') return cut ?? JSON.stringify(id)
  if (typeof id === 'string') return asciiJson(id)
  return typeof id === 'object' && id !== null ? undefined : String(id)
}

/** JSON text in ASCII alone, so that its length in bytes is its length and a socket may write it as latin1. */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

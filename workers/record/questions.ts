/**
 * Selects what a replay can repeat of a JSON-RPC body: the whole body, or some items of a batch.
 */
import { checksumOf } from '../../engine/primitives/checksum.ts'
import type { Part as ResponsePart, RpcResponse } from '../../rpc/core/exchange.ts'
import { apartOf } from './apart.ts'
import type { Apart, ResponseDigest } from './lines.ts'

export type Repeatable = {
  readonly methods: readonly string[]
  /** The body to repeat; undefined if nothing is repeated, for the reason in `apart`. */
  readonly body: string | undefined
  readonly apart: Apart | undefined
  /** The repeated part of a batch, if it is not repeated as a whole. */
  readonly part: Part | undefined
}
/** Indexes of the repeated items of a batch, and its number of items. */
type Part = { readonly indexes: readonly number[]; readonly items: number }

export type Said = Pick<RpcResponse, 'parts' | 'text'>

/** Limits of the method names for people. */
const METHODS_LISTED = 8
const NAME_CHARACTERS = 64

export function repeatableOf(body: string): Repeatable {
  const parsed = parse(body)
  const items: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed]
  const names = items.map(methodOf)
  const methods = [...new Set(names.filter((name) => name !== undefined))]
    .slice(0, METHODS_LISTED)
    .map((name) => name.slice(0, NAME_CHARACTERS))
  const reasons = names.map(apartOf)
  const apart = reasons.find((reason) => reason !== undefined)
  if (apart === undefined) return { methods, body, apart, part: undefined }
  const retained = [...items.keys()].filter((at) => reasons[at] === undefined)
  // Without a response for every item, responses cannot be matched with items.
  const isPlain = items.every(hasId)
  if (retained.length === 0 || !isPlain) return { methods, body: undefined, apart, part: undefined }
  return {
    methods,
    apart,
    body: JSON.stringify(retained.map((at) => items[at])),
    part: { indexes: retained, items: items.length },
  }
}

/**
 * Digests of a response, or of each item of a small batch: length, hash and beginning. Items are
 * parsed and written again, so that their text does not depend on the batch.
 */
export function digestsOf(said: Said): readonly ResponseDigest[] {
  const items = itemsOf(said)
  if (items === undefined) return [digestOf(said.parts ?? [said.text ?? ''], PREFIX_CHARACTERS)]
  const prefix = Math.max(MIN_PREFIX_CHARACTERS, Math.floor(BATCH_PREFIX_CHARACTERS / items.length))
  return items.map((item) => digestOf([JSON.stringify(item)], prefix))
}

/** Selects the responses to these items; undefined if the batch is large or lacks a response. */
export function partOf(said: Said, { indexes, items }: Part): Said | undefined {
  const all = itemsOf(said)
  if (all?.length !== items) return undefined
  return { text: JSON.stringify(indexes.map((at) => all[at])) }
}

/** Finds the request that belongs to response number `at`. */
export function requestOf(
  body: string,
  at: number,
): { readonly body: string; readonly method?: string | undefined } {
  const parsed = parse(body)
  if (!Array.isArray(parsed)) return { body, method: methodOf(parsed) }
  // Notifications have no response.
  const item: unknown = parsed.filter(hasId)[at]
  return { body: JSON.stringify(item) ?? body, method: methodOf(item) }
}

/** Characters of a response in the recording; all items of a batch share the second limit. */
const PREFIX_CHARACTERS = 512
const BATCH_PREFIX_CHARACTERS = 2_048
const MIN_PREFIX_CHARACTERS = 64

function digestOf(parts: readonly ResponsePart[], prefix: number): ResponseDigest {
  const bytes = parts.reduce((sum, part) => sum + part.length, 0)
  return { bytes, hash: checksumOf(parts), begins: prefixOf(parts, prefix) }
}

function itemsOf({ parts, text = '' }: Said): readonly unknown[] | undefined {
  if (parts !== undefined || !text.startsWith('[')) return undefined
  const items = parse(text)
  return Array.isArray(items) ? items : undefined
}

function prefixOf(parts: readonly ResponsePart[], characters: number): string {
  let text = ''
  for (const part of parts) {
    const rest = characters - text.length
    if (rest <= 0) break
    text += typeof part === 'string' ? part.slice(0, rest) : latin1(part.subarray(0, rest))
  }
  return text
}
const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1')

/** Returns undefined if the text is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function methodOf(item: unknown): string | undefined {
  const method = typeof item === 'object' && item !== null && Reflect.get(item, 'method')
  return typeof method === 'string' ? method : undefined
}

const hasId = (item: unknown): boolean =>
  typeof item !== 'object' || item === null || Reflect.get(item, 'id') !== undefined

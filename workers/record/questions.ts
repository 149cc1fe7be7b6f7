/** A body of JSON-RPC as a replay asks it again: whole, or without those items of a batch that have no answer of their own place. */
import { checksumOf } from '../../engine/primitives/checksum.ts'
import type { Answer, Part as AnswerPart } from '../../rpc/seam/exchange.ts'
import { apartOf } from './apart.ts'
import type { AnswerDigest, Apart } from './lines.ts'

export type Looked = {
  readonly methods: readonly string[]
  /** What is asked again; undefined: nothing, `apart` says why. */
  readonly body: string | undefined
  readonly apart: Apart | undefined
  /** Of a batch of which not all is asked again. */
  readonly part: Part | undefined
}
/** Places of items of a batch, and how many it has. */
type Part = { readonly places: readonly number[]; readonly items: number }

export type Said = Pick<Answer, 'parts' | 'text'>

/** For those who look. */
const METHODS_SHOWN = 8
const NAME_CHARACTERS = 64

export function lookAt(body: string): Looked {
  const parsed = parse(body)
  const items: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed]
  const names = items.map(methodOf)
  const methods = [...new Set(names.filter((name) => name !== undefined))]
    .slice(0, METHODS_SHOWN)
    .map((name) => name.slice(0, NAME_CHARACTERS))
  const reasons = names.map(apartOf)
  const apart = reasons.find((reason) => reason !== undefined)
  if (apart === undefined) return { methods, body, apart, part: undefined }
  const kept = [...items.keys()].filter((at) => reasons[at] === undefined)
  // A notification has no answer, and then nobody can say which one is whose.
  const isPlain = items.every(hasId)
  if (kept.length === 0 || !isPlain) return { methods, body: undefined, apart, part: undefined }
  return {
    ...{ methods, apart },
    body: JSON.stringify(kept.map((at) => items[at])),
    part: { places: kept, items: items.length },
  }
}

/**
 * Of an answer, of each item where it is that of a batch and not large: length, hash and beginning. An item is as JSON.stringify writes what
 * JSON.parse has read, so that it is the same in whatever company.
 */
export function digestsOf(said: Said): readonly AnswerDigest[] {
  const items = itemsOf(said)
  if (items === undefined) return [digestOf(said.parts ?? [said.text ?? ''], BEGINNING)]
  const beginning = Math.max(LEAST_BEGINNING, Math.floor(BATCH_BEGINNINGS / items.length))
  return items.map((item) => digestOf([JSON.stringify(item)], beginning))
}

/** What these items of a batch were answered; undefined: it has not an answer for each item, or is large. */
export function partOf(said: Said, { places, items }: Part): Said | undefined {
  const all = itemsOf(said)
  if (all?.length !== items) return undefined
  return { text: JSON.stringify(places.map((at) => all[at])) }
}

/** The request of the body that its answer number `at` is of, as far as that can be said. */
export function requestOf(
  body: string,
  at: number,
): { readonly body: string; readonly method?: string | undefined } {
  const parsed = parse(body)
  if (!Array.isArray(parsed)) return { body, method: methodOf(parsed) }
  // Notifications have none.
  const item: unknown = parsed.filter(hasId)[at]
  return { body: JSON.stringify(item) ?? body, method: methodOf(item) }
}

/** Characters of an answer that stand in the record, and of all items of a batch together. */
const BEGINNING = 512
const BATCH_BEGINNINGS = 2_048
const LEAST_BEGINNING = 64

function digestOf(parts: readonly AnswerPart[], beginning: number): AnswerDigest {
  const bytes = parts.reduce((sum, part) => sum + part.length, 0)
  return { bytes, hash: checksumOf(parts), begins: beginningOf(parts, beginning) }
}

function itemsOf({ parts, text = '' }: Said): readonly unknown[] | undefined {
  if (parts !== undefined || !text.startsWith('[')) return undefined
  const items = parse(text)
  return Array.isArray(items) ? items : undefined
}

function beginningOf(parts: readonly AnswerPart[], characters: number): string {
  let text = ''
  for (const part of parts) {
    const rest = characters - text.length
    if (rest <= 0) break
    text += typeof part === 'string' ? part.slice(0, rest) : latin1(part.subarray(0, rest))
  }
  return text
}
const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1')

/** undefined: it is no JSON. */
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

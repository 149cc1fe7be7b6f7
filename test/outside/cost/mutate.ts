/**
 * This module makes cases from others: pieces are repeated, grown, shrunk, swapped and spliced, and
 * the framing is changed.
 */
import { anyValue, litter, stringOf } from './json.ts'
import type { Dice } from './random.ts'
import {
  countNodes,
  lengthOf,
  MAX_CHARACTERS,
  nodesOf,
  partsOf,
  type Rope,
  replaceAt,
  withParts,
} from './rope.ts'
import { type Case, framed, headersOf } from './wire.ts'

/** A case with more nodes cannot be printed in a few lines. */
const MAX_NODES = 150
const MAX_BODY = 2_000_000

export function mutated(dice: Dice, one: Case, other: Case): Case {
  let body = one.body
  const steps = 1 + dice.int(3)
  for (let step = 0; step < steps; step++) body = changed(dice, body, other.body)
  if (countNodes(body) > MAX_NODES) body = one.body
  if (!dice.chance(0.25)) return { ...one, body }
  return reframed(dice, { ...one, body }, other)
}

function reframed(dice: Dice, one: Case, other: Case): Case {
  const kind = dice.int(6)
  if (kind === 0) return { ...other, body: one.body }
  if (kind === 1)
    return { ...one, times: Math.max(1, Math.round(one.times * dice.pick([0.1, 4, 30]))) }
  if (kind === 2)
    return {
      ...one,
      headers: one.headers === '' ? headersOf(dice) : changed(dice, one.headers, other.headers),
    }
  const fresh = framed(dice, one.body)
  if (kind === 3) return { ...one, pieces: fresh.pieces }
  if (kind === 4) return { ...one, part: fresh.part, writes: fresh.writes }
  const { over, path, frame, times } = fresh
  return { ...one, over, path, frame, times }
}

function changed(dice: Dice, body: Rope, other: Rope): Rope {
  const { rope, path } = dice.pick(nodesOf(body))
  const put = (replacement: Rope) => replaceAt(body, path, replacement)
  const kind = dice.int(10)
  if (kind < 3) return scaled(dice, body)
  if (kind === 3) return put({ of: rope, times: dice.size(2, 3_000) })
  if (kind === 4) return put(dice.pick(nodesOf(other)).rope)
  if (kind === 5)
    return put([dice.pick([litter(dice, 6), litter(dice, 400), anyValue(dice, 30)]), rope])
  if (kind === 6)
    return put(
      dice.pick([
        stringOf(dice, 2_000),
        anyValue(dice, 3_000),
        { digits: dice.pick([1, 6, 40, 64]) },
      ]),
    )
  const parts = [...partsOf(rope)]
  if (typeof rope === 'string') return put(editedText(dice, rope))
  if (!Array.isArray(rope) || parts.length === 0) return scaled(dice, body)
  const at = dice.int(parts.length)
  if (kind === 7) parts.splice(at, 1)
  else if (kind === 8) parts.splice(at, 0, parts[dice.int(parts.length)]!)
  else parts.splice(dice.int(parts.length), 0, ...parts.splice(at, 1))
  return put(withParts(rope, parts))
}

function editedText(dice: Dice, text: string): Rope {
  const from = dice.int(text.length + 1)
  const to = Math.min(text.length, from + dice.int(8))
  if (dice.chance(0.5)) return text.slice(0, from) + text.slice(to)
  return [
    text.slice(0, from),
    { of: text.slice(from, to), times: dice.size(1, 100) },
    text.slice(to),
  ]
}

/** Makes one of the repetitions longer or shorter. */
function scaled(dice: Dice, body: Rope): Rope {
  const repeats = nodesOf(body).filter(({ rope }) => isRepeat(rope))
  if (repeats.length === 0) return body
  const { rope, path } = dice.pick(repeats)
  const { of, times } = rope as { readonly of: Rope; readonly times: number }
  const factor = dice.pick([0.1, 0.5, 2, 4, 16])
  return replaceAt(body, path, { of, times: Math.max(1, Math.round(times * factor)) })
}

const isRepeat = (rope: Rope): boolean =>
  typeof rope === 'object' && !Array.isArray(rope) && 'of' in rope

/**
 * Makes the case longer by the factor, up to the body limit; undefined: the case is at the limit.
 */
export function grown(one: Case, factor: number): Case | undefined {
  const length = lengthOf(one.body)
  const repeats = nodesOf(one.body)
    .filter(({ rope }) => isRepeat(rope))
    .map((node) => ({ ...node, length: lengthOf(node.rope) }))
    .toSorted((a, b) => b.length - a.length)
  const longest = repeats[0]
  const isFull = length * 1.3 > MAX_BODY
  if (longest === undefined || isFull || longest.length * 4 < length) {
    if (one.times * length > 4 * MAX_BODY || (isFull && one.over === 'http')) return undefined
    return { ...one, times: one.times * 4 }
  }
  const { of, times } = longest.rope as { readonly of: Rope; readonly times: number }
  const max = (MAX_BODY - 2_000 - length) / Math.max(1, longest.length)
  const more = Math.max(2, Math.floor(times * Math.min(factor, 1 + max)))
  if (more > MAX_CHARACTERS) return undefined
  return { ...one, body: replaceAt(one.body, longest.path, { of, times: more }) }
}

/** Lists simpler cases, the simplest first. */
export function simpler(one: Case): Case[] {
  const plain: Partial<Case>[] = [
    { headers: '' },
    { part: 1 },
    { writes: [] },
    { pieces: [] },
    { times: 1 },
    { over: 'http' },
    { frame: 'text' },
    { path: '/' },
  ]
  const reframed = plain
    .filter((change) => JSON.stringify({ ...one, ...change }) !== JSON.stringify(one))
    .map((change) => ({ ...one, ...change }))
  const nodes = nodesOf(one.body).slice(1)
  const shorter = nodes.map(({ path }) => ({ ...one, body: replaceAt(one.body, path, '') }))
  return [...reframed, ...shorter]
}

/** This module changes one random field of a packet's JSON. */
import type { Random } from './random.ts'

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
export type Path = readonly (string | number)[]

/** Changes one field at an allowed path. */
export function mutated(
  json: Json,
  { random, isChanged }: { readonly random: Random; readonly isChanged: (path: Path) => boolean },
): Json {
  const path = random.pick(pathsIn(json).filter(isChanged))
  return changedAt(json, path, (value) => otherThan(value, random))
}

/** Lists the paths of all values that are no objects. */
function pathsIn(json: Json, path: Path = []): Path[] {
  if (typeof json !== 'object' || json === null) return [path]
  const below = Object.entries(json).flatMap(([key, value]) =>
    pathsIn(value, [...path, Array.isArray(json) ? Number(key) : key]),
  )
  return Array.isArray(json) ? [path, ...below] : below
}

function changedAt(json: Json, path: Path, change: (value: Json) => Json | undefined): Json {
  const [key, ...rest] = path
  if (key === undefined || typeof json !== 'object' || json === null) return change(json) ?? null
  const inner = (json as { readonly [key: string]: Json })[key]!
  const next = rest.length === 0 ? change(inner) : changedAt(inner, rest, change)
  if (Array.isArray(json))
    return json.flatMap((value, at) => (at !== key ? [value] : next === undefined ? [] : [next]))
  const { [key]: _, ...others } = json as { readonly [key: string]: Json }
  return next === undefined ? others : { ...json, [key]: next }
}

/** Gives another value; undefined: the field is left out. */
function otherThan(value: Json, random: Random): Json | undefined {
  if (random.chance(0.08)) return undefined
  if (random.chance(0.04)) return random.pick([null, true, -1, 'text', '0x', [], {}] as const)
  if (typeof value === 'number')
    return random.pick([value + 1, Math.max(0, value - 1), 0, 1, value + 7, 2 ** 40])
  if (Array.isArray(value)) return otherList(value, random)
  if (typeof value !== 'string' || value.length < 3) return '0x1'
  const digits = [...value]
  const at = random.between(2, digits.length - 1)
  if (random.chance(0.1)) return value.slice(0, at)
  if (random.chance(0.2)) return `0x${'0'.repeat(value.length - 2)}`
  digits[at] = (Number.parseInt(digits[at]!, 16) ^ random.between(1, 15)).toString(16)
  return digits.join('')
}

function otherList(list: readonly Json[], random: Random): Json {
  if (list.length === 0) return ['0x02']
  const at = random.below(list.length)
  const kind = random.below(3)
  if (kind === 0) return list.filter((_, other) => other !== at)
  if (kind === 1) return [...list, list[at]!]
  return list.toReversed()
}

/**
 * A text as the pieces that it is made of, so that it can be grown, shrunk and spliced, and printed in a line although it is 2 MB long.
 */
export type Rope =
  | string
  | readonly Rope[]
  | { readonly of: Rope; readonly times: number }
  /** The number of the repetition that it stands in, in hex, padded to so many digits. */
  | { readonly digits: number }
  /** Hex of an RLP list, or of an RLP string, of what is inside. */
  | { readonly list: Rope }
  | { readonly item: Rope }

/** Nothing longer is written: the body limit is 2 MB. */
export const MAX_CHARACTERS = 2_300_000

/** The text, cut where it gets too long. */
export function textOf(rope: Rope, at = 0): string {
  if (typeof rope === 'string') return rope
  if (Array.isArray(rope)) return (rope as readonly Rope[]).map((one) => textOf(one, at)).join('')
  if ('digits' in rope) return at.toString(16).padStart(rope.digits, '0').slice(-rope.digits)
  if ('list' in rope) return prefixed(textOf(rope.list, at), 0xc0)
  if ('item' in rope) return prefixed(textOf(rope.item, at), 0x80)
  const { of, times } = rope as { readonly of: Rope; readonly times: number }
  if (!hasDigits(of)) {
    const one = textOf(of, at)
    return one.repeat(Math.min(times, Math.ceil(MAX_CHARACTERS / Math.max(1, one.length))))
  }
  const texts: string[] = []
  let length = 0
  // What is empty has no length to be cut by.
  const most = Math.min(times, MAX_CHARACTERS)
  for (let index = 0; index < most && length < MAX_CHARACTERS; index++) {
    const text = textOf(of, index)
    texts.push(text)
    length += text.length
  }
  return texts.join('')
}

/** Characters, without making them; RLP's prefixes are taken for four. */
export function lengthOf(rope: Rope): number {
  if (typeof rope === 'string') return rope.length
  if (!Array.isArray(rope) && 'digits' in rope) return rope.digits
  const length = partsOf(rope).reduce((sum: number, part) => sum + lengthOf(part), 0)
  if (Array.isArray(rope)) return length
  if ('of' in rope) return length * rope.times
  return length + 4
}

function hasDigits(rope: Rope): boolean {
  if (typeof rope === 'string') return false
  if (Array.isArray(rope)) return rope.some(hasDigits)
  return 'digits' in rope || partsOf(rope).some(hasDigits)
}

/** RLP's prefix before hex. */
function prefixed(hex: string, base: number): string {
  const bytes = Math.floor(hex.length / 2)
  if (bytes < 56) return (base + bytes).toString(16).padStart(2, '0') + hex
  const length = bytes.toString(16)
  const even = length.length % 2 === 0 ? length : `0${length}`
  return (base + 55 + even.length / 2).toString(16) + even + hex
}

/** What a rope is directly made of. */
export function partsOf(rope: Rope): readonly Rope[] {
  if (typeof rope === 'string' || 'digits' in rope) return []
  if (Array.isArray(rope)) return rope
  if ('list' in rope) return [rope.list]
  if ('item' in rope) return [rope.item]
  return [(rope as { readonly of: Rope }).of]
}

/** The same rope over other parts. */
export function withParts(rope: Rope, parts: readonly Rope[]): Rope {
  if (typeof rope === 'string' || 'digits' in rope) return rope
  if (Array.isArray(rope)) return parts
  if ('list' in rope) return { list: parts[0]! }
  if ('item' in rope) return { item: parts[0]! }
  return { of: parts[0]!, times: (rope as { readonly times: number }).times }
}

export function countNodes(rope: Rope): number {
  return partsOf(rope).reduce((sum: number, part) => sum + countNodes(part), 1)
}

/** Every node, each with its way from the root. */
export function nodesOf(
  rope: Rope,
  path: readonly number[] = [],
): { rope: Rope; path: readonly number[] }[] {
  return [
    { rope, path },
    ...partsOf(rope).flatMap((part, index) => nodesOf(part, [...path, index])),
  ]
}

/** The rope with the node at the end of the way replaced. */
export function replaceAt(rope: Rope, path: readonly number[], replacement: Rope): Rope {
  const [first, ...rest] = path
  if (first === undefined) return replacement
  return withParts(
    rope,
    partsOf(rope).map((part, index) =>
      index === first ? replaceAt(part, rest, replacement) : part,
    ),
  )
}

/** In one line: what is repeated, and how often. */
export function describeRope(rope: Rope): string {
  if (typeof rope === 'string') {
    const shown = rope.length > 60 ? `${rope.slice(0, 40)}…(${rope.length})` : rope
    return JSON.stringify(shown).slice(1, -1).replaceAll('\\"', '"')
  }
  if (Array.isArray(rope)) return rope.map(describeRope).join('')
  if ('digits' in rope) return `‹n${rope.digits}›`
  if ('list' in rope) return `rlp[${describeRope(rope.list)}]`
  if ('item' in rope) return `rlp(${describeRope(rope.item)})`
  const { of, times } = rope as { readonly of: Rope; readonly times: number }
  return times === 1 ? describeRope(of) : `⟨${describeRope(of)}⟩×${times}`
}

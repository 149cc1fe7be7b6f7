/**
 * A text is stored as the pieces that it is made of. It can be grown, shrunk and spliced, and
 * printed in a line although it is 2 MB long.
 */
export type Rope =
  | string
  | readonly Rope[]
  | { readonly of: Rope; readonly times: number }
  /** The number of the enclosing repetition in hex, padded to this many digits. */
  | { readonly digits: number }
  /** The hex of an RLP list, or of an RLP string, around the content. */
  | { readonly list: Rope }
  | { readonly item: Rope }

/** No text is longer, because the body limit is 2 MB. */
export const MAX_CHARACTERS = 2_300_000

/** Makes the text, cut at the maximum length. */
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
  // An empty part has no length that could end the loop.
  const max = Math.min(times, MAX_CHARACTERS)
  for (let index = 0; index < max && length < MAX_CHARACTERS; index++) {
    const text = textOf(of, index)
    texts.push(text)
    length += text.length
  }
  return texts.join('')
}

/** Counts the characters without making the text; an RLP prefix counts as four. */
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

/** Adds the RLP prefix to hex. */
function prefixed(hex: string, base: number): string {
  const bytes = Math.floor(hex.length / 2)
  if (bytes < 56) return (base + bytes).toString(16).padStart(2, '0') + hex
  const length = bytes.toString(16)
  const even = length.length % 2 === 0 ? length : `0${length}`
  return (base + 55 + even.length / 2).toString(16) + even + hex
}

/** Lists the direct parts of a rope. */
export function partsOf(rope: Rope): readonly Rope[] {
  if (typeof rope === 'string' || 'digits' in rope) return []
  if (Array.isArray(rope)) return rope
  if ('list' in rope) return [rope.list]
  if ('item' in rope) return [rope.item]
  return [(rope as { readonly of: Rope }).of]
}

/** Makes the same kind of rope with other parts. */
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

/** Lists all nodes with their paths from the root. */
export function nodesOf(
  rope: Rope,
  path: readonly number[] = [],
): { rope: Rope; path: readonly number[] }[] {
  return [
    { rope, path },
    ...partsOf(rope).flatMap((part, index) => nodesOf(part, [...path, index])),
  ]
}

/** Replaces the node at the end of the path. */
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

/** Describes a rope in one line: the repeated pieces, and how often they repeat. */
export function describeRope(rope: Rope): string {
  if (typeof rope === 'string') {
    const excerpt = rope.length > 60 ? `${rope.slice(0, 40)}…(${rope.length})` : rope
    return JSON.stringify(excerpt).slice(1, -1).replaceAll('\\"', '"')
  }
  if (Array.isArray(rope)) return rope.map(describeRope).join('')
  if ('digits' in rope) return `‹n${rope.digits}›`
  if ('list' in rope) return `rlp[${describeRope(rope.list)}]`
  if ('item' in rope) return `rlp(${describeRope(rope.item)})`
  const { of, times } = rope as { readonly of: Rope; readonly times: number }
  return times === 1 ? describeRope(of) : `⟨${describeRope(of)}⟩×${times}`
}

/** Places in the flashblocks, as answers name them. */

export type Place = { readonly number: number; readonly index: number; readonly payloadId: string }
/** undefined: of a block that came without flashblocks. */
export function parsePlace(text: string): Place | undefined {
  const [, number, index, payloadId] = /^(\d+):(\d+):(0x[0-9a-f]{16})$/.exec(text) ?? []
  return payloadId === undefined
    ? undefined
    : { number: Number(number), index: Number(index), payloadId }
}

export const textOf = ({ number, index, payloadId }: Place): string =>
  `${number}:${index}:${payloadId}`

/** Below zero: `one` is the older one. */
export const compare = (one: Place, other: Place): number =>
  one.number - other.number || one.index - other.index

/** A FlashblockId as responses name it. */

export type FlashblockId = {
  readonly number: number
  readonly index: number
  readonly payloadId: string
}
/** Parses a FlashblockId; undefined: the block came without flashblocks. */
export function parseFlashblockId(text: string): FlashblockId | undefined {
  const [, number, index, payloadId] = /^(\d+):(\d+):(0x[0-9a-f]{16})$/.exec(text) ?? []
  return payloadId === undefined
    ? undefined
    : { number: Number(number), index: Number(index), payloadId }
}

export const textOf = ({ number, index, payloadId }: FlashblockId): string =>
  `${number}:${index}:${payloadId}`

/** Compares two FlashblockIds; below zero: `one` is older. */
export const compare = (one: FlashblockId, other: FlashblockId): number =>
  one.number - other.number || one.index - other.index

/** Text form of a FlashblockId, as in `X-Flashblock`, and the minimum flashblock of a request. */
import type { FlashblockId } from '../../engine/chain/types.ts'
import { invalidParams } from '../core/errors.ts'

/** The payload is optional. It is empty in the header when unknown. */
const FORM = /^(\d{1,19}):(\d{1,9})(?::(0x[0-9a-fA-F]{16})?)?$/

/** Decodes a FlashblockId; undefined when the text is not valid. */
export function decodeFlashblockIdText(wire: unknown): FlashblockId | undefined {
  const found = typeof wire === 'string' ? FORM.exec(wire) : null
  if (found === null) return undefined
  const [, number, index, payloadId] = found
  return {
    number: BigInt(number!),
    index: Number(index),
    ...(payloadId === undefined ? {} : { payloadId: payloadId.toLowerCase() }),
  }
}

/**
 * Decodes `X-Min-Flashblock`, or the member `minFlashblock` of a request.
 * @param wire text as it was sent
 * @throws {RpcError}
 */
export function decodeMinFlashblock(wire: unknown, name: string): FlashblockId {
  const flashblockId = decodeFlashblockIdText(wire)
  if (flashblockId !== undefined) return flashblockId
  throw invalidParams(
    `${name}: expected number:index or number:index:payload, such as 16:3 or 16:3:0x0123456789abcdef`,
  )
}

/** The place of a flashblock as text, as `X-Flashblock` of an answer has it; and the least one that a request asks for. */
import type { FlashblockPlace } from '../../engine/chain/types.ts'
import { invalidParams } from '../seam/errors.ts'

/** The payload may be left out, and is empty in the header where it is not known. */
const FORM = /^(\d{1,19}):(\d{1,9})(?::(0x[0-9a-fA-F]{16})?)?$/

/** undefined: it is none. */
export function decodePlaceText(wire: unknown): FlashblockPlace | undefined {
  const found = typeof wire === 'string' ? FORM.exec(wire) : null
  if (found === null) return undefined
  const [, number, index, payloadId] = found
  return {
    number: BigInt(number!),
    index: Number(index),
    ...(payloadId === undefined ? {} : { payloadId: payloadId.toLowerCase() }),
  }
}

/** Of `X-Min-Flashblock`, and of the member `minFlashblock` of a request. @param wire text as it was sent. @throws {RpcError} */
export function decodeMinFlashblock(wire: unknown, name: string): FlashblockPlace {
  const place = decodePlaceText(wire)
  if (place !== undefined) return place
  throw invalidParams(
    `${name}: expected number:index or number:index:payload, such as 16:3 or 16:3:0x0123456789abcdef`,
  )
}

/** The same as enriched-text.ts for who applies it without showing it: receipts and changes as bytes, which nobody has to parse. */

import type { Bytes } from '../../engine/primitives/bytes.ts'
import { decodeHeader } from '../../engine/primitives/header-codec.ts'
import { decodeStoredReceipt } from '../../engine/primitives/receipt-codec.ts'
import { ZERO_32 } from '../../engine/primitives/words.ts'
import { packOutcomes } from '../../engine/sources/applying/outcomes.ts'
import { packMessage } from '../../engine/sources/applying/packed.ts'
import type { Changes } from '../../engine/sources/writer/changes.ts'
import { hashOfBefore } from '../../engine/state/before.ts'
import type { AccountChange } from '../../engine/state/diff.ts'
import { decodeDiff, encodeDiff } from '../../engine/state/diff-codec.ts'
import { hexText } from '../json/codecs.ts'
import { aboutText, messageText, type ShownFlashblock, type Stamp } from './enriched-text.ts'

export function changesPacked(changes: Changes, stamp: Stamp): Bytes {
  const pieces: Bytes[] = []
  const text = messageText(changes, stamp, (told) => flashblockText(told, pieces))
  return packMessage(text, pieces)
}

function flashblockText(told: ShownFlashblock, pieces: Bytes[]): string {
  const piece = (at: number): Bytes =>
    told.bytes.subarray(at === 0 ? 0 : told.ends[at - 1]!, told.ends[at]!)
  const diff = decodeDiff(piece(2))
  const places = Array.from({ length: told.transactions }, (_, at) => 3 + 4 * at)
  const outcomes = packOutcomes(
    places.map((at) => {
      const receipt = decodeStoredReceipt(piece(at + 3))
      return { ...receipt, isSuccess: receipt.status === 1, depositNonce: receipt.depositNonce }
    }),
  )
  const changes = encodeDiff(diff.map(withoutBefore))
  pieces.push(...places.map((at) => piece(at + 2)), ...places.map((at) => piece(at + 1)))
  pieces.push(outcomes, changes)
  const { final } = told
  const header = decodeHeader(final?.header ?? piece(0))
  return (
    `{${aboutText(told)},"header":{"parentHash":${hexText(header.parentHash)},"hash":${hexText(final?.hash ?? piece(1))}},` +
    `"before":${hexText(hashOfBefore(diff))},"transactions":${told.transactions},` +
    `"outcomes":${outcomes.length},"changes":${changes.length}}`
  )
}

/** Whoever applies it has them. */
const withoutBefore = (change: AccountChange): AccountChange => ({
  ...change,
  before: undefined,
  slots: change.slots.map((slot) => ({ ...slot, before: ZERO_32 })),
})

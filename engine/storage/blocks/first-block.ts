/** The block that a database begins with: durable, folded, safe and finalized. Its state is the caller's to write. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { encodeHeader, hashHeader } from '../../primitives/header-codec.ts'
import { concatBytes } from '../../primitives/words.ts'
import { encodeList } from '../database/lists.ts'
import { META } from '../database/meta.ts'
import type { WriteBatch } from '../database/types.ts'
import { encodeBody, encodeHead, encodeNumber } from './block-codec.ts'

/** @param isEmpty it is known to have no transactions (those that are not known are not said to be none) @returns its hash */
export function putFirstBlock(
  batch: WriteBatch,
  header: Header,
  { isEmpty }: { readonly isEmpty: boolean },
): Bytes {
  const hash = hashHeader(header)
  const number = Number(header.number)
  batch.put('headers', hash, encodeHeader(header))
  if (isEmpty) {
    batch.put('bodies', hash, encodeBody([]))
    batch.put('receipts', hash, encodeList([]))
  }
  batch.put('numbers', encodeNumber(number), hash)
  const head = encodeHead({ number, hash })
  batch.put('meta', META.durableHead, head)
  batch.put('meta', META.foldHead, head)
  batch.put('meta', META.oldest, encodeNumber(number))
  batch.put('meta', META.marks, concatBytes(encodeNumber(number), encodeNumber(number)))
  return hash
}

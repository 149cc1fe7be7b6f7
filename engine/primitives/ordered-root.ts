/** Root of the trie index → item, as headers have it for transactions and receipts. */
import type { Bytes } from './bytes.ts'
import { encodeRlp, rlpUint } from './rlp.ts'
import { trieRoot } from './trie-root.ts'

/** 32 bytes. `items`: encoded transactions or receipts (EIP-2718) in the order of the block. */
export function orderedRoot(items: readonly Bytes[]): Bytes {
  return trieRoot(items.map((value, index) => ({ key: encodeRlp(rlpUint(index)), value })))
}

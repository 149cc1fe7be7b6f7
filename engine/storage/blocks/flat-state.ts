/** The state at the fold head, read by the only one who moves it: no view, no history, no other thread. */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { Presence, StateReader } from '../../state/reader.ts'
import { bytesOf, wordsOf } from '../../state/words.ts'
import type { StoreReader } from '../types.ts'
import { slotKey } from './block-codec.ts'

export function flatState(store: StoreReader): StateReader {
  const put = (value: Bytes | undefined | 'missing', out: Uint32Array, at: number): Presence => {
    if (value === 'missing') return 'missing'
    if (value === undefined) return 'absent'
    out.set(wordsOf(value), at)
    return 'present'
  }
  return {
    account: (address, out, at) => put(store.flatAccount(bytesOf(address)), out, at),
    slot: (address, key, out, at) =>
      put(store.flatSlot(slotKey(bytesOf(address), bytesOf(key))), out, at),
    code: (hash) => (equalBytes(hash, EMPTY_HASH) ? NO_BYTES : (store.code(hash) ?? 'missing')),
    blockHash: (number) => (number < 0n ? undefined : store.hashOfNumber(Number(number))),
    hasSlots(address) {
      for (const _ of store.flatSlots(bytesOf(address))) return true
      return false
    },
    slots: (address) => store.flatSlots(bytesOf(address)),
  }
}

/** A state whose reads are noted, by the hashes under which tables have the keys. */

import type { StateReader } from '../state/reader.ts'
import type { ReadSet } from '../state/reads.ts'
import { hashKey } from './arena.ts'
import { ACCOUNT, SLOT } from './table.ts'

/**
 * Code and block hashes need no key: the one is named by its account, and a chain that has only grown has no others. A look at all of an
 * account's storage has none, and loses the set.
 */
export function notedReader(seed: number, reader: StateReader, reads: ReadSet): StateReader {
  const key = new Int32Array(SLOT >> 8)
  return {
    account(address, out, at) {
      key.set(address)
      reads.key(hashKey(seed, key, ACCOUNT >> 8))
      return reader.account(address, out, at)
    },
    slot(address, slot, out, at) {
      key.set(address)
      key.set(slot, ACCOUNT >> 8)
      reads.key(hashKey(seed, key, SLOT >> 8))
      return reader.slot(address, slot, out, at)
    },
    code: (hash) => reader.code(hash),
    blockHash: (number) => reader.blockHash(number),
    hasSlots(address) {
      reads.lose()
      return reader.hasSlots(address)
    },
    slots(address) {
      reads.lose()
      return reader.slots(address)
    },
  }
}

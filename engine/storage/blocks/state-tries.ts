/**
 * Builds the tries of a full state. Each account's storage trie is built when the account is added.
 * The account trie follows at the end, in the order of the hashes.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../../primitives/rlp.ts'
import { bytesToBigint, compareBytes } from '../../primitives/words.ts'
import type { AccountState } from '../../state/diff.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { buildTrie } from '../trie/build.ts'

export type StateTries = {
  /** @param slots none of them zero; all are in memory */
  add(address: Bytes, account: AccountState, slots: readonly Slot[]): void
  /** Writes the account trie; `commit` is called after every few thousand rows, and at the end. */
  finish(commit: () => void): Generator<{ readonly accounts: number }, StateRoot>
}
type StateRoot = { readonly root: Bytes; readonly accounts: number }
type Slot = { readonly key: Bytes; readonly value: Bytes }

export const ROWS_IN_BATCH = 4_096

/**
 * Opens the builder.
 * @param batch receives the rows; the caller commits it regularly
 * @param sorter an empty database that sorts the accounts by hash
 */
export function openStateTries(batch: WriteBatch, sorter: Database): StateTries {
  const sorting = sorter.batch()
  return {
    add(address, { nonce, balance, codeHash }, slots) {
      const hash = keccak256(address)
      const root = storageTrie(batch, slots, hash)
      const leaf = encodeRlp([rlpUint(nonce), rlpUint(balance), root, codeHash])
      sorting.put('accountTrie', hash, leaf)
      if (sorting.length >= ROWS_IN_BATCH) sorting.commit()
    },

    *finish(commit) {
      sorting.commit()
      const trie = buildTrie({ column: 'accountTrie', prefix: NO_BYTES }, batch)
      let count = 0
      for (const { key, value } of sorter.scan('accountTrie', ALL_HASHES)) {
        trie.add(key, value)
        count++
        if (batch.length < ROWS_IN_BATCH) continue
        commit()
        yield { accounts: count }
      }
      const root = trie.finish()
      commit()
      return { root, accounts: count }
    },
  }
}

/**
 * Writes the trie of an account's slots into the batch.
 * @param prefix hash of its address
 * @returns its root
 */
function storageTrie(batch: WriteBatch, slots: readonly Slot[], prefix: Bytes): Bytes {
  const trie = buildTrie({ column: 'storageTrie', prefix }, batch)
  const hashed = slots.map(({ key, value }) => ({ key: keccak256(key), value }))
  hashed.sort((a, b) => compareBytes(a.key, b.key))
  for (const { key, value } of hashed) trie.add(key, encodeRlp(rlpUint(bytesToBigint(value))))
  return trie.finish()
}

/** Keys have 32 bytes. */
const ALL_HASHES = { gte: NO_BYTES, lt: new Uint8Array(33).fill(0xff) }

/** Turns a diff into changes of tries: their keys, their groups, and the values of their leaves. */
import { type Bytes, type Slab, take } from '../../primitives/bytes.ts'
import { EMPTY_HASH, EMPTY_ROOT, keccak256 } from '../../primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../../primitives/rlp.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { AccountState, SlotChange, StateDiff } from '../../state/diff.ts'
import { leafValue, rootHash } from './codec.ts'
import { type Leaf, storageRootOf, type TrieNode } from './node.ts'
import type { Route } from './prefetch.ts'
import type { TrieSpace } from './rows.ts'
import type { Change } from './update.ts'

/**
 * An account of a diff while it is applied: its former leaf, and the sorted changes of its slots.
 */
export type OpenAccount = {
  readonly leaf: Leaf | undefined
  readonly space: TrieSpace
  readonly changes: readonly Change[]
  /** Storage trie with the changes applied so far. The root is only read if there are changes. */
  storage: TrieNode | undefined
}
/** Some of the changes of an account's slots. */
export type OpenPart = { readonly account: OpenAccount; readonly from: number; readonly to: number }

/**
 * 64 random slots of a large trie touch some hundred kilobytes, which stay in the processor's
 * nearer caches. Groups of 512 took a quarter longer (2026-11).
 */
const CHANGES_IN_GROUP = 64

/** Splits the changes of all accounts into groups. */
export function* groupsOf(accounts: readonly OpenAccount[]): Generator<readonly OpenPart[], void> {
  let group: OpenPart[] = []
  let capacity = CHANGES_IN_GROUP
  for (const account of accounts)
    for (let from = 0; from < account.changes.length; ) {
      const to = Math.min(account.changes.length, from + capacity)
      group.push({ account, from, to })
      capacity -= to - from
      from = to
      if (capacity > 0) continue
      yield group
      group = []
      capacity = CHANGES_IN_GROUP
    }
  if (group.length > 0) yield group
}

export const routeOf = ({ account, from, to }: OpenPart, slab: Slab): Route => {
  const { space, storage, changes } = account
  const part = changes.slice(from, to)
  return {
    space,
    root: storage,
    keys: part.map(({ key }) => key),
    valueBefore: (at) => part[at]!.before && encodeWord(part[at]!.before, slab),
  }
}

/** Storage root of an account; EMPTY_ROOT if it is absent or has no storage. */
export const storageRootAt = ({ leaf, changes, storage }: OpenAccount): Bytes => {
  if (changes.length > 0) return rootHash(storage)
  return leaf === undefined ? EMPTY_ROOT : storageRootOf(leafValue(leaf))
}

/**
 * Route to the accounts of a diff. The former leaf is only known for an account without code,
 * because a diff does not have storage roots.
 */
export function accountRoute(
  space: TrieSpace,
  root: TrieNode | undefined,
  { diff, keys }: { readonly diff: StateDiff; readonly keys: readonly Bytes[] },
): Route {
  const order = keys.map((_, at) => at)
  order.sort((a, b) => Buffer.compare(keys[a]!, keys[b]!))
  return {
    space,
    root,
    keys: order.map((at) => keys[at]!),
    valueBefore(at) {
      const { before } = diff[order[at]!]!
      if (before === undefined || !equalBytes(before.codeHash, EMPTY_HASH)) return undefined
      return encodeAccount(before, EMPTY_ROOT)
    },
  }
}

/** RLP of the leaf's value. */
export const encodeAccount = (
  { nonce, balance, codeHash }: AccountState,
  storageRoot: Bytes,
): Bytes => encodeRlp([rlpUint(nonce), rlpUint(balance), storageRoot, codeHash])

export const slotChange = ({ key, before, after }: SlotChange, slab: Slab): Change => ({
  key: keccak256(key),
  value: encodeWord(after, slab),
  storage: undefined,
  before,
})

/** RLP of a slot's value; undefined for zero, which has no leaf. */
function encodeWord(word: Bytes, slab: Slab): Bytes | undefined {
  let zeros = 0
  while (zeros < 32 && word[zeros] === 0) zeros++
  if (zeros === 32) return undefined
  if (zeros === 31 && word[31]! < 0x80) return word.slice(31)
  const rlp = take(slab, 33 - zeros)
  rlp[0] = 0x80 + 32 - zeros
  for (let at = zeros; at < 32; at++) rlp[1 + at - zeros] = word[at]!
  return rlp
}

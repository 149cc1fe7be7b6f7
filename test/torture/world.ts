/**
 * The state that the writer carries from block to block. The writer submits its changes as diffs,
 * and the persistence thread checks its root.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../../engine/primitives/rlp.ts'
import { trieRoot } from '../../engine/primitives/trie-root.ts'
import { ZERO_32 } from '../../engine/primitives/words.ts'
import type { AccountChange, StateDiff } from '../../engine/state/diff.ts'
import {
  ACCOUNTS,
  ADDRESSES,
  accountOf,
  codeOf,
  SLOT_KEYS,
  SLOTS,
  slotBytes,
  type Write,
} from './truth.ts'

type Account = {
  readonly write: Write | undefined
  readonly slots: readonly (Bytes | undefined)[]
}
export type World = readonly Account[]

const ABSENT: Account = { write: undefined, slots: Array.from({ length: SLOTS }, () => undefined) }
export const EMPTY_WORLD: World = Array.from({ length: ACCOUNTS }, () => ABSENT)

/** Returns the world after one more flashblock. */
export function applyWrites(world: World, writes: ReadonlyMap<number, Write>): World {
  const next = [...world]
  for (const [at, write] of writes) next[at] = written(world[at]!, write, at)
  return next
}

function written(account: Account, write: Write, at: number): Account {
  if (write.kind === 'remove') return ABSENT
  if (write.kind === 'slots' && account.write === undefined) return account
  const slots = account.slots.map((old, slot) => {
    const bit = 1 << slot
    if ((write.slots & bit) === 0) return old
    return (write.zeros & bit) === 0 ? slotBytes(write, at, slot) : undefined
  })
  return { write: write.kind === 'set' ? write : account.write, slots }
}

/** Returns the changes from `from` to `to`. Their previous values are those of `parent`. */
export function diffOf(from: World, to: World, parent: World): StateDiff {
  return ADDRESSES.flatMap((address, at): AccountChange[] => {
    const [was, is, before] = [from[at]!, to[at]!, parent[at]!]
    if (was === is) return []
    const slots = SLOT_KEYS.flatMap((key, slot) => {
      if (was.slots[slot] === is.slots[slot]) return []
      return [{ key, before: before.slots[slot] ?? ZERO_32, after: is.slots[slot] ?? ZERO_32 }]
    })
    const { write } = is
    const hasCode = write !== undefined && write !== was.write && write.code !== 0
    return [
      {
        address,
        before: before.write && accountOf(before.write, at),
        after: write && accountOf(write, at),
        slots,
        code: hasCode ? codeOf(write, at) : undefined,
      },
    ]
  })
}

/** Cached trie leaf of each account. */
const leaves = new WeakMap<Account, { readonly key: Bytes; readonly value: Bytes }>()
const NAMES = ADDRESSES.map((address) => keccak256(address))
const SLOT_NAMES = SLOT_KEYS.map((key) => keccak256(key))

/** Computes the root without the code of the persistence thread. */
export function stateRootOf(world: World): Bytes {
  const all = world.flatMap((account, at) => {
    if (account.write === undefined) return []
    let leaf = leaves.get(account)
    if (leaf === undefined) {
      leaf = leafOf(account, at)
      leaves.set(account, leaf)
    }
    return [leaf]
  })
  return trieRoot(all)
}

function leafOf({ write, slots }: Account, at: number) {
  const { nonce, balance, codeHash } = accountOf(write!, at)
  const storage = slots.flatMap((value, slot) =>
    value === undefined ? [] : [{ key: SLOT_NAMES[slot]!, value: encodeRlp(trimmed(value)) }],
  )
  const fields = [rlpUint(nonce), rlpUint(balance), trieRoot(storage), codeHash]
  return { key: NAMES[at]!, value: encodeRlp(fields) }
}

const trimmed = (value: Bytes): Bytes => value.subarray(value.findIndex((byte) => byte !== 0))

/** The state of a whole directory: both tries against the root of the folded block, flat state against the tries. */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { decodeHeader } from '../primitives/header-codec.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { EMPTY_HASH, EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { decodeRlp, readBytes, readFixed, readList, readUint } from '../primitives/rlp.ts'
import { bigintToBytes, bytesToBigint, equalBytes } from '../primitives/words.ts'
import { encodeAccount } from '../state/account-codec.ts'
import { latin1 } from '../state/words.ts'
import type { TrieColumn } from '../storage/trie/rows.ts'
import { leafAt, type TrieWalk, walkLeaves } from '../storage/trie/walk.ts'
import { addTo, type Digest, newDigest } from './digest.ts'
import { ALL, faultOf, type Verifying } from './verifying.ts'

/** Hashes of keys that are held to name what flat state lacks. */
const MOST_NAMED = 2_000_000
const ADDRESS_BYTES = 20

/** As the trie has it. `row`: as flat state should have it. */
type Account = { readonly row: Bytes; readonly codeHash: Bytes; readonly storageRoot: Bytes }

type Sums = { readonly accounts: Digest; readonly slots: Digest }
const newSums = (): Sums => ({ accounts: newDigest(), slots: newDigest() })

/** Each `next` has looked at one account more. */
export function* checkState(verifying: Verifying): Generator<undefined, void> {
  const { findings, counts } = verifying
  const root = rootOf(verifying)
  if (root === undefined) return
  const before = findings.count
  const inTries = newSums()
  const rows = { accountTrie: 0, storageTrie: 0 }
  for (const leaf of counted(walkLeaves(accountTrie(verifying, root)), rows, 'accountTrie')) {
    const account = accountOf(verifying, leaf)
    if (account === undefined) continue
    addTo(inTries.accounts, leaf.key, account.row)
    checkCodeOf(verifying, leaf.key, account)
    const walk = storageTrie(verifying, leaf.key, account.storageRoot)
    for (const slot of counted(walkLeaves(walk), rows, 'storageTrie'))
      addTo(inTries.slots, leaf.key, slot.key, wordOf(slot.value))
    yield
  }
  counts.nodes += rows.accountTrie + rows.storageTrie
  const isWhole = findings.count === before
  if (isWhole) checkRowCounts(verifying, rows)
  const flat = newSums()
  yield* addFlat(verifying, flat)
  if (isWhole && isSame(inTries, flat)) return
  yield* nameFlat(verifying, root)
  if (isWhole && isMore(inTries, flat)) yield* nameMissing(verifying, root)
}

/** Of some accounts, chosen by chance: each with its first slots. */
export function checkSomeState(
  verifying: Verifying,
  { sample, random }: { readonly sample: number; readonly random: () => number },
): void {
  const { database, counts } = verifying
  const root = rootOf(verifying)
  if (root === undefined) return
  for (let at = 0; at < sample; at++) {
    const from = Uint8Array.from({ length: ADDRESS_BYTES }, () => Math.floor(random() * 256))
    const [found] = database.range('accounts', { gte: from, lt: ALL.lt, limit: 1 })
    if (found === undefined) continue
    const { key } = found
    const range = { gte: key, lt: successor(key), limit: SLOTS_OF_ONE }
    const account = checkFlatAccount(verifying, root, found)
    const hashed = keccak256(key)
    counts.accounts++
    for (const slot of database.range('slots', range)) {
      counts.slots++
      checkFlatSlot(verifying, { ...slot, hashed, root: account?.storageRoot ?? EMPTY_ROOT })
    }
  }
}
const SLOTS_OF_ONE = 16

/** Of the folded block; undefined: its header is damaged, which was told. */
function rootOf({ store }: Verifying): Bytes | undefined {
  const { hash } = store.foldHead()
  const row = store.header(hash)
  return row !== undefined && equalBytes(keccak256(row), hash)
    ? decodeHeader(row).stateRoot
    : undefined
}

function accountTrie(verifying: Verifying, root: Bytes): TrieWalk {
  return walkOf(verifying, 'accountTrie', { prefix: NO_BYTES, root })
}
function storageTrie(verifying: Verifying, prefix: Bytes, root: Bytes): TrieWalk {
  return walkOf(verifying, 'storageTrie', { prefix, root })
}
function walkOf(
  { database, findings }: Verifying,
  column: TrieColumn,
  { prefix, root }: { readonly prefix: Bytes; readonly root: Bytes },
): TrieWalk {
  return {
    rows: database,
    space: { column, prefix },
    root,
    onDamage: ({ key, message }) => findings.add({ where: column, key }, message),
  }
}

function* counted<T>(
  walk: Generator<T, number>,
  rows: Record<TrieColumn, number>,
  column: TrieColumn,
): Generator<T, void> {
  rows[column] += yield* walk
}

function accountOf(
  { findings }: Verifying,
  leaf: { readonly key: Bytes; readonly value: Bytes },
): Account | undefined {
  let account: Account | undefined
  const fault = faultOf(() => {
    account = decodeLeaf(leaf.value)
  })
  if (fault !== undefined)
    findings.add({ where: 'accountTrie' }, `the leaf of ${bytesToHex(leaf.key)}: ${fault}`)
  return account
}

/** @throws {RlpError} */
function decodeLeaf(value: Bytes): Account {
  const [nonce, balance, storageRoot, codeHash] = readList(decodeRlp(value))
  const code = readFixed(codeHash!, 32)
  return {
    row: encodeAccount({
      nonce: readUint(nonce!, 8),
      balance: readUint(balance!, 32),
      codeHash: code,
    }),
    codeHash: code,
    storageRoot: readFixed(storageRoot!, 32),
  }
}

const wordOf = (value: Bytes): Bytes =>
  bigintToBytes(bytesToBigint(readBytes(decodeRlp(value))), 32)

function checkCodeOf({ store, findings }: Verifying, hashed: Bytes, { codeHash }: Account): void {
  if (equalBytes(codeHash, EMPTY_HASH) || store.code(codeHash) !== undefined) return
  findings.add(
    { where: 'code', key: codeHash },
    `is missing: it is the code of the account with the hash ${bytesToHex(hashed)}`,
  )
}

/** No row is left over that nobody leads to. */
function checkRowCounts(
  { database, findings }: Verifying,
  walked: Readonly<Record<TrieColumn, number>>,
): void {
  for (const column of ['accountTrie', 'storageTrie'] as const) {
    let count = 0
    for (const _ of database.scan(column, ALL)) count++
    if (count !== walked[column])
      findings.add({ where: column }, `has ${count} rows, ${walked[column]} are part of the state`)
  }
}

function* addFlat({ database, counts }: Verifying, sums: Sums): Generator<undefined, void> {
  for (const { key, value } of database.scan('accounts', ALL)) {
    addTo(sums.accounts, keccak256(key), value)
    counts.accounts++
    yield
  }
  let owner: Bytes = NO_BYTES
  let hashed: Bytes = owner
  for (const { key, value } of database.scan('slots', ALL)) {
    const own = key.subarray(0, ADDRESS_BYTES)
    if (!equalBytes(own, owner)) {
      owner = own
      hashed = keccak256(own)
    }
    addTo(sums.slots, hashed, keccak256(key.subarray(ADDRESS_BYTES)), value)
    counts.slots++
    yield
  }
}

const isSame = (a: Sums, b: Sums): boolean =>
  a.accounts.sum === b.accounts.sum &&
  a.accounts.count === b.accounts.count &&
  a.slots.sum === b.slots.sum &&
  a.slots.count === b.slots.count

const isMore = (tries: Sums, flat: Sums): boolean =>
  tries.accounts.count > flat.accounts.count || tries.slots.count > flat.slots.count

/** Each row of flat state against its leaf: after the sums have said that one is wrong. */
function* nameFlat(verifying: Verifying, root: Bytes): Generator<undefined, void> {
  const { database } = verifying
  for (const row of database.scan('accounts', ALL)) {
    checkFlatAccount(verifying, root, row)
    yield
  }
  let owner: Bytes = NO_BYTES
  let of: { readonly hashed: Bytes; readonly root: Bytes } | undefined
  for (const row of database.scan('slots', ALL)) {
    const own = row.key.subarray(0, ADDRESS_BYTES)
    if (of === undefined || !equalBytes(own, owner)) {
      owner = own
      const hashed = keccak256(own)
      const leaf = leafAt(accountTrie(verifying, root), hashed)
      of = { hashed, root: leaf === undefined ? EMPTY_ROOT : decodeLeaf(leaf).storageRoot }
    }
    checkFlatSlot(verifying, { ...row, ...of })
    yield
  }
}

type Row = { readonly key: Bytes; readonly value: Bytes }

/** @returns what the trie says of it */
function checkFlatAccount(
  verifying: Verifying,
  root: Bytes,
  { key, value }: Row,
): Account | undefined {
  const { findings } = verifying
  const before = findings.count
  const leaf = leafAt(accountTrie(verifying, root), keccak256(key))
  const account = leaf && decodeLeaf(leaf)
  // What leads to it was damaged.
  if (findings.count > before) return undefined
  if (account === undefined || !equalBytes(account.row, value))
    findings.add(
      { where: 'accounts', key },
      `is ${bytesToHex(value)}, the trie says ${account === undefined ? 'that it is absent' : bytesToHex(account.row)}`,
    )
  return account
}

function checkFlatSlot(
  verifying: Verifying,
  { key, value, hashed, root }: Row & { readonly hashed: Bytes; readonly root: Bytes },
): void {
  const { findings } = verifying
  const before = findings.count
  const leaf = leafAt(storageTrie(verifying, hashed, root), keccak256(key.subarray(ADDRESS_BYTES)))
  if (findings.count > before) return
  const word = leaf && wordOf(leaf)
  if (word === undefined || !equalBytes(word, value))
    findings.add(
      { where: 'slots', key },
      `is ${bytesToHex(value)}, the trie says ${word === undefined ? 'that it is zero' : bytesToHex(word)}`,
    )
}

/** Leaves that no row of flat state stands for: by their hashes, the trie knows no others. */
function* nameMissing(verifying: Verifying, root: Bytes): Generator<undefined, void> {
  const { database, findings, counts } = verifying
  if (counts.accounts + counts.slots > MOST_NAMED) {
    findings.add({ where: 'accounts' }, 'rows are missing: too many are there to say which')
    return
  }
  const known = new Set<string>()
  for (const { key } of database.scan('accounts', ALL)) known.add(latin1(keccak256(key)))
  for (const { key } of database.scan('slots', ALL)) {
    const owner = keccak256(key.subarray(0, ADDRESS_BYTES))
    known.add(latin1(owner) + latin1(keccak256(key.subarray(ADDRESS_BYTES))))
  }
  for (const leaf of walkLeaves(accountTrie(verifying, root))) {
    const name = latin1(leaf.key)
    const hashed = bytesToHex(leaf.key)
    if (!known.has(name))
      findings.add({ where: 'accounts' }, `has no row for the address with the hash ${hashed}`)
    const walk = storageTrie(verifying, leaf.key, decodeLeaf(leaf.value).storageRoot)
    for (const slot of walkLeaves(walk))
      if (!known.has(name + latin1(slot.key)))
        findings.add(
          { where: 'slots' },
          `has no row for the slot with the hash ${bytesToHex(slot.key)} of the address with the hash ${hashed}`,
        )
    yield
  }
}

/** The first key above all slots of an account. */
function successor(address: Bytes): Bytes {
  const key = new Uint8Array(ADDRESS_BYTES + 33).fill(0xff)
  key.set(address)
  return key
}

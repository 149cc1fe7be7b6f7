/**
 * Checks the state of a whole directory: both tries against the root of the persisted block, flat
 * state against the tries. Sets of rows are compared without storing them, by the sum of a checksum
 * of each row in any order. A lazy directory has no root, so checksums verify its fetched values.
 */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { checksum } from '../primitives/checksum.ts'
import { decodeHeader } from '../primitives/header.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { EMPTY_HASH, EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { decodeRlp, readBytes, readFixed, readList, readUint } from '../primitives/rlp.ts'
import { bigintToBytes, bytesToBigint, concatBytes, equalBytes } from '../primitives/words.ts'
import { encodeAccount } from '../state/account-codec.ts'
import { latin1 } from '../state/words.ts'
import { checkChecksum } from '../storage/blocks/flat-state.ts'
import { hasHistory } from '../storage/persistence/fetched.ts'
import type { TrieColumn } from '../storage/trie/rows.ts'
import { leafAt, type TrieWalk, walkLeaves } from '../storage/trie/walk.ts'
import { ALL, faultOf, type Verifying } from './verifying.ts'

/** Maximum number of hashes in memory for naming the missing rows of flat state. */
const MAX_NAMED = 2_000_000
const ADDRESS_BYTES = 20

/** An account in the trie. `row`: its row in flat state. */
type Account = { readonly row: Bytes; readonly codeHash: Bytes; readonly storageRoot: Bytes }

type Sums = { readonly accounts: Digest; readonly slots: Digest }
const newSums = (): Sums => ({ accounts: newDigest(), slots: newDigest() })

/** Checks the complete state; yields after each account. */
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
  const isIntact = findings.count === before
  if (isIntact) checkRowCounts(verifying, rows)
  const flat = newSums()
  yield* addFlat(verifying, flat)
  if (isIntact && isSame(inTries, flat)) return
  yield* nameFlat(verifying, root)
  if (isIntact && isMore(inTries, flat)) yield* nameMissing(verifying, root)
}

/** Checks random accounts, each with its first slots. */
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

/**
 * Returns the state root of the persisted block; undefined: the damaged header was reported before.
 */
function rootOf({ store }: Verifying): Bytes | undefined {
  const { hash } = store.persistedHead()
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

/** @throws {RlpError} when the leaf is not an account */
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

/** Checks that no trie row is unreachable. */
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

/** Compares each row of flat state with its leaf, after the sums have differed. */
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

/** @returns the account in the trie */
function checkFlatAccount(
  verifying: Verifying,
  root: Bytes,
  { key, value }: Row,
): Account | undefined {
  const { findings } = verifying
  const before = findings.count
  const leaf = leafAt(accountTrie(verifying, root), keccak256(key))
  const account = leaf && decodeLeaf(leaf)
  // A damaged node on the path was reported.
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

/**
 * Reports leaves without a row in flat state. They are named by hash, because the trie has no other
 * keys.
 */
function* nameMissing(verifying: Verifying, root: Bytes): Generator<undefined, void> {
  const { database, findings, counts } = verifying
  if (counts.accounts + counts.slots > MAX_NAMED) {
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

function successor(address: Bytes): Bytes {
  const key = new Uint8Array(ADDRESS_BYTES + 33).fill(0xff)
  key.set(address)
  return key
}

/**
 * Checks fetched state by the checksums after its values, because a lazy directory has no root.
 * Yields before each row.
 */
export function* checkFetched({
  database,
  findings,
  counts,
}: Verifying): Generator<undefined, void> {
  for (const where of ['accounts', 'slots'] as const)
    for (const { key, value } of database.scan(where, ALL)) {
      yield
      const isMark = where === 'slots' && key.length === ADDRESS_BYTES
      // An absent value has no bytes and therefore no checksum.
      if (isMark || value.length === 0) continue
      const found = checkChecksum(key, value)
      if (found === 'wrong')
        findings.add(
          { where, key },
          `is not what its checksum says: ${bytesToHex(value)} was not what was fetched`,
        )
      else if (found === 'right') counts.fetched++
      // A value that a block has written is checked by its execution.
      else if (!hasHistory(database, key)) counts.unproven++
    }
}

/** Sum of a checksum of each row, in any order. */
type Digest = { sum: bigint; count: number }
const newDigest = (): Digest => ({ sum: 0n, count: 0 })

function addTo(digest: Digest, ...parts: readonly Bytes[]): void {
  digest.sum = BigInt.asUintN(64, digest.sum + checksum(concatBytes(...parts)))
  digest.count++
}

/** What blocks replaced in the tries: put back, newest first, each row is what the root of the block before says. */
import type { Bytes } from '../primitives/bytes.ts'
import { decodeHeader } from '../primitives/header-codec.ts'
import { EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { equalBytes } from '../primitives/words.ts'
import type { Database } from '../storage/database/types.ts'
import { storageRootOf } from '../storage/trie/node.ts'
import { plainRow } from '../storage/trie/patch.ts'
import { rowName, type TrieSpace } from '../storage/trie/rows.ts'
import { openTrie } from '../storage/trie/trie.ts'
import { type ReplacedNode, replacedNodes, rowBefore } from '../storage/trie/undo.ts'
import { leafAt, rowAt } from '../storage/trie/walk.ts'
import type { Verifying } from './verifying.ts'

/** Rows that are held in memory: a window of full blocks. What is older is not looked at then. */
const MOST_ROWS = 2_000_000

/** Each `next` has looked at one block more. @param most blocks below the folded one that are looked at */
export function* checkUndo(verifying: Verifying, most: number): Generator<undefined, void> {
  const { database, store, findings, counts } = verifying
  const rows = new Map<string, Bytes | undefined>()
  const before = layered(database, rows)
  let { number, hash } = store.foldHead()
  for (let blocks = 0; blocks < most && rows.size < MOST_ROWS; blocks++) {
    if (!store.isUnfoldable(number - 1)) return
    const header = store.header(hash)
    const parentHash = header && decodeHeader(header).parentHash.slice()
    const parent = parentHash && store.header(parentHash)
    // A damaged header was told.
    if (parentHash === undefined || parent === undefined) return
    if (!equalBytes(keccak256(parent), parentHash)) return
    const place = { where: 'undo', key: hash, block: number } as const
    try {
      const replaced = [...replacedNodes(database, hash)]
      for (const node of replaced) rows.set(rowName(node.column, node.key), previous(before, node))
      const root = decodeHeader(parent).stateRoot
      for (const node of replaced) checkRow(before, node, root)
      checkAll(verifying, { rows: before, hash, replaced })
      counts.undo++
    } catch (error) {
      findings.add(place, (error as Error).message)
      return
    }
    yield
    number--
    hash = parentHash
  }
}

type Rows = Pick<Database, 'get' | 'getMany'>

/** The stored rows with those put back that were replaced since. */
function layered(database: Rows, rows: ReadonlyMap<string, Bytes | undefined>): Rows {
  const get: Rows['get'] = (column, key) => {
    if (column !== 'accountTrie' && column !== 'storageTrie') return database.get(column, key)
    const name = rowName(column, key)
    return rows.has(name) ? rows.get(name) : database.get(column, key)
  }
  return { get, getMany: (column, keys) => keys.map((key) => get(column, key)) }
}

/** @throws {TrieError} where the row that is there now is not the one that the block wrote */
function previous(rows: Rows, node: ReplacedNode): Bytes | undefined {
  const now = rows.get(node.column, node.key)
  return rowBefore(node, now && plainRow(now, (length) => new Uint8Array(length)).row)?.slice()
}

/** @throws {Error} where the block, executed on the trie before it, writes a row that is not among those that are put back */
function checkAll(
  { store, findings }: Verifying,
  {
    rows,
    hash,
    replaced,
  }: { readonly rows: Rows; readonly hash: Bytes; readonly replaced: readonly ReplacedNode[] },
): void {
  // A damaged one was told.
  if (findings.isNamed({ where: 'diffs', key: hash })) return
  const diff = store.diff(hash)
  if (diff === undefined) return
  const trie = openTrie({ database: rows })
  const version = trie.fork(trie.base())
  trie.apply(version, diff)
  const names = new Set(replaced.map(({ column, key }) => rowName(column, key)))
  for (const steps = trie.writes(version); ; ) {
    const step = steps.next()
    if (step.done !== true) continue
    for (const { column, key } of step.value)
      if (!names.has(rowName(column, key)))
        throw new Error('a trie node that the block wrote is not among those that it puts back')
    return
  }
}

/** @throws {Error} where the trie of the block before has another row at its place */
function checkRow(rows: Rows, { column, key }: ReplacedNode, root: Bytes): void {
  const expected = rows.get(column, key)
  const onDamage = ({ message }: { readonly message: string }) => {
    throw new Error(`with it put back a trie node of the block before ${message}`)
  }
  const prefixLength = column === 'accountTrie' ? 0 : 32
  const prefix = key.subarray(0, prefixLength)
  const accounts: TrieSpace = { column: 'accountTrie', prefix: new Uint8Array(0) }
  const account =
    prefixLength === 0 ? undefined : leafAt({ rows, space: accounts, root, onDamage }, prefix)
  const top =
    prefixLength === 0 ? root : account === undefined ? EMPTY_ROOT : storageRootOf(account)
  const way = new Uint8Array(32)
  way.set(key.subarray(prefixLength + 1))
  const place = { key: way, depth: key[prefixLength]! }
  const found = rowAt({ rows, space: { column, prefix }, root: top, onDamage }, place)
  const isSame =
    found === undefined || expected === undefined
      ? found === expected
      : equalBytes(found, plainRow(expected, (length) => new Uint8Array(length)).row)
  if (!isSame) throw new Error('a trie node that it puts back is no part of the block before')
}

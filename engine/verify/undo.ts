/** What blocks replaced in the tries: put back, newest first, each row is what the root of the block before says. */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { decodeHeader } from '../primitives/header-codec.ts'
import { EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { equalBytes } from '../primitives/words.ts'
import type { Database } from '../storage/database/types.ts'
import { storageRootOf } from '../storage/trie/node.ts'
import { plainRow } from '../storage/trie/patch.ts'
import { rowName, type TrieSpace } from '../storage/trie/rows.ts'
import { openTrie } from '../storage/trie/trie.ts'
import { type ReplacedNode, rowBefore, UNDO_PART, undoRowsOf } from '../storage/trie/undo.ts'
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
    try {
      const replaced = replacedBy(database, hash)
      for (const node of replaced)
        rows.set(
          rowName(node.column, node.key),
          within(node.row, () => previous(before, node)),
        )
      const root = decodeHeader(parent).stateRoot
      // Whatever is wrong on the way to a node was found before.
      for (const node of replaced.toSorted((a, b) => depthOf(a) - depthOf(b)))
        within(node.row, () => checkRow(before, node, root))
      checkAll(verifying, { rows: before, hash, replaced })
      counts.undo++
    } catch (error) {
      const row = error instanceof RowError ? error.row : undefined
      findings.add({ where: 'undo', key: row, block: number }, (error as Error).message)
      return
    }
    yield
    number--
    hash = parentHash
  }
}

type Rows = Pick<Database, 'get' | 'getMany'>
/** `row`: key of the row of the column "undo" that it is in. */
type Replaced = ReplacedNode & { readonly row: Bytes }

/** A row of the column "undo" that is not as it was written. */
class RowError extends Error {
  override name = 'RowError'
  readonly row: Bytes

  constructor(row: Bytes, cause: Error) {
    super(cause.message, { cause })
    this.row = row
  }
}

/** @throws {RowError} for whatever `look` throws */
function within<T>(row: Bytes, look: () => T): T {
  try {
    return look()
  } catch (error) {
    throw new RowError(row, error as Error)
  }
}

/** @throws {RowError} */
const replacedBy = (database: Pick<Database, 'scan'>, hash: Bytes): readonly Replaced[] =>
  [...undoRowsOf(database, hash)].flatMap(({ key, nodes }) => {
    const row = key.slice()
    return within(row, () => [...nodes()].map((node) => ({ ...node, row })))
  })

const ACCOUNT_PATH = 0
const STORAGE_PATH = 32
const pathFrom = ({ column }: Pick<ReplacedNode, 'column'>): number =>
  column === 'accountTrie' ? ACCOUNT_PATH : STORAGE_PATH

/** From the state root on: a trie of storage stands behind the leaf of its account. */
const depthOf = (node: ReplacedNode): number =>
  node.key[pathFrom(node)]! + (node.column === 'accountTrie' ? 0 : DEEPEST)
const DEEPEST = 256

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

/** @throws {RowError} {Error} where the block, executed on the trie before it, writes a row that is not among those that are put back */
function checkAll(
  { store, findings }: Verifying,
  {
    rows,
    hash,
    replaced,
  }: { readonly rows: Rows; readonly hash: Bytes; readonly replaced: readonly Replaced[] },
): void {
  // A damaged one was told.
  if (findings.isNamed({ where: 'diffs', key: hash })) return
  const diff = store.diff(hash)
  if (diff === undefined) return
  const trie = openTrie({ database: rows })
  const version = trie.fork(trie.base())
  trie.apply(version, diff)
  const written = new Set<string>()
  const steps = trie.writes(version)
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  for (const { column, key } of step.value) written.add(rowName(column, key))
  const nameOf = ({ column, key }: ReplacedNode) => rowName(column, key)
  const names = new Set(replaced.map(nameOf))
  if ([...written].every((name) => names.has(name))) return
  const lack = new Error('a trie node that the block wrote is not among those that it puts back')
  const row = replaced.find((node) => !written.has(nameOf(node)))?.row ?? shortRow(replaced)
  throw row === undefined ? lack : new RowError(row, lack)
}

/** The first row with fewer nodes than it has room for: it, or one that is not there, has lost some. */
function shortRow(replaced: readonly Replaced[]): Bytes | undefined {
  const counts = new Map<Bytes, number>()
  for (const { row } of replaced) counts.set(row, (counts.get(row) ?? 0) + 1)
  return [...counts].find(([, count]) => count < UNDO_PART)?.[0]
}

/** @throws {Error} where the trie of the block before has another row at its place */
function checkRow(rows: Rows, { column, key }: ReplacedNode, root: Bytes): void {
  const expected = rows.get(column, key)
  const onDamage = ({ message }: { readonly message: string }) => {
    throw new Error(`with it put back a trie node of the block before ${message}`)
  }
  const prefixLength = pathFrom({ column })
  const prefix = key.subarray(0, prefixLength)
  const accounts: TrieSpace = { column: 'accountTrie', prefix: NO_BYTES }
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

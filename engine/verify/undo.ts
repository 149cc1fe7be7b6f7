/**
 * Checks the undo rows: put back newest first, they give the tries that the root of each block
 * before names.
 */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { decodeHeader } from '../primitives/header.ts'
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

/** Maximum number of rows in memory, a window of full blocks. Older blocks are not checked then. */
const MAX_ROWS = 2_000_000

/**
 * Checks the undo rows; yields after each block.
 * @param max maximum number of blocks below the persisted one
 */
export function* checkUndo(verifying: Verifying, max: number): Generator<undefined, void> {
  const { database, store, findings, counts } = verifying
  const rows = new Map<string, Bytes | undefined>()
  const before = layered(database, rows)
  let { number, hash } = store.persistedHead()
  for (let blocks = 0; blocks < max && rows.size < MAX_ROWS; blocks++) {
    if (!store.canUnwindTo(number - 1)) return
    const header = store.header(hash)
    const parentHash = header && decodeHeader(header).parentHash.slice()
    const parent = parentHash && store.header(parentHash)
    // A damaged header was reported before.
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
      // The order is from the root down, so that damage on the path to a node is found first.
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
/** A replaced node; `row` is the key of the row in column "undo" that contains it. */
type Replaced = ReplacedNode & { readonly row: Bytes }

/** A row of the column "undo" that differs from what was written. */
class RowError extends Error {
  override name = 'RowError'
  readonly row: Bytes

  constructor(row: Bytes, cause: Error) {
    super(cause.message, { cause })
    this.row = row
  }
}

/**
 * Runs `read` and names the row in its errors.
 * @throws {RowError} for whatever `read` throws
 */
function within<T>(row: Bytes, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new RowError(row, error as Error)
  }
}

/** @throws {RowError} when a row cannot be decoded */
const replacedBy = (database: Pick<Database, 'scan'>, hash: Bytes): readonly Replaced[] =>
  [...undoRowsOf(database, hash)].flatMap(({ key, nodes }) => {
    const row = key.slice()
    return within(row, () => [...nodes()].map((node) => ({ ...node, row })))
  })

const ACCOUNT_PATH = 0
const STORAGE_PATH = 32
const pathFrom = ({ column }: Pick<ReplacedNode, 'column'>): number =>
  column === 'accountTrie' ? ACCOUNT_PATH : STORAGE_PATH

/** Returns the depth from the state root. A storage trie is below the leaf of its account. */
const depthOf = (node: ReplacedNode): number =>
  node.key[pathFrom(node)]! + (node.column === 'accountTrie' ? 0 : DEEPEST)
const DEEPEST = 256

/** Reads the stored rows, overlaid with the rows that were put back. */
function layered(database: Rows, rows: ReadonlyMap<string, Bytes | undefined>): Rows {
  const get: Rows['get'] = (column, key) => {
    if (column !== 'accountTrie' && column !== 'storageTrie') return database.get(column, key)
    const name = rowName(column, key)
    return rows.has(name) ? rows.get(name) : database.get(column, key)
  }
  return { get, getMany: (column, keys) => keys.map((key) => get(column, key)) }
}

/**
 * Returns the row before the block.
 * @throws {TrieError} when the current row is not the one that the block wrote
 */
function previous(rows: Rows, node: ReplacedNode): Bytes | undefined {
  const now = rows.get(node.column, node.key)
  return rowBefore(node, now && plainRow(now, (length) => new Uint8Array(length)).row)?.slice()
}

/**
 * Executes the block on the trie before it, and checks that every written row is among the replaced
 * ones.
 * @throws {RowError} {Error} when a row is missing
 */
function checkAll(
  { store, findings }: Verifying,
  {
    rows,
    hash,
    replaced,
  }: { readonly rows: Rows; readonly hash: Bytes; readonly replaced: readonly Replaced[] },
): void {
  // A damaged diff was reported before.
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
  const missing = new Error('a trie node that the block wrote is not among those that it puts back')
  const row = replaced.find((node) => !written.has(nameOf(node)))?.row ?? shortRow(replaced)
  throw row === undefined ? missing : new RowError(row, missing)
}

/** Returns the first row that is not full: this row, or one that is missing, has lost nodes. */
function shortRow(replaced: readonly Replaced[]): Bytes | undefined {
  const counts = new Map<Bytes, number>()
  for (const { row } of replaced) counts.set(row, (counts.get(row) ?? 0) + 1)
  return [...counts].find(([, count]) => count < UNDO_PART)?.[0]
}

/**
 * Checks a row that was put back.
 * @throws {Error} when the trie of the block before has another row at this path
 */
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
  const nodePath = { key: way, depth: key[prefixLength]! }
  const found = rowAt({ rows, space: { column, prefix }, root: top, onDamage }, nodePath)
  const isSame =
    found === undefined || expected === undefined
      ? found === expected
      : equalBytes(found, plainRow(expected, (length) => new Uint8Array(length)).row)
  if (!isSame) throw new Error('a trie node that it puts back is no part of the block before')
}

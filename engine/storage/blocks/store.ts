/** Reads of durable state, for any thread. */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeDiff } from '../../state/diff-codec.ts'
import { decodeList } from '../database/lists.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import type { StoredRows, StoreReader } from '../types.ts'
import {
  decodeBody,
  decodeHead,
  decodeLazyStart,
  decodeMomentary,
  decodeNumber,
  decodePlace,
  encodeNumber,
  numberThen,
  originKey,
  tailKey,
  withNumber,
} from './block-codec.ts'
import { plainValue } from './checked-row.ts'
import { isLazyDirectory } from './fold.ts'
import { logBlocks } from './log-index.ts'
import { trieAt } from './proof.ts'

/**
 * Every call is synchronous and may throw {DatabaseError}. State as of block N: the flat value first, then the history after N
 * (`readAt` in the views' rules); values are copies of the caller's own.
 */
export function openStore(database: Database): StoreReader {
  const history = (column: 'accountHistory' | 'slotHistory', key: Bytes, number: number) => {
    const gte = withNumber(key, number + 1)
    const [entry] = database.range(column, { gte, lt: withNumber(key, LAST), limit: 1 })
    if (entry === undefined) return 'unchanged' as const
    return entry.value.length === 0 ? undefined : entry.value
  }
  const meta = (key: Bytes, what: string): Bytes => {
    const row = database.get('meta', key)
    if (row === undefined) throw new EmptyStoreError(what)
    return row
  }

  const store: StoreReader = {
    ...flatReads(database),
    accountHistory: (address, number) => history('accountHistory', address, number),
    slotHistory: (key, number) => history('slotHistory', key, number),
    code: (hash) => database.get('code', hash),
    codeOrigin: (hash) => database.get('code', originKey(hash)),
    header: (hash) => database.get('headers', hash),
    body(hash) {
      const row = database.get('bodies', hash)
      return row === undefined ? undefined : decodeBody(row)
    },
    receipts(hash) {
      const row = database.get('receipts', hash)
      return row === undefined ? undefined : decodeList(row)
    },
    tail: (hash) => database.get('bodies', tailKey(hash)),
    diff(hash) {
      const row = store.encodedDiff(hash)
      return row === undefined ? undefined : decodeDiff(row)
    },
    encodedDiff: (hash) => database.get('diffs', hash),
    hashOfNumber: (number) => database.get('numbers', encodeNumber(number)),
    blocksOf: (numbers, hasContents) => blocksOf(database, numbers, hasContents),
    transactionPlace: (hash) => store.transactionPlaces([hash])[0],
    transactionPlaces: (hashes) =>
      database.getMany('transactions', hashes).map((row) => row && decodePlace(row)),
    logBlocks: (values, shard) => logBlocks(database, values, shard),
    momentary(hash) {
      const row = database.get('momentary', hash)
      return row === undefined ? undefined : decodeMomentary(hash, row)
    },
    durableHead: () => decodeHead(meta(META.durableHead, 'durable head')),
    foldHead: () => decodeHead(meta(META.foldHead, 'fold head')),
    // The rows of a height go together with its diff and its undo rows.
    isUnfoldable(number) {
      if (this.foldHead().number <= number) return true
      const first = this.hashOfNumber(number + 1)
      return (
        first !== undefined && database.get('heights', numberThen(number + 1, first)) !== undefined
      )
    },
    oldestState: () => decodeNumber(meta(META.oldest, 'oldest state')),
    marks() {
      const row = meta(META.marks, 'safe and finalized blocks')
      return { safe: decodeNumber(row), finalized: decodeNumber(row, 8) }
    },
    lazyStart() {
      const row = database.get('meta', META.lazy)
      return row && decodeLazyStart(row)
    },
    trieAt: (hash, limits) => trieAt({ database, store }, hash, limits),
  }
  return store
}

type FlatReads = Pick<StoreReader, 'isLazy' | 'flatAccount' | 'flatSlot' | 'flatSlots'>

function flatReads(database: Pick<Database, 'get' | 'scan'>): FlatReads {
  /** For the life of a directory. Who finds every row never asks. */
  let isLazy: boolean | undefined
  const reads: FlatReads = {
    isLazy() {
      isLazy ??= isLazyDirectory(database)
      return isLazy
    },
    flatAccount(address) {
      const row = database.get('accounts', address)
      if (row === undefined) return reads.isLazy() ? 'missing' : undefined
      return row.length === 0 ? undefined : plainValue(address, row)
    },
    flatSlot(key) {
      const row = database.get('slots', key)
      if (row !== undefined) return row.length === 0 ? undefined : plainValue(key, row)
      if (!reads.isLazy() || hasNoStorage(database, key.subarray(0, 20))) return undefined
      return 'missing'
    },
    *flatSlots(address) {
      const gte = slotKey(address, 0)
      const lt = successor(address)
      for (const { key, value } of database.scan('slots', { gte, lt }))
        if (value.length > 0) yield { key: key.slice(20), value: plainValue(key, value) }
    },
  }
  return reads
}

/**
 * In a lazy directory: whether the slots of an account that have no row are zero. It is marked, or absent: from Cancun on no account goes
 * that has storage, so that one that is absent had none since the directory was begun.
 */
function hasNoStorage(database: Pick<Database, 'get'>, address: Bytes): boolean {
  if (database.get('slots', address) !== undefined) return true
  return database.get('accounts', address)?.length === 0
}

const LAST = Number.MAX_SAFE_INTEGER

/** One read for each column. */
function blocksOf(
  database: Pick<Database, 'getMany'>,
  numbers: readonly number[],
  hasContents: (header: Bytes) => boolean,
): readonly StoredRows[] {
  const hashes = database.getMany('numbers', numbers.map(encodeNumber))
  const found = numbers.flatMap((number, at) => {
    const hash = hashes[at]
    return hash === undefined ? [] : [{ number, hash }]
  })
  const headers = database.getMany(
    'headers',
    found.map(({ hash }) => hash),
  )
  const rows = found.flatMap((place, at) => {
    const header = headers[at]
    return header === undefined ? [] : [{ ...place, header }]
  })
  const wanted = rows.flatMap(({ header, hash }) => (hasContents(header) ? [hash] : []))
  const [bodies, receipts] = (['bodies', 'receipts'] as const).map((column) => {
    const values = database.getMany(column, wanted)
    return new Map(wanted.map((hash, at) => [hash, values[at]]))
  })
  return rows.map((row) => {
    const [body, list] = [bodies!.get(row.hash), receipts!.get(row.hash)]
    return { ...row, body: body && decodeBody(body), receipts: list && decodeList(list) }
  })
}

function slotKey(address: Bytes, fill: number): Bytes {
  const key = new Uint8Array(52).fill(fill)
  key.set(address)
  return key
}

/** The first key above all slots of the account. */
function successor(address: Bytes): Bytes {
  const key = new Uint8Array(53).fill(0xff)
  key.set(address)
  return key
}

/** Nothing was written yet: the genesis is imported before the store is read. */
export class EmptyStoreError extends Error {
  override name = 'EmptyStoreError'
  constructor(what: string) {
    super(`the database holds no ${what}: import a genesis first`)
  }
}

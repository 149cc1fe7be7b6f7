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
  decodeNumber,
  decodePartialHeader,
  decodeTransactionLocation,
  encodeNumber,
  numberThen,
  originKey,
  tailKey,
  withNumber,
} from './block-codec.ts'
import { plainValue } from './flat-state.ts'
import { logBlocks } from './log-index.ts'
import { isLazyDirectory } from './persist.ts'
import { trieAt } from './proof.ts'

/**
 * Opens the reader; every call is synchronous and may throw {DatabaseError}. For state as of block
 * N, read the flat value first, then the history after N (`readAt` of the views). Values are copies
 * that the caller owns.
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
    transactionLocation: (hash) => store.transactionLocations([hash])[0],
    transactionLocations: (hashes) =>
      database.getMany('transactions', hashes).map((row) => row && decodeTransactionLocation(row)),
    logBlocks: (values, shard) => logBlocks(database, values, shard),
    partialHeader(hash) {
      const row = database.get('momentary', hash)
      return row === undefined ? undefined : decodePartialHeader(hash, row)
    },
    durableHead: () => decodeHead(meta(META.durableHead, 'durable head')),
    persistedHead: () => decodeHead(meta(META.persistedHead, 'persisted head')),
    // The row of a height is deleted together with its diff and its undo rows.
    canUnwindTo(number) {
      if (this.persistedHead().number <= number) return true
      const first = this.hashOfNumber(number + 1)
      return (
        first !== undefined && database.get('heights', numberThen(number + 1, first)) !== undefined
      )
    },
    oldestState: () => decodeNumber(meta(META.oldest, 'oldest state')),
    labelledHeads() {
      const row = meta(META.labelledHeads, 'safe and finalized blocks')
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
  /**
   * Cached, because a directory never changes its kind. A reader that finds every row never needs
   * it.
   */
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
 * Whether the slots without a row of an account in a lazy directory are zero. The account is marked
 * or absent. Since Cancun no account with storage is deleted, so an absent account had no storage
 * since the start.
 */
function hasNoStorage(database: Pick<Database, 'get'>, address: Bytes): boolean {
  if (database.get('slots', address) !== undefined) return true
  return database.get('accounts', address)?.length === 0
}

const LAST = Number.MAX_SAFE_INTEGER

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
  const rows = found.flatMap((one, at) => {
    const header = headers[at]
    return header === undefined ? [] : [{ ...one, header }]
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

/** The store is empty: the genesis has to be imported first. */
export class EmptyStoreError extends Error {
  override name = 'EmptyStoreError'
  constructor(what: string) {
    super(`the database holds no ${what}: import a genesis first`)
  }
}

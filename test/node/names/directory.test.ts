/**
 * Today's node must read every file and every kind of row of a data directory that an earlier
 * commit wrote.
 */
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { decodePacket } from '../../../engine/flashblocks/codec.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { COLUMN_NAMES, type ColumnName } from '../../../engine/storage/database/columns.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openJournal } from '../../../engine/storage/directory/journal.ts'
import { readMarker } from '../../../engine/storage/directory/marker.ts'
import { openLedgerReader } from '../../../engine/storage/ledger/reader.ts'
import { encodeLine } from '../../../workers/record/values.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import { unpackDirectory } from '../../fixtures/names.ts'

const folder = mkdtempSync(join(tmpdir(), 'flashnode-names-'))
let database: Database
beforeAll(async () => {
  unpackDirectory(folder)
  database = await openSmall(join(folder, 'state'))
})
afterAll(async () => {
  await database?.close()
  rmSync(folder, { recursive: true })
})

/** Formats values as text, independently of today's types. */
const plain = (value: object): unknown => JSON.parse(encodeLine(value))
const rows = (column: ColumnName) => [
  ...database.scan(column, { gte: new Uint8Array(0), lt: new Uint8Array(256).fill(0xff) }),
]
const textsOf = (column: ColumnName) =>
  rows(column).map(({ key, value }) => [bytesToHex(key), bytesToHex(value)])

test('the older directory has its known files', () => {
  expect(globSync('*', { cwd: folder }).toSorted()).toEqual([
    ...['flashblocks.journal', 'flashnode.json', 'genesis.json', 'predeploys.json'],
    ...['state', 'transactions.journal'],
  ])
})

test('the marker is read with all its fields', () => {
  expect(JSON.stringify(readMarker(folder))).toBe(
    '{"version":7,"chainId":196,"genesis":"0x06041ced300b7225298e89c31365ce13ccf4cdc397b90367c03d4229ae627e11",' +
      '"chain":"xlayer","genesisTimestamp":1796033537,"genesisGasLimit":50000000}',
  )
})

const found = (name: string) => {
  const path = join(folder, `${name}.journal`)
  expect(readFileSync(path, 'latin1')).toMatch(/^flashnode journal 1\n/)
  const journal = openJournal(path, { ifDamaged: 'refuse' })
  journal.close()
  // The first version of the format is rewritten as the second one.
  expect(readFileSync(path, 'latin1')).toMatch(/^flashnode records 2\n/)
  return journal.found
}

test('the accepted transactions are read from their journal', () => {
  expect(found('transactions').map((raw) => bytesToHex(keccak256(raw)))).toEqual([
    '0xd3b79a6c3ebd33205a57f457c7ee4cb6209ce28d95d32ca2b6b166f852d4093d',
    '0x5fe8c27efbbcc28014a6fc2618af4698cdb9c1e8d90537fbacdbeeb4604b7577',
    '0xc6176e91b186a00d7ac071d2640e32c983d10e1fea5c2398c6e55918af350773',
    '0xc2bdc39e796c9bc66d555c5f7ebb4e1ef29d584c06ca18077f8a3e23df07ef46',
    '0x09c7086466430fdf2a86b423cbc41ef5ae12635cd5f6f55e2c2658fb773bf302',
    '0x1979fa8b085b49b6286281dd38952a9666fddc0be6e6bba962333b424f8a9899',
    '0xbac4fce17685a2481d87412e2cb5f5e40e83a664a628ce4330466d1d769a9aa0',
  ])
})

test('the packets are read from the journal of flashblocks', () => {
  const packets = found('flashblocks').map((packet) => decodePacket(packet) as { message: object })
  const words = packets.map(({ message }) =>
    ['type', 'payloadId', 'index', 'blockNumber']
      .map((field) => String(Reflect.get(message, field) ?? ''))
      .join(' ')
      .trim(),
  )
  expect(words).toHaveLength(32)
  expect([...words.slice(0, 3), ...words.slice(-2)]).toEqual([
    'flashblock 0x0373812727df9006 0 9',
    'flashblock 0x0373812727df9006 1 9',
    'end 0x0373812727df9006',
    'flashblock 0x0363012b3dfb5629 0 23',
    'flashblock 0x0363012b3dfb5629 1 23',
  ])
})

test('each column has its known number of rows', () => {
  const counts = COLUMN_NAMES.map((column) => `${column} ${rows(column).length}`)
  expect(counts).toEqual([
    ...['accounts 35', 'slots 82', 'accountHistory 37', 'slotHistory 90', 'code 13'],
    ...['headers 23', 'bodies 23', 'receipts 23', 'diffs 22', 'heights 22', 'numbers 19'],
    ...['transactions 23', 'logs 2', 'momentary 54', 'accountTrie 38', 'storageTrie 96'],
    ...['undo 18', 'ledger 19', 'meta 4'],
  ])
})

const HEAD = '0xcfcb1bbc3c6d14020137223831fcca81b0e638791f24ce9cf67d7715b59d81b1'
const FLAT = '0x84af31bb90e65839712c492a96c16b6651ae70d53e9e608995749393d8a9426c'

test('the heads and the oldest state are read', () => {
  const names = rows('meta').map(({ key }) => new TextDecoder().decode(key))
  expect(names).toEqual(['durable-head', 'fold-head', 'marks', 'oldest-state'])
  const store = openStore(database)
  expect(plain(store.durableHead())).toEqual({ number: 22, hash: HEAD })
  expect(plain(store.persistedHead())).toEqual({ number: 18, hash: FLAT })
  expect(plain(store.labelledHeads())).toEqual({ safe: 18, finalized: 10 })
  expect([store.oldestState(), store.isLazy()]).toEqual([0, false])
})

const SENT = '0xc2bdc39e796c9bc66d555c5f7ebb4e1ef29d584c06ca18077f8a3e23df07ef46'
const CONTRACT = '0xe7f1725e7734ce288f8367e1bb143e90bb3f0512'
const word = (byte: string): string => `0x${byte.padStart(64, '0')}`

test('a transaction location, a log, a slot and its history are read', () => {
  const store = openStore(database)
  expect(plain(store.transactionLocation(hexToBytes(SENT))!)).toEqual({ blockNumber: 8, index: 1 })
  expect(textsOf('logs')).toEqual([
    [`0x00${CONTRACT.slice(2)}0000000000000000`, '0x0008000a'],
    [`0x01${word('2a').slice(2)}0000000000000000`, '0x0008000a'],
  ])
  const slot = hexToBytes(`0x${CONTRACT.slice(2)}${word('').slice(2)}`)
  expect(bytesToHex(store.flatSlot(slot) as Uint8Array)).toBe(word('2c'))
  expect(bytesToHex(store.slotHistory(slot, 9) as Uint8Array)).toBe(word('2b'))
  expect(store.slotHistory(slot, 7)).toBe(undefined)
})

test('the promises and counts of the ledger are read', () => {
  const ledger = openLedgerReader(database)
  expect(ledger.promisesAt(9).map(plain)).toEqual([
    {
      number: 9,
      payloadId: '0x0375063cf4501e64',
      index: 1,
      position: 1,
      nonce: '1n',
      hash: '0x74bba19d3111b5f84a4dae3579add68c598883c4f0606f87098dd9b01d42fcbd',
      sender: '0x70997970c51812dc3a010c7d01b50e0d17dc79c8',
      atMs: 1_796_033_685_054,
      decidedAtMs: 1_796_033_690_979,
      outcome: 'dropped',
      causes: ['secondPayload'],
    },
  ])
  expect(ledger.promisesOf(hexToBytes(SENT)).map(({ outcome }) => outcome)).toEqual(['kept'])
  expect(ledger.promisesAt(23).map(({ outcome }) => outcome)).toEqual(['open'])
  const { counts } = ledger.countsSince(0, 1e14)
  expect(plain(counts)).toMatchObject({
    flashblocks: 7,
    promises: 7,
    kept: 5,
    reordered: 0,
    dropped: 1,
    unseen: 0,
    secondPayloads: 1,
    equivocations: 0,
    taken: { count: 6 },
    sealed: { count: 5, sumMs: 10_047 },
  })
})

/**
 * Account dumps are read line by line and compared with a header. They are loaded into a trie that
 * is built at once. The command runs as a user runs it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { allocationRoots } from '../../../engine/chainspec/genesis.ts'
import { chainOfGenesis } from '../../../engine/chainspec/registry.ts'
import {
  decodeDumpAccount,
  decodeDumpRoot,
  decodeHeaderFile,
} from '../../../engine/chainspec/state-dump.ts'
import type { GenesisAccount } from '../../../engine/chainspec/types.ts'
import type { Bytes, Hex } from '../../../engine/primitives/bytes.ts'
import { hashHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex, hexToBytes, quantity } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { textLines } from '../../../engine/primitives/line-stream.ts'
import { trieRoot } from '../../../engine/primitives/trie-root.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { openStateImport, StateImportError } from '../../../engine/storage/blocks/state-import.ts'
import { COLUMN_NAMES, type ColumnName } from '../../../engine/storage/database/columns.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { buildTrie } from '../../../engine/storage/trie/build.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { ALL_KEYS } from '../../fixtures/stored-rows.ts'
import { call, startNode } from '../../kit/node.ts'

const keyAt = (index: number) => keccak256(bigintToBytes(BigInt(index), 32))
const addressAt = (index: number) => keyAt(index).slice(12)

/** Makes a world with empty accounts, shared code, and storage of one and of many slots. */
function allocation(size: number): Map<Hex, GenesisAccount> {
  return new Map(
    Array.from({ length: size }, (_, index) => {
      const slots = index % 7 === 0 ? 1 : index % 31 === 3 ? 60 : 0
      const account: GenesisAccount = {
        nonce: BigInt(index % 3),
        balance: BigInt(index % 5) * 10n ** 17n,
        ...(index % 4 === 0 ? { code: Uint8Array.of(0x60, index % 16, 0) } : {}),
        storage: Array.from({ length: slots }, (_, at) => ({
          key: bigintToBytes(BigInt(at), 32),
          value: bigintToBytes(BigInt(index + at), 32),
        })),
      }
      return [bytesToHex(addressAt(index)), account]
    }),
  )
}

const lineOf = (address: Hex, { nonce = 0n, balance, code, storage = [] }: GenesisAccount) =>
  JSON.stringify({
    address,
    balance: quantity(balance),
    nonce: nonce === 1n ? 1 : quantity(nonce),
    ...(code === undefined ? {} : { code: bytesToHex(code) }),
    storage: Object.fromEntries(
      storage.map(({ key, value }) => [bytesToHex(key), bytesToHex(value)]),
    ),
  })

const chain = (alloc: ReadonlyMap<Hex, GenesisAccount>) => ({
  ...chainOfGenesis({ config: { chainId: 7 }, alloc: {} }),
  alloc,
})
const headerOf = (alloc: ReadonlyMap<Hex, GenesisAccount>) => ({
  ...chain(alloc).genesisHeader,
  ...allocationRoots(alloc),
})

function load(alloc: Iterable<[Hex, GenesisAccount]>, header: ReturnType<typeof headerOf>) {
  const database = memoryDatabase()
  const target = openStateImport(database, memoryDatabase())
  for (const [address, account] of alloc) target.add({ address: hexToBytes(address), account })
  for (const steps = target.finish(header); steps.next().done !== true; );
  return database
}

const rowsOf = (database: Database, column: ColumnName) =>
  [...database.scan(column, ALL_KEYS)].map(({ key, value }) => [bytesToHex(key), bytesToHex(value)])

describe('a trie that is built at once', () => {
  const nibbles = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 64, maxLength: 64 })
  const key = fc
    .tuple(nibbles, fc.integer({ min: 0, max: 63 }))
    // Most of a key is equal for all, which gives extensions, and branches close to the end.
    .map(([digits, from]) =>
      hexToBytes(`0x${digits.map((digit, at) => (at < from ? 0 : digit).toString(16)).join('')}`),
    )
  const entries = fc.uniqueArray(
    fc.record({ key, value: fc.uint8Array({ minLength: 1, maxLength: 40 }) }),
    { maxLength: 40, selector: (entry) => bytesToHex(entry.key) },
  )

  test('has the root of the same entries', () => {
    fc.assert(
      fc.property(entries, (given) => {
        const batch = memoryDatabase().batch()
        const trie = buildTrie({ column: 'accountTrie', prefix: new Uint8Array(0) }, batch)
        const sorted = given.toSorted((a, b) => Buffer.compare(a.key, b.key))
        for (const entry of sorted) trie.add(entry.key, entry.value)
        expect(trie.finish()).toEqual(trieRoot(given))
      }),
      { numRuns: 500 },
    )
  })

  test('accepts keys in ascending order only', () => {
    const add = (keys: readonly Bytes[]) => {
      const batch = memoryDatabase().batch()
      const trie = buildTrie({ column: 'accountTrie', prefix: new Uint8Array(0) }, batch)
      for (const one of keys) trie.add(one, Uint8Array.of(1))
    }
    const [low, high] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
    expect(() => add([low, high])).not.toThrow()
    expect(() => add([high, low])).toThrow(RangeError)
    expect(() => add([low, low])).toThrow(RangeError)
  })
})

describe('a dump', () => {
  test('gives the same rows as a genesis with the same allocation', () => {
    const alloc = allocation(900)
    const header = headerOf(alloc)
    const genesis = memoryDatabase()
    importGenesis(genesis, {
      ...chain(alloc),
      genesisHeader: header,
      genesisHash: hashHeader(header),
    })
    const loaded = load([...alloc].reverse(), header)
    for (const column of COLUMN_NAMES)
      expect(rowsOf(loaded, column), column).toEqual(rowsOf(genesis, column))
    expect(rowsOf(loaded, 'storageTrie').length).toBeGreaterThan(1_000)
  })

  test('is refused for another root, a duplicate account, or an existing chain', () => {
    const alloc = allocation(20)
    const header = headerOf(alloc)
    expect(() => load([...alloc].slice(1), header)).toThrow(
      /^19 accounts have the state root 0x[0-9a-f]{64}, the header of block 0 says 0x/,
    )
    expect(() => load([...alloc, ...[...alloc].slice(3, 4)], header)).toThrow(
      `the account ${bytesToHex(addressAt(3))} stands there twice`,
    )
    const full = load(alloc, header)
    expect(() => openStateImport(full, memoryDatabase())).toThrow('holds a chain already')
  })

  test('that was interrupted leaves no chain', () => {
    const database = memoryDatabase()
    openStateImport(database, memoryDatabase())
    expect(() => importGenesis(database, chain(new Map()))).toThrow(
      'run the same import-state again',
    )
    expect(() => openStateImport(database, memoryDatabase())).not.toThrow(StateImportError)
  })
})

describe('the lines of a dump', () => {
  const account = { address: `0x${'11'.repeat(20)}`, balance: '0x1' }
  const cases: [name: string, read: () => unknown, message: string][] = [
    ['invalid JSON', () => decodeDumpAccount('{', 'f, line 2'), 'f, line 2 is not JSON'],
    [
      'a list',
      () => decodeDumpAccount('[]', 'f, line 2'),
      'f, line 2: expected an object, got an array',
    ],
    [
      'no address',
      () => decodeDumpAccount('{"balance":"0x1"}', 'f, line 2'),
      'f, line 2: address: expected 0x and 20 bytes, got nothing',
    ],
    [
      'a short address',
      () => decodeDumpAccount(JSON.stringify({ ...account, address: '0x11' }), 'f, line 2'),
      'f, line 2: address: expected 0x and 20 bytes, got 1 bytes',
    ],
    [
      'a balance that is too large',
      () => decodeDumpAccount(JSON.stringify({ ...account, balance: `0x1${'0'.repeat(64)}` }), 'l'),
      'l.balance: expected 0 to 2^256 - 1',
    ],
    [
      'a slot value that is not hex',
      () => decodeDumpAccount(JSON.stringify({ ...account, storage: { '0x0': 'x' } }), 'l'),
      'l.storage.0x0: expected a word in hex, got x',
    ],
    [
      'no root',
      () => decodeDumpRoot('{}', 'f, line 1'),
      'f, line 1: root: expected 0x and 32 bytes, got nothing',
    ],
  ]
  test.each(cases)('are refused with the reason: %s', (_, read, message) => {
    expect(read).toThrow(message)
  })

  const jsonHeader = (changes: object) => {
    const header = headerOf(new Map())
    const names = { ommersHash: 'sha3Uncles', coinbase: 'miner' } as Record<string, string>
    const fields = Object.entries(header).map(([name, value]) => [
      names[name] ?? name,
      typeof value === 'bigint' ? quantity(value) : bytesToHex(value as Bytes),
    ])
    return { header, json: JSON.stringify({ ...Object.fromEntries(fields), ...changes }) }
  }
  test('come with a header file, which may be the JSON-RPC response of a node', () => {
    const { header, json } = jsonHeader({})
    const expected = hashHeader(header)
    expect(hashHeader(decodeHeaderFile(json, 'h'))).toEqual(expected)
    const response = JSON.stringify({ id: 1, result: JSON.parse(json) })
    expect(hashHeader(decodeHeaderFile(response, 'h'))).toEqual(expected)
    const hashed = jsonHeader({ hash: bytesToHex(expected) }).json
    expect(hashHeader(decodeHeaderFile(hashed, 'h'))).toEqual(expected)
    const wrong = jsonHeader({ hash: bytesToHex(expected), gasUsed: '0x1' }).json
    expect(() => decodeHeaderFile(wrong, 'h')).toThrow('its fields have the hash')
    expect(() => decodeHeaderFile(jsonHeader({ miner: '0x' }).json, 'h')).toThrow(
      'h: miner: expected 0x and 20 bytes, got 0 bytes',
    )
  })

  const lines = async (chunks: readonly Uint8Array[], max: number) => {
    const all: string[] = []
    for await (const line of textLines(Readable.from(chunks), max)) all.push(line)
    return all
  }
  test('are read completely, wherever the chunks end', async () => {
    const line = fc.string({ unit: fc.constantFrom('a', 'ü', '"', ' '), maxLength: 20 })
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 8 }),
        fc.integer({ min: 1, max: 30 }),
        fc.constantFrom('\n', '\r\n'),
        async (texts, size, end) => {
          const bytes = new TextEncoder().encode(texts.map((text) => text + end).join(''))
          const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
            bytes.subarray(at * size, (at + 1) * size),
          )
          expect(await lines(chunks, 1_000)).toEqual(texts)
        },
      ),
    )
    expect(await lines([Buffer.from('a\nb')], 9)).toEqual(['a', 'b'])
    await expect(lines([Buffer.from('a\nbcd'), Buffer.from('ef')], 4)).rejects.toThrow(
      'line 2 is longer than the 4 bytes',
    )
  })
})

describe('import-state', () => {
  const directory = temporaryDirectory()
  const alloc = allocation(1_500)
  const at = (name: string) => join(directory, name)
  const forks = ['homestead', 'eip150', 'eip155', 'eip158', 'byzantium', 'constantinople']
  const more = ['petersburg', 'istanbul', 'berlin', 'london']
  const config = {
    chainId: 7,
    terminalTotalDifficulty: 0,
    shanghaiTime: 0,
    ...Object.fromEntries([...forks, ...more].map((fork) => [`${fork}Block`, 0])),
  }
  const genesis = { config, alloc: {}, gasLimit: '0x1c9c380', timestamp: '0x1' }
  const { stateRoot } = allocationRoots(alloc)
  const header = {
    ...chainOfGenesis(genesis).genesisHeader,
    number: 7n,
    timestamp: 99n,
    stateRoot,
    transactionsRoot: keyAt(1),
  }
  const names = { ommersHash: 'sha3Uncles', coinbase: 'miner' } as Record<string, string>
  const json = Object.fromEntries(
    Object.entries(header).map(([name, value]) => [
      names[name] ?? name,
      typeof value === 'bigint' ? quantity(value) : bytesToHex(value),
    ]),
  )
  const lines = [
    JSON.stringify({ root: bytesToHex(stateRoot) }),
    ...[...alloc].map(([address, account]) => lineOf(address, account)),
  ]
  const slots = [...alloc.values()].reduce((sum, { storage = [] }) => sum + storage.length, 0)
  const run = async (file: string) => {
    const child = spawn(process.execPath, [
      ...['workers/main.ts', 'import-state', '--log-level', 'error', '--chain', at('genesis.json')],
      ...['--state', at(file), '--block', at('header.json'), '--datadir', at('data')],
    ])
    let [out, errors] = ['', '']
    child.stdout.on('data', (chunk) => (out += chunk))
    child.stderr.on('data', (chunk) => (errors += chunk))
    const [code] = await once(child, 'close')
    return { code, out, errors }
  }

  test('imports nothing from an incomplete dump, and serves a complete one', async () => {
    writeFileSync(at('genesis.json'), JSON.stringify(genesis))
    writeFileSync(
      at('header.json'),
      JSON.stringify({ ...json, hash: bytesToHex(hashHeader(header)) }),
    )
    writeFileSync(at('cut.jsonl'), lines.slice(0, 900).join('\n'))
    writeFileSync(at('dump.jsonl.gz'), gzipSync(`${lines.join('\n')}\n`))
    const cut = await run('cut.jsonl')
    expect(cut).toMatchObject({ code: 1, out: '' })
    expect(cut.errors).toMatch(/^flashnode: 899 accounts have the state root 0x/)
    const full = await run('dump.jsonl.gz')
    expect(full).toMatchObject({ code: 0, errors: '' })
    expect(full.out).toBe(
      `loaded 1500 accounts, ${slots} slots: head 7 ${bytesToHex(hashHeader(header))}\n`,
    )
    expect(existsSync(join(at('data'), 'sorting'))).toBe(false)
    expect((await run('dump.jsonl.gz')).errors).toContain('holds a chain already')

    const node = await startNode(['--datadir', at('data')], 'serve')
    const of = (index: number) => bytesToHex(addressAt(index))
    expect(await call(node.url, 'eth_blockNumber')).toBe('0x7')
    expect(await call(node.url, 'eth_getBalance', [of(4), 'latest'])).toBe(
      quantity(4n * 10n ** 17n),
    )
    expect(await call(node.url, 'eth_getCode', [of(8), '0x7'])).toBe('0x600800')
    expect(await call(node.url, 'eth_getStorageAt', [of(34), '0x5', 'latest'])).toBe(
      bytesToHex(bigintToBytes(39n, 32)),
    )
    expect(await call(node.url, 'eth_getProof', [of(34), ['0x5'], 'latest'])).toMatchObject({
      nonce: '0x1',
      storageProof: [{ value: '0x27' }],
    })
    await expect(call(node.url, 'eth_getBlockByNumber', ['0x7', false])).rejects.toThrow(
      /history not available: the body of block 0x[0-9a-f]{64} is not here, only its state was loaded/,
    )
    for (const fromBlock of ['0x0', '0x7'])
      for (const filter of [{}, { address: of(1) }])
        await expect(
          call(node.url, 'eth_getLogs', [{ ...filter, fromBlock, toBlock: '0x7' }]),
        ).rejects.toThrow(
          /history not available: (block 0 is|the receipts of block 0x\w{64} is) not here/,
        )
    for (const [method, ...params] of [
      ['eth_getBalance', of(4), '0x6'],
      ['eth_getBlockByNumber', '0x6', false],
      ['debug_traceBlockByNumber', '0x6', { tracer: 'callTracer' }],
    ] as const)
      await expect(call(node.url, method, params)).rejects.toThrow(
        '-32001 history not available: block 6 is not here; the oldest available block is 7',
      )
    expect(await node.stop('SIGTERM')).toBe(0)
  })
})

/** A data directory has a marker and a genesis. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { chainOfGenesis, chainSpec } from '../../../../engine/chainspec/registry.ts'
import { decodeHeader } from '../../../../engine/primitives/header.ts'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../../engine/primitives/keccak.ts'
import { encodeRlp, readItem, readList } from '../../../../engine/primitives/rlp.ts'
import { concatBytes, ZERO_32 } from '../../../../engine/primitives/words.ts'
import { decodeAccount } from '../../../../engine/state/account-codec.ts'
import { importGenesis } from '../../../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import { PREDEPLOYS, readMarker } from '../../../../engine/storage/directory/marker.ts'
import { openDirectory, SCHEMA_VERSION } from '../../../../engine/storage/directory/schema.ts'
import { openTrie } from '../../../../engine/storage/trie/trie.ts'
import { devChain } from '../../../../workers/commands/dev/role.ts'
import { servedChain } from '../../../../workers/commands/serve/role.ts'
import { type ChainChoice, chainOption } from '../../../../workers/data/datadir.ts'
import { openChain, providePredeploys } from '../../../../workers/data/own-chain.ts'
import { conformance, isAbsent } from '../../../fixtures/blocks.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'
import { known } from '../../../fixtures/known.ts'
import { olderSchema } from '../../../fixtures/older-schema.ts'

const dev = chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1_700_000_000 } })
const faultOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'no fault',
    (error: { reason: string; message: string }) => `${error.reason}: ${error.message}`,
  )

type RequestedChain = { readonly chainId?: number; readonly gasLimit?: number }
/** Makes the choice of a directory's chain for these commands and flags. */
const choiceOf = (
  command: 'dev' | 'serve',
  { chainId, gasLimit }: RequestedChain = {},
): ChainChoice =>
  command === 'serve'
    ? servedChain({})
    : devChain({
        chain: 'xlayer',
        chainId,
        gasLimit,
        genesisAlloc: undefined,
        blockTimeMs: 1_000,
      })

describe('a data directory', () => {
  const open = (path: string, chain = dev) =>
    openDirectory({ path, chain, chainName: 'xlayer', cacheBytes: 2 ** 24, maxThreads: 4 })
  const marked = (fields: object) => {
    const path = temporaryDirectory()
    const marker = { format: 'flashnode', version: SCHEMA_VERSION, ...fields }
    writeFileSync(join(path, 'flashnode.json'), JSON.stringify(marker))
    return path
  }

  test('is created with a marker, and refuses a second process and another chain', async () => {
    const path = join(temporaryDirectory(), 'a', 'b')
    expect(readMarker(path)).toBeUndefined()
    const database = await open(path)
    expect(importGenesis(database, dev)).toBe(true)
    expect(readMarker(path)).toEqual({
      version: SCHEMA_VERSION,
      chainId: 196,
      genesis: bytesToHex(dev.genesisHash),
      chain: 'xlayer',
      genesisTimestamp: 1_700_000_000,
      genesisGasLimit: 50_000_000,
    })
    expect(await faultOf(open(path))).toBe(
      `open: ${path} is open in this process already (pid ${process.pid}): close it first, or give --datadir another directory`,
    )
    const other = chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1, chainId: 7 } })
    expect(await faultOf(open(path, other))).toBe(
      `chain: ${path} holds chain 196 with genesis ${bytesToHex(dev.genesisHash)}, not chain 7 with genesis ${bytesToHex(other.genesisHash)}: give --datadir another directory`,
    )
    await database.close()
    const reopened = await open(path)
    expect(importGenesis(reopened, dev)).toBe(false)
    expect(openStore(reopened).persistedHead().number).toBe(0)
    await reopened.close()
  })

  test('of a development chain makes the same chain again, with its options', async () => {
    const path = temporaryDirectory()
    const query = (choice: ChainChoice) => chainSpec(chainOption(choice, path, 1_700_000_000))
    const made = query(choiceOf('dev', { gasLimit: 200_000_000 }))
    expect(made.genesisHeader.gasLimit).toBe(200_000_000n)
    await (await open(path, made)).close()
    for (const command of ['dev', 'serve'] as const)
      expect(query(choiceOf(command)).genesisHash).toEqual(made.genesisHash)
    expect(await faultOf(open(path, query(choiceOf('dev', { gasLimit: 30_000_000 }))))).toMatch(
      /^chain: /,
    )
  })

  test('of a development chain keeps the contracts of its creation, or has none', async () => {
    const [older, newer] = [temporaryDirectory(), temporaryDirectory()]
    const chainIn = (path: string, command: 'dev' | 'serve' = 'dev') =>
      chainSpec(chainOption(choiceOf(command), path, 1_700_000_000))
    const provide = (path: string) => providePredeploys(choiceOf('dev'), path)
    const before = chainIn(older)
    await (await open(older, before)).close()
    provide(older)
    expect(existsSync(join(older, PREDEPLOYS))).toBe(false)
    expect(chainIn(older).genesisHash).toEqual(before.genesisHash)

    // The next start repairs a start that was cut off before the marker was written.
    provide(newer)
    expect(readMarker(newer)).toBeUndefined()
    provide(newer)
    const made = chainIn(newer)
    expect(made.genesisHash).not.toEqual(before.genesisHash)
    await (await open(newer, made)).close()
    const file = join(newer, PREDEPLOYS)
    const retained = readFileSync(file, 'utf8')
    provide(newer)
    expect(readFileSync(file, 'utf8')).toBe(retained)
    for (const command of ['dev', 'serve'] as const)
      expect(chainIn(newer, command).genesisHash).toEqual(made.genesisHash)
  })

  test('of a development chain has damaged contracts repaired or reported', async () => {
    const path = temporaryDirectory()
    const file = join(path, PREDEPLOYS)
    const nowSeconds = 1_700_000_000
    const reported: string[] = []
    const openAs = (command: 'dev' | 'serve', changes: RequestedChain = {}) =>
      openChain(choiceOf(command, changes), { path, nowSeconds }, (what) => reported.push(what))
    const { chain: made } = openAs('dev')
    await (await open(path, made)).close()
    const retained = readFileSync(file, 'utf8')
    const damages = [retained.slice(0, 1_000), '', '[]', '{}', retained.replace('0x6080', '0x6081')]
    for (const text of damages)
      for (const command of ['dev', 'serve'] as const) {
        writeFileSync(file, text)
        const { chain } = openAs(command)
        expect(chain.genesisHash).toEqual(made.genesisHash)
        expect(readFileSync(file, 'utf8')).toBe(retained)
        expect(reported.splice(0)).toEqual([file])
      }
    // For another chain, the directory's genesis stays, and its own check refuses.
    const { chain: other } = openAs('dev', { chainId: 5 })
    expect(await faultOf(open(path, other))).toMatch(/^chain: /)
    expect(readFileSync(file, 'utf8')).toBe(retained)
    // Contracts of another version make another chain.
    const marker = join(path, 'flashnode.json')
    const stranger = JSON.parse(readFileSync(marker, 'utf8'))
    writeFileSync(marker, JSON.stringify({ ...stranger, genesis: `0x${'1'.repeat(64)}` }))
    writeFileSync(file, '{')
    expect(await faultOf((async () => openAs('dev'))())).toMatch(
      /^corrupt: \S+predeploys\.json is not JSON: .*; the file cannot be made again: restore it from a backup, or give another --datadir$/,
    )
    expect(readFileSync(file, 'utf8')).toBe('{')
    expect(reported).toEqual([])
  })

  test('of another program is left unchanged', async () => {
    const path = temporaryDirectory()
    mkdirSync(join(path, 'geth'))
    expect(await faultOf(open(path))).toBe(
      `foreign: ${path} is no data directory of flashnode (it holds "geth"): give --datadir an empty or another directory`,
    )
    expect(existsSync(join(path, 'flashnode.json'))).toBe(false)
    for (const text of ['', '{', 'null', '{"format":"other","version":1}']) {
      const odd = temporaryDirectory()
      writeFileSync(join(odd, 'flashnode.json'), text)
      expect(await faultOf(open(odd))).toMatch(/^foreign: /)
    }
  })

  test('of a newer or older format is refused with advice', async () => {
    const newer = marked({ version: SCHEMA_VERSION + 1, chainId: 196 })
    expect(await faultOf(open(newer))).toBe(
      `newer: ${newer} was written by a newer flashnode (format 8, this one reads 7): update flashnode, or give --datadir another directory`,
    )
    const older = marked({ version: 0, chainId: 196 })
    expect(await faultOf(open(older))).toBe(
      `older: ${older} has format 0, which cannot be migrated to 7: give --datadir another directory`,
    )
    const options = {
      path: older,
      chain: dev,
      chainName: 'xlayer',
      migrations: {
        0: olderSchema,
        1: olderSchema,
        2: olderSchema,
        3: olderSchema,
        4: olderSchema,
        5: olderSchema,
        6: olderSchema,
      },
    }
    expect(await faultOf(openDirectory(options))).toBe(
      `older: ${older} has format 0, this flashnode needs 7: run \`flashnode migrate --datadir ${older}\` first`,
    )
    const cut = marked({ version: SCHEMA_VERSION, migratesFrom: 0, chainId: 196 })
    expect(await faultOf(openDirectory({ ...options, path: cut }))).toBe(
      `older: the migration of ${cut} from format 0 to 7 was cut off: run \`flashnode migrate --datadir ${cut}\` again, it goes on where it was`,
    )
    expect(existsSync(join(older, 'state'))).toBe(false)
  })

  test('that cannot be written is refused with advice', async () => {
    const path = join(temporaryDirectory(), 'file')
    writeFileSync(path, '')
    expect(await faultOf(open(join(path, 'below')))).toMatch(
      /^io: .* cannot be used: ENOTDIR.*; give another --datadir$/,
    )
  })

  test('that is damaged is reported as damaged', async () => {
    const path = temporaryDirectory()
    const database = await open(path)
    await database.close()
    writeFileSync(join(path, 'state', 'CURRENT'), 'damaged')
    expect(await faultOf(open(path))).toMatch(/^corrupt: .* is damaged/)
  })
})

describe('a genesis', () => {
  test('of a development chain is stored as flat state, code, trie and one block', () => {
    const database = memoryDatabase()
    importGenesis(database, dev)
    const store = openStore(database)
    const head = { number: 0, hash: dev.genesisHash }
    expect([store.durableHead(), store.persistedHead()]).toEqual([head, head])
    expect([store.oldestState(), store.labelledHeads()]).toEqual([0, { safe: 0, finalized: 0 }])
    expect(store.hashOfNumber(0)).toEqual(dev.genesisHash)
    expect(keccak256(store.header(dev.genesisHash)!)).toEqual(dev.genesisHash)
    expect(store.body(dev.genesisHash)).toEqual({ transactions: [] })
    for (const [address, { balance, nonce = 0n, code, storage = [] }] of dev.alloc!) {
      const account = decodeAccount(known(store.flatAccount(hexToBytes(address)))!)
      expect([account.balance, account.nonce]).toEqual([balance, nonce])
      if (code !== undefined) expect(store.code(account.codeHash)).toEqual(code)
      for (const { key, value } of storage)
        expect(store.flatSlot(concatBytes(hexToBytes(address), key))).toEqual(
          bytesToHex(value) === bytesToHex(ZERO_32) ? undefined : value,
        )
    }
    const trie = openTrie({ database })
    expect(trie.stateRoot(trie.base())).toEqual(dev.genesisHeader.stateRoot)
  })

  test('without its allocation, or with another root, is refused without a write', () => {
    const database = memoryDatabase()
    expect(() => importGenesis(database, chainSpec({ name: 'xlayer' }))).toThrow('give --chain')
    const wrong = { ...dev, genesisHeader: { ...dev.genesisHeader, stateRoot: ZERO_32 } }
    expect(() => importGenesis(database, wrong)).toThrow('the header says 0x0000')
    expect(() => openStore(database).persistedHead()).toThrow('import a genesis first')
  })

  const folder = 'chain-facts/ethtest-chain'
  test.skipIf(isAbsent(folder))('of the ethtest chain has the parent hash of block 1', () => {
    const chain = chainOfGenesis(
      JSON.parse(readFileSync(conformance(`${folder}/genesis.json`), 'utf8')),
    )
    const database = memoryDatabase()
    importGenesis(database, chain)
    const block = readList(readItem(readFileSync(conformance(`${folder}/chain.rlp`)), 0).item)
    const { parentHash } = decodeHeader(encodeRlp(block[0]!))
    expect(bytesToHex(openStore(database).persistedHead().hash)).toBe(bytesToHex(parentHash))
    const trie = openTrie({ database })
    expect(trie.stateRoot(trie.base())).toEqual(chain.genesisHeader.stateRoot)
  })
})

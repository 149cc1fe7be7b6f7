/**
 * Blocks of a file are imported: verified field by field, and resumed where an import ended. The
 * streams of the file are tested too.
 */
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { decodeBlocks, type RlpBlock } from '../../../engine/primitives/block-codec.ts'
import { hashHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { encodeRlp } from '../../../engine/primitives/rlp.ts'
import { rlpItems } from '../../../engine/primitives/rlp-stream.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { ImportError, openImport } from '../../../engine/sources/import.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { createMemoryDatabase } from '../../../engine/storage/database/memory.ts'
import { conformance, isAbsent } from '../../fixtures/blocks.ts'
import { describeEngines } from '../../fixtures/engines.ts'

describeEngines((engine) => {
  const FORKS = 'rpc-compat/tests'
  const MERGED = 'chain-facts/ethtest-chain'
  const blocksOf = (directory: string): RlpBlock[] => [
    ...decodeBlocks(Uint8Array.from(readFileSync(conformance(`${directory}/chain.rlp`)))),
  ]

  function open(directory: string, database = createMemoryDatabase()) {
    const chain = chainSpec({ name: conformance(`${directory}/genesis.json`) })
    importGenesis(database, chain)
    const limits = { undoWindow: 256, historyBlocks: undefined }
    return { database, chain, target: openImport({ database, chain, engine, limits }) }
  }

  describe.skipIf(isAbsent(`${FORKS}/chain.rlp`))(
    'an import of a chain over all forks of Ethereum',
    () => {
      const blocks = isAbsent(`${FORKS}/chain.rlp`) ? [] : blocksOf(FORKS)

      test('has the right roots, with ommers, rewards, withdrawals and requests', async () => {
        const { target, database } = open(FORKS)
        for (const block of blocks) await target.add(block)
        target.finish()
        const store = openStore(database)
        expect(store.durableHead().number).toBe(54)
        expect(store.labelledHeads()).toEqual({ safe: 54, finalized: 54 })
        expect(blocks.some(({ ommers }) => ommers.length > 0)).toBe(true)
        expect(blocks.some(({ withdrawals = [] }) => withdrawals.length > 0)).toBe(true)
      })

      test('resumes where it ended', async () => {
        const { target, database } = open(FORKS)
        for (const block of blocks.slice(0, 20)) await target.add(block)
        const reopened = open(FORKS, database).target
        const known: boolean[] = []
        for (const block of blocks) known.push((await reopened.add(block)).isKnown)
        expect(known).toEqual(blocks.map((_, index) => index < 20))
      })

      test('refuses a block without its parent', async () => {
        const { target } = open(FORKS)
        await target.add(blocks[0]!)
        const expected = bytesToHex(hashHeader(blocks[0]!.header))
        await expect(target.add(blocks[2]!)).rejects.toThrow(
          `expected ${expected}, the hash of block 1`,
        )
      })

      /** Makes a byte string for a changed header field or body. */
      const word = (byte: number, length = 32) => new Uint8Array(length).fill(byte)
      const wrongHeader = (at: number, changes: Partial<RlpBlock['header']>) => {
        const block = blocks[at]!
        return { ...block, header: { ...block.header, ...changes } }
      }
      const withBlobs = 46
      const cases: [name: string, at: number, make: () => RlpBlock, message: string][] = [
        [
          'stateRoot',
          0,
          () => wrongHeader(0, { stateRoot: word(1) }),
          'block 1: stateRoot is 0x01010101',
        ],
        [
          'receiptsRoot',
          5,
          () => wrongHeader(5, { receiptsRoot: word(1) }),
          'block 6: receiptsRoot is',
        ],
        [
          'logsBloom',
          40,
          () => wrongHeader(40, { logsBloom: word(1, 256) }),
          'block 41: logsBloom is',
        ],
        [
          'gasUsed',
          10,
          () => wrongHeader(10, { gasUsed: 5n }),
          'block 11: gasUsed is 5 in the file',
        ],
        [
          'transactionsRoot',
          3,
          () => ({ ...blocks[3]!, transactions: [] }),
          'block 4: transactionsRoot is',
        ],
        [
          'a missing ommer',
          ommerAt(),
          () => ({ ...blocks[ommerAt()]!, ommers: [] }),
          'ommersHash is',
        ],
        [
          'missing withdrawals',
          withdrawalAt(),
          () => ({ ...blocks[withdrawalAt()]!, withdrawals: [] }),
          'withdrawalsRoot is',
        ],
        [
          'requestsHash',
          46,
          () => wrongHeader(46, { requestsHash: word(1) }),
          'block 47: requestsHash is',
        ],
        [
          'fields of Amsterdam',
          46,
          () => wrongHeader(46, { blockAccessListHash: word(1), slotNumber: 1n }),
          'block 47: the header has fields of Amsterdam, a fork that this version does not know',
        ],
        [
          'baseFeePerGas',
          30,
          () => wrongHeader(30, { baseFeePerGas: 7n }),
          'block 31: baseFeePerGas is 7, expected',
        ],
        [
          'excessBlobGas',
          withBlobs,
          () => wrongHeader(withBlobs, { excessBlobGas: 1n }),
          'excessBlobGas is 1, expected',
        ],
        [
          'timestamp',
          8,
          () => wrongHeader(8, { timestamp: 1n }),
          'block 9: timestamp is 1, expected more than',
        ],
        ['gasLimit', 8, () => wrongHeader(8, { gasLimit: 5n }), 'block 9: gasUsed is'],
        ['number', 8, () => wrongHeader(8, { number: 99n }), 'block 99: number is 99, expected 9'],
        [
          'difficulty',
          40,
          () => wrongHeader(40, { difficulty: 1n }),
          'block 41: difficulty is 1, expected 0',
        ],
        [
          'an invalid transaction',
          3,
          () => ({ ...blocks[3]!, transactions: [word(5, 3)] }),
          'block 4: transaction 0: ',
        ],
        [
          'the same transaction twice',
          3,
          () => ({
            ...blocks[3]!,
            transactions: [...blocks[3]!.transactions, blocks[3]!.transactions[0]!],
          }),
          'nonce too low',
        ],
      ]
      function ommerAt(): number {
        return blocks.findIndex(({ ommers }) => ommers.length > 0)
      }
      function withdrawalAt(): number {
        return blocks.findIndex(({ withdrawals = [] }) => withdrawals.length > 0)
      }
      test.each(cases)('refuses a wrong block: %s', async (_, at, make, message) => {
        const { target, database } = open(FORKS)
        for (const block of blocks.slice(0, at)) await target.add(block)
        const adding = target.add(make())
        await expect(adding).rejects.toThrow(ImportError)
        await expect(adding).rejects.toThrow(message)
        // Everything before the wrong block stays, and the right block is still accepted.
        expect(openStore(database).durableHead().number).toBe(at)
        await target.add(blocks[at]!)
      })
    },
  )

  test.skipIf(isAbsent(`${MERGED}/chain.rlp`))(
    '600 blocks after the merge are imported',
    async () => {
      const { target, database } = open(MERGED)
      for (const block of blocksOf(MERGED)) await target.add(block)
      expect(openStore(database).durableHead().number).toBe(600)
    },
    60_000,
  )

  describe('the RLP items of a stream', () => {
    const cut = (bytes: Uint8Array, sizes: readonly number[]) => {
      const chunks: Buffer[] = []
      let at = 0
      for (let next = 0; at < bytes.length; next++) {
        const size = sizes[next % sizes.length]!
        chunks.push(Buffer.from(bytes.slice(at, at + size)))
        at += size
      }
      return Readable.from(chunks)
    }
    const all = async (stream: Readable, max = 10_000) => {
      const items: Uint8Array[] = []
      for await (const item of rlpItems(stream, max)) items.push(item)
      return items
    }
    test('are read completely, wherever the chunks end', async () => {
      const item = fc.oneof(
        fc.uint8Array({ maxLength: 3 }),
        fc.uint8Array({ maxLength: 300 }),
        fc.array(fc.uint8Array({ maxLength: 70 })),
      )
      const sizes = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 5 })
      await fc.assert(
        fc.asyncProperty(fc.array(item, { maxLength: 8 }), sizes, async (items, lengths) => {
          const encoded = items.map((one) => encodeRlp(one))
          expect(await all(cut(concatBytes(...encoded), lengths))).toEqual(encoded)
        }),
      )
    })
    test('are refused if they are too long or cut off', async () => {
      const long = encodeRlp(new Uint8Array(100))
      await expect(all(cut(long, [7]), 50)).rejects.toThrow(
        'an item of 102 bytes, at most 50 expected',
      )
      await expect(all(cut(long.slice(0, 60), [7]))).rejects.toThrow(
        'ends within an item, after 60 bytes',
      )
      await expect(all(cut(Uint8Array.of(0xf9), [7]))).rejects.toThrow(
        'ends within an item, after 1 bytes',
      )
    })
  })
})

/**
 * Proofs come from the stored trie while blocks are appended and persisted. Another implementation
 * verifies each, or the proof demands a restart.
 */
import { verifyMerkleProof } from '@ethereumjs/mpt'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { EMPTY_ROOT, keccak256 } from '../../../../engine/primitives/keccak.ts'
import {
  decodeRlp,
  readBytes,
  readFixed,
  readList,
  readUint,
} from '../../../../engine/primitives/rlp.ts'
import { bytesToBigint, equalBytes } from '../../../../engine/primitives/words.ts'
import { latin1 } from '../../../../engine/state/words.ts'
import { ProofError, ProofRaceError } from '../../../../engine/storage/blocks/proof.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { type Action, ADDRESSES, action, SLOTS } from '../../../fixtures/chain-model.ts'
import { Bench, UNDO_WINDOW } from '../../../fixtures/persistence-bench.ts'
import type { ModelBlock } from '../../../fixtures/persistence-chain.ts'

const LIMITS = { blocks: UNDO_WINDOW - 1, bytes: 1_000_000 }

/** Gives the leaf that a proof proves, or that it is absent. An empty trie has no node to show. */
async function proven(root: Bytes, key: Bytes, proof: readonly Bytes[]): Promise<Bytes | null> {
  if (proof.length === 0) {
    expect(root).toEqual(EMPTY_ROOT)
    return null
  }
  expect(keccak256(proof[0]!)).toEqual(root)
  return verifyMerkleProof(keccak256(key), [...proof])
}

async function verify(bench: Bench, block: ModelBlock, address: Bytes): Promise<void> {
  const { hash } = block
  const proof = openStore(bench.database).trieAt(hash, LIMITS).prove(address, SLOTS)
  const expected = block.world.get(latin1(address))
  const leaf = await proven(block.stateRoot, address, proof.accountProof)
  expect(leaf === null).toBe(expected === undefined)
  expect(proof.account ?? null).toEqual(leaf)
  if (leaf === null || expected === undefined) return
  const [nonce, balance, storageRoot] = readList(decodeRlp(leaf))
  expect(readUint(nonce!, 8)).toBe(expected.account.nonce)
  expect(readUint(balance!, 32)).toBe(expected.account.balance)
  for (const [index, slot] of SLOTS.entries()) {
    const value = await proven(readFixed(storageRoot!, 32), slot, proof.storageProofs[index]!)
    const wanted = expected.slots.get(latin1(slot))
    expect(value === null ? 0n : bytesToBigint(readBytes(decodeRlp(value)))).toBe(
      wanted === undefined ? 0n : bytesToBigint(wanted),
    )
  }
}

const appended: fc.Arbitrary<Action[]> = fc.array(action, { maxLength: 5 })

test('proofs of any block in the window are valid at any time of a persist pass', async () => {
  const seen = { proofs: 0, races: 0 }
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(appended, fc.integer({ min: 0, max: 6 })), { minLength: 4, maxLength: 14 }),
      fc.nat(),
      async (steps, salt) => {
        const bench = new Bench()
        for (const [actions, slices] of steps) {
          bench.append([actions], false)
          for (let slice = 0; slice <= slices; slice++) {
            bench.step()
            const at = (salt + seen.proofs) % bench.chain.length
            const block = bench.chain[at]!
            if (block.number < bench.persisted - LIMITS.blocks) continue
            try {
              await verify(bench, block, ADDRESSES[(salt + at) % ADDRESSES.length]!)
              seen.proofs++
            } catch (error) {
              if (!(error instanceof ProofRaceError)) throw error
              seen.races++
            }
          }
        }
        bench.settle()
        for (const block of bench.chain.slice(-LIMITS.blocks))
          for (const address of ADDRESSES.slice(0, 3)) await verify(bench, block, address)
      },
    ),
    { numRuns: 40 },
  )
  expect(seen.proofs).toBeGreaterThan(seen.races)
})

test('proofs that are too large, and those of an old or unknown block, are refused', () => {
  const bench = new Bench()
  for (let at = 0; at < 12; at++)
    bench.append(
      [[{ address: at % 5, isDeleted: false, nonce: 1, slots: [[0, (at % 2) + 1]] }]],
      false,
    )
  bench.settle()
  const store = openStore(bench.database)
  const request = (block: ModelBlock, limits = LIMITS) =>
    store.trieAt(block.hash, limits).prove(ADDRESSES[0]!, [])
  const { persisted } = bench
  expect(() => request(bench.at(persisted - LIMITS.blocks - 1))).toThrow(
    `proofs are kept for the newest ${LIMITS.blocks} blocks: the oldest is block ${persisted - LIMITS.blocks}`,
  )
  expect(() => request(bench.at(persisted - 3), { ...LIMITS, bytes: 10 })).toThrow(ProofError)
  expect(() => request(bench.at(persisted - UNDO_WINDOW - 2), { ...LIMITS, blocks: 100 })).toThrow(
    'is not kept any more',
  )
  expect(() => store.trieAt(new Uint8Array(32), LIMITS)).toThrow('block not found')
  expect(equalBytes(keccak256(request(bench.head).accountProof[0]!), bench.head.stateRoot)).toBe(
    true,
  )
})

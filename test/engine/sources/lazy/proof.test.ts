/** Proofs of our own trie prove the right values; a changed proof proves nothing. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { EMPTY_ROOT } from '../../../../engine/primitives/keccak.ts'
import { decodeRlp, encodeRlp, type RlpItem, readList } from '../../../../engine/primitives/rlp.ts'
import { bigintToBytes, equalBytes } from '../../../../engine/primitives/words.ts'
import { ProofFault, readProof } from '../../../../engine/sources/lazy/proof.ts'
import { encodeAccount } from '../../../../engine/state/account-codec.ts'
import { latin1 } from '../../../../engine/state/words.ts'
import { ADDRESSES, act, action, SLOTS, type World } from '../../../fixtures/chain-model.ts'
import { type ProofJson, proverOf } from '../../../fixtures/proofs.ts'

const worlds = fc.array(action, { maxLength: 14 }).map((actions) => act(new Map(), actions).world)

/**
 * Their hashes have ten nibbles in common. Leaves below them are shorter than 32 bytes and are part
 * of their parent.
 */
const TWINS = [247_476n, 515_151n].map((at) => bigintToBytes(at, 32))
/** One account has slots with small values. */
const small: World = new Map([
  [
    latin1(ADDRESSES[0]!),
    {
      account: { nonce: 1n, balance: 2n, codeHash: new Uint8Array(32).fill(3) },
      slots: new Map([...TWINS, ...SLOTS].map((key) => [latin1(key), bigintToBytes(1n, 32)])),
    },
  ],
])

test('a proof shows every account and slot of any state, and every absence', () => {
  const seen = { absent: 0, present: 0, zero: 0, set: 0 }
  fc.assert(
    fc.property(worlds, (world) => {
      const { stateRoot, prove } = proverOf(world)
      for (const address of ADDRESSES) {
        const requested = { stateRoot, address, keys: SLOTS }
        const found = readProof(prove(address, SLOTS), requested)
        const expected = world.get(latin1(address))
        expect(found.account).toEqual(expected && encodeAccount(expected.account))
        expect(equalBytes(found.storageRoot, EMPTY_ROOT)).toBe((expected?.slots.size ?? 0) === 0)
        expect(found.slots).toEqual(SLOTS.map((key) => expected?.slots.get(latin1(key))))
        seen[expected === undefined ? 'absent' : 'present']++
        for (const slot of found.slots) seen[slot === undefined ? 'zero' : 'set']++
      }
    }),
    { numRuns: 60 },
  )
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(20)
})

const nodesIn = (proof: ProofJson): string[][] => [
  [...proof.accountProof],
  ...proof.storageProof.map(({ proof }) => [...proof]),
]
/** Replaces the nodes of a proof. */
const withNodes = (proof: ProofJson, [account, ...storage]: readonly string[][]) => ({
  ...proof,
  accountProof: account,
  storageProof: proof.storageProof.map((one, at) => ({ ...one, proof: storage[at] })),
})

describe('a changed proof', () => {
  const { world } = act(
    new Map(),
    [0, 1, 2, 3, 4].map((address) => ({
      address,
      isDeleted: false,
      nonce: 1,
      slots: [0, 2, 3].map((slot) => [slot, 2] as const),
    })),
  )
  const cases: [string, World, readonly Uint8Array[]][] = [
    ['long nodes', world, SLOTS.slice(0, 3)],
    ['nodes within nodes', small, [...TWINS, SLOTS[0]!]],
  ]

  test.each(cases)('proves nothing after a flipped bit in any byte: %s', (_, of, keys) => {
    const { stateRoot, prove } = proverOf(of)
    const address = ADDRESSES[0]!
    const proof = prove(address, keys)
    const lists = nodesIn(proof)
    readProof(proof, { stateRoot, address, keys })
    let tried = 0
    for (const [list, nodes] of lists.entries())
      for (const [at, node] of nodes.entries())
        for (let byte = 2; byte < node.length; byte += 2) {
          const was = Number.parseInt(node.slice(byte, byte + 2), 16)
          const is = (was ^ (1 << (tried % 8))).toString(16).padStart(2, '0')
          const changed = `${node.slice(0, byte)}${is}${node.slice(byte + 2)}`
          const mutant = lists.with(list, nodes.with(at, changed))
          expect(() => readProof(withNodes(proof, mutant), { stateRoot, address, keys })).toThrow(
            ProofFault,
          )
          tried++
        }
    expect(tried).toBeGreaterThan(500)
  })

  test.each(cases)('proves nothing after a change of its list of nodes: %s', (_, of, keys) => {
    const { stateRoot, prove } = proverOf(of)
    const address = ADDRESSES[0]!
    const proof = prove(address, keys)
    const lists = nodesIn(proof)
    for (const [list, nodes] of lists.entries()) {
      const other = lists[(list + 1) % lists.length]!
      const mutants = [
        nodes.slice(1),
        nodes.slice(0, -1),
        [...nodes, nodes.at(-1)!],
        [...nodes, '0x80'],
        [...nodes].reverse(),
        other,
        [],
      ]
      for (const mutant of mutants) {
        if (JSON.stringify(mutant) === JSON.stringify(nodes)) continue
        const changed = withNodes(proof, lists.with(list, mutant))
        expect(() => readProof(changed, { stateRoot, address, keys })).toThrow(ProofFault)
      }
    }
  })

  test('proves nothing about another account, key or root', () => {
    const { stateRoot, prove } = proverOf(world)
    const proof = prove(ADDRESSES[0]!, SLOTS.slice(0, 1))
    const requested = { stateRoot, address: ADDRESSES[0]!, keys: SLOTS.slice(0, 1) }
    for (const change of [
      { address: ADDRESSES[1]! },
      { keys: [SLOTS[2]!] },
      { keys: SLOTS.slice(0, 2) },
      { keys: [] },
      { stateRoot: EMPTY_ROOT },
    ])
      expect(() => readProof(proof, { ...requested, ...change })).toThrow(ProofFault)
  })
})

test('a node that is embedded in its parent may also be listed by itself', () => {
  const { stateRoot, prove } = proverOf(small)
  const address = ADDRESSES[0]!
  const keys = [TWINS[0]!]
  const proof = prove(address, keys)
  const [account, storage] = nodesIn(proof)
  const last = readList(decodeRlp(hexToBytes(storage!.at(-1)!)))
  const inner = last.filter((item): item is readonly RlpItem[] => !(item instanceof Uint8Array))
  expect(inner.length).toBeGreaterThan(0)
  const longer = inner.map((item) =>
    withNodes(proof, [account!, [...storage!, bytesToHex(encodeRlp(item))]]),
  )
  const taken = longer.filter((one) => {
    try {
      return readProof(one, { stateRoot, address, keys }).slots[0]?.[31] === 1
    } catch {
      return false
    }
  })
  // Only the node on the path was read.
  expect(taken).toHaveLength(1)
})

test('an empty trie is proven by an empty list or by its empty node', () => {
  const { stateRoot, prove } = proverOf(new Map())
  const requested = { stateRoot, address: ADDRESSES[0]!, keys: SLOTS.slice(0, 1) }
  const none = { account: undefined, storageRoot: EMPTY_ROOT, slots: [undefined] }
  const proof = prove(requested.address, requested.keys)
  expect(readProof(proof, requested)).toEqual(none)
  expect(readProof({ ...proof, accountProof: ['0x80'] }, requested)).toEqual(none)
})

describe('an invalid proof is refused:', () => {
  const { stateRoot, prove } = proverOf(small)
  const requested = { stateRoot, address: ADDRESSES[0]!, keys: [TWINS[0]!] }
  const proof = prove(requested.address, requested.keys)
  const cases: [unknown, RegExp][] = [
    [null, /^eth_getProof: expected an object, got null/],
    [[], /^eth_getProof: expected an object/],
    ['0x', /^eth_getProof/],
    [{ ...proof, accountProof: undefined }, /^accountProof: expected an array, got nothing/],
    [{ ...proof, accountProof: [1] }, /^accountProof\[0\]: expected 0x and whole bytes, got 1/],
    [{ ...proof, accountProof: ['0xabc'] }, /^accountProof\[0\]: expected 0x and whole bytes/],
    [{ ...proof, accountProof: Array(200).fill('0x80') }, /^accountProof: expected at most 129/],
    [{ ...proof, storageProof: {} }, /^storageProof: expected an array/],
    [{ ...proof, storageProof: [null] }, /^storageProof\[0\].proof: expected an array/],
    [{ ...proof, storageProof: [{ proof: 'x' }] }, /^storageProof\[0\].proof: expected an array/],
    [{ ...proof, storageProof: [] }, /^storageProof: 1 of them expected, got 0/],
  ]
  test.each(cases)('%j', (json, message) => {
    expect(() => readProof(json, requested)).toThrow(message)
    expect(() => readProof(json, requested)).toThrow(ProofFault)
  })

  // Under its own root any list of nodes has right hashes, so only the form shows an invalid node.
  test('random bytes as nodes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 80 }), { maxLength: 4 }), (nodes) => {
        const json = { ...proof, accountProof: nodes.map(bytesToHex) }
        expect(() => readProof(json, requested)).toThrow(ProofFault)
      }),
    )
  })
})

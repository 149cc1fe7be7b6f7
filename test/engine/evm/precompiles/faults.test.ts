/**
 * A precompiled contract that fails gives go-ethereum's reason, in the outcome and in the trace.
 */
import { describe, expect, test } from 'vitest'
import { makeReferenceEngine } from '../../../../engine/evm/reference/reference.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { bigintToBytes, concatBytes } from '../../../../engine/primitives/words.ts'
import { claimOf, trueClaim } from '../../../fixtures/noble/claims.ts'
import { POINTS } from '../../../fixtures/noble/points.ts'
import { address, BLOCK, message, world } from '../../../fixtures/world.ts'

const word = (n: bigint) => bigintToBytes(n, 32)
const bnModulus = 0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47n
const blake = new Uint8Array(213).fill(2)
blake.fill(0, 0, 4)
const claim = trueClaim(3n, 4n, 5n)
const [z, y, commitment, proof] = [32, 64, 96, 144].map((from, part) =>
  claim.slice(from, [64, 96, 144, 192][part]),
)
const kzg = 'error verifying kzg proof: '
const long = concatBytes(word(1025n), word(0n), word(1n), new Uint8Array(1100))

const CASES: readonly [contract: number, words: string, input: Uint8Array][] = [
  [5, 'one or more of base/exponent/modulus length exceeded 1024 bytes', long],
  [6, 'point is not on curve', concatBytes(word(1n), word(1n))],
  [6, 'invalid fp.Element encoding', concatBytes(word(bnModulus), word(2n))],
  [7, 'point is not on curve', concatBytes(word(1n), word(1n))],
  [8, 'bad elliptic curve pairing size', new Uint8Array(191)],
  [8, 'point is not on curve', new Uint8Array(192).fill(1, 191)],
  [
    8,
    'point is not in correct subgroup',
    concatBytes(POINTS.bnG1.of(1n), POINTS.bnG2.strange()[0]!),
  ],
  [9, 'invalid input length', new Uint8Array(212)],
  [9, 'invalid final flag', blake],
  [10, 'invalid input length', claim.subarray(1)],
  [10, 'mismatched versioned hash', concatBytes(new Uint8Array(32), claim.subarray(32))],
  [10, `${kzg}can't verify opening proof`, claimOf([z!, word(1n), commitment!, proof!])],
  [10, `${kzg}invalid point encoding`, claimOf([z!, y!, commitment!.fill(0xff), proof!])],
  [11, 'invalid input length', new Uint8Array(255)],
  [11, 'invalid field element top bytes', new Uint8Array(256).fill(1)],
  [12, 'g1 point is not on correct subgroup', concatBytes(POINTS.blsG1.strange()[0]!, word(1n))],
  [14, 'g2 point is not on correct subgroup', concatBytes(POINTS.blsG2.strange()[0]!, word(1n))],
  [15, 'invalid input length', new Uint8Array(0)],
]

describe.each(CASES)('precompiled contract %i that fails with "%s"', (contract, words, input) => {
  const engine = makeReferenceEngine()
  const GAS = 1_000_000n

  test('halts a transaction with this reason, which is also in the trace', async () => {
    const session = engine.openSession(world({}), BLOCK, RULES)
    const exits: unknown[] = []
    session.setTrace({
      exit: (error, used, output) => exits.push([error, used, bytesToHex(output)]),
    })
    session.startTransaction()
    const outcome = await session.run(
      message({ to: bigintToBytes(BigInt(contract), 20), input, gas: GAS }),
    )
    expect(outcome).toEqual({ status: 'halt', reason: words })
    expect(exits).toEqual([[words, GAS, '0x']])
  })

  test('fails the call of a contract, which continues', async () => {
    // The calldata goes to memory, then a call with 100,000 gas; the code returns whether the call
    // succeeded.
    const code = `36 5f 5f 37 5f 5f 36 5f 5f 60${contract.toString(16).padStart(2, '0')} 620186a0 f1 5f 52 6020 5f f3`
    const session = engine.openSession(world({ 300: { code } }), BLOCK, RULES)
    const exits: unknown[] = []
    session.setTrace({ exit: (error, used) => exits.push([error, used]) })
    session.startTransaction()
    const outcome = await session.run(message({ to: address(300), input, gas: GAS }))
    expect(outcome).toMatchObject({ status: 'success', output: word(0n) })
    expect(exits[0]).toEqual([words, 100_000n])
  })
})

const RULES = { spec: 'osaka', chainId: 1n, precompiles: undefined } as const

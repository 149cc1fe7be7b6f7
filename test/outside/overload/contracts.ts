/** These contracts cost more than others; the development chain has them from its genesis on. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Hex } from 'viem'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { CURVES } from '../../fixtures/curve-inputs.ts'
import { trueClaim } from '../../fixtures/noble/claims.ts'

type Contract = { readonly address: Hex; readonly code: Hex }
const contract = (number: number, code: string): Contract => ({
  address: `0x${number.toString(16).padStart(40, '0')}`,
  code: `0x${code.replaceAll(/\s/g, '')}`,
})

/**
 * `JUMPDEST PUSH0 JUMP` loops until its gas is used up, 11 of it each round, a thousand million a
 * second.
 */
export const ENDLESS = contract(0xe1, '5b 5f 56')
/**
 * `PUSH0 CALLDATALOAD PUSH1 1 ADD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN` gives its input word plus
 * one.
 */
export const INCREMENT = contract(0xe2, '5f 35 6001 01 5f 52 6020 5f f3')
/**
 * `PUSH0 JUMPDEST PUSH1 1 ADD DUP1 DUP1 TSTORE PUSH1 1 JUMP` takes a transient slot for every 120
 * gas until the end.
 */
export const HOARD = contract(0xe3, '5f 5b 6001 01 80 80 5d 6001 56')
/** `PUSH0 PUSH3 MSTORE8`, then a call of itself with all gas: 256 KB of memory in every frame. */
export const DEEP = contract(0xe4, '5f 6203ffff 53 5f 5f 5f 5f 5f 30 5a f1 00')
/**
 * `JUMPDEST PUSH2 256 PUSH0 LOG0 PUSH2 4096 GAS GT PUSH0 JUMPI STOP` emits a log of 256 bytes for
 * every 2,450 gas.
 */
export const SMALL_LOGS = contract(0xe5, '5b 610100 5f a0 611000 5a 11 5f 57 00')
/**
 * The calldata gives the number of rounds. Each emits LOG0 to LOG4 of 8 KB, which start with the
 * number of rounds left; that number is also each topic.
 */
export const LARGE_LOGS = contract(
  0xe6,
  `5f 35 5b 80 5f 52 612000 5f a0 80 612000 5f a1 80 80 612000 5f a2 80 80 80 612000 5f a3
   80 80 80 80 612000 5f a4 6001 90 03 80 6002 57`,
)
/**
 * The contract copies its input pair of points 408 times, the maximum of a BLS12-381 pairing (13.3
 * M gas). It repeats that pairing again and again. The result is discarded, because over the first
 * pair it would make the next pairing fail at once.
 */
export const PAIRINGS = contract(
  0xe7,
  '5f 5b 610180 5f 82 37 610180 01 62026400 81 10 6001 57 5b 5f 5f 62026400 5f 600f 5a fa 50 6015 56',
)
/** The contract sums its two input points of G2 again and again: 700 gas that take milliseconds. */
export const ADDITIONS = contract(
  0xe8,
  '610200 5f 5f 37 5b 610100 5f 610200 5f 600d 5a fa 50 6006 56',
)
/**
 * The contract runs MODEXP of 16 bytes with an exponent of 32, again and again. No other operation
 * takes longer for its gas: a second for ten million (bench/README.md). The input does not matter.
 */
export const POWERS = contract(
  0xe9,
  '6010 5f 52 6020 6020 52 6010 6040 52 5f19 6060 52 600219 6080 52 5b 5f 5f 60a0 5f 6005 5a fa 50 6019 56',
)
/**
 * The contract checks its input claim about a polynomial again and again: 50,000 gas that take 5
 * ms.
 */
export const EVALUATIONS = contract(0xea, '60c0 5f 5f 37 5b 5f 5f 60c0 5f 600a 5a fa 50 6005 56')
const pointOfG2 = (scalar: bigint) => CURVES.sumG2([[scalar, 1n]]).subarray(0, 256)
/** The inputs of these contracts. */
export const PAIR = bytesToHex(CURVES.blsPairs([[3n, 5n]]))
export const POINTS = bytesToHex(concatBytes(pointOfG2(3n), pointOfG2(5n)))
export const CLAIM = bytesToHex(trueClaim(3n, 4n, 5n))
const ALL = [
  ...[ENDLESS, INCREMENT, HOARD, DEEP, SMALL_LOGS, LARGE_LOGS],
  ...[PAIRINGS, ADDITIONS, POWERS, EVALUATIONS],
]

/** Writes the file for `--genesis-alloc`, and gives the flag. */
export function allocFlags(directory: string): readonly string[] {
  const path = join(directory, 'alloc.json')
  const alloc = ALL.map(({ address, code }) => [address, { balance: '0x0', code }] as const)
  writeFileSync(path, JSON.stringify(Object.fromEntries(alloc)))
  return ['--genesis-alloc', path]
}

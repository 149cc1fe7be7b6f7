/**
 * Each of these programs tries to occupy a thread: it would run for long, or cost much at once. Its
 * deadline must stop it.
 */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { CURVES } from '../../fixtures/curve-inputs.ts'
import { assemble, endless } from '../../kit/assemble.ts'

export type HostileProgram = {
  readonly name: string
  readonly code: Bytes
  readonly input?: Bytes
  /** The reference engine runs the program in one long step. */
  readonly isLongStep?: true
}

const SELF = 'ADDRESS'
const call = (to: string, kind = 'CALL', memory = '0 0 0 0') =>
  `${memory} ${kind === 'CALL' || kind === 'CALLCODE' ? '0 ' : ''}${to} GAS ${kind} POP`
const MB = 1_048_576

const filled = (length: number, byte: number): Bytes => new Uint8Array(length).fill(byte)
const plain = (name: string, code: Bytes): HostileProgram => ({ name, code })
const long = (name: string, code: Bytes): HostileProgram => ({ name, code, isLongStep: true })

const LOOPS: readonly HostileProgram[] = [
  plain('an empty loop', endless('')),
  plain('a loop of GAS', endless('GAS POP')),
  plain('24 kB of JUMPDEST, repeated', concatBytes(filled(24_560, 0x5b), assemble('0 JUMP'))),
  plain('24 kB of PUSH32, again and again', pushes()),
  plain('stack to its bound, then off', endless('PUSH0 '.repeat(1_000) + 'POP '.repeat(1_000))),
  plain('DUP16 and SWAP16', endless('DUP16 SWAP16 POP', 'PUSH0 '.repeat(17))),
  plain('EXP by 32 bytes', endless(`0x${'ff'.repeat(32)} 3 EXP POP`)),
  plain(
    'MULMOD',
    endless(`0x${'fd'.repeat(32)} 0x${'fb'.repeat(32)} 0x${'f7'.repeat(32)} MULMOD POP`),
  ),
  plain(
    'ADDMOD',
    endless(`0x${'01'.repeat(17)} 0x${'fb'.repeat(32)} 0x${'f7'.repeat(32)} ADDMOD POP`),
  ),
  plain('SDIV and SMOD', endless(`0x${'01'.repeat(17)} 0x${'fb'.repeat(32)} SDIV 7 SMOD POP`)),
  plain('BLOCKHASH', endless('99 BLOCKHASH POP')),
]

const MEMORY: readonly HostileProgram[] = [
  plain('memory, a word more each time', endless('1 MSIZE MSTORE')),
  plain('memory of 20 MB, then a loop', endless('', `1 ${20 * MB} MSTORE`)),
  plain('MCOPY of 1 MB', endless(`${MB} 0 1 MCOPY`)),
  long('CALLDATACOPY of 1 MB', endless(`${MB} 0 0 CALLDATACOPY`)),
  long('CODECOPY of 1 MB', endless(`${MB} 0 0 CODECOPY`)),
  long('EXTCODECOPY of 1 MB', endless(`${MB} 0 0 ADDRESS EXTCODECOPY`)),
  plain(
    'RETURNDATACOPY of 1 MB',
    endless(`${MB} 0 0 RETURNDATACOPY`, `0 0 ${MB} 0 4 GAS STATICCALL POP`),
  ),
  long('KECCAK256 of 1 MB', endless(`${MB} 0 KECCAK256 POP`)),
  plain('KECCAK256 of 64 bytes', endless('64 0 KECCAK256 0 MSTORE')),
  plain('LOG4 of 10 kB', endless('1 2 3 4 10000 0 LOG4')),
]

const STATE: readonly HostileProgram[] = [
  plain('SSTORE of new slots', endless('GAS GAS SSTORE')),
  plain('SSTORE of one slot', endless('GAS 0 SSTORE')),
  plain('SLOAD of new slots', endless('GAS SLOAD POP')),
  plain('TSTORE of new slots', endless('GAS GAS TSTORE')),
  plain('BALANCE of new accounts', endless('GAS BALANCE POP')),
  plain('EXTCODEHASH of new accounts', endless('GAS EXTCODEHASH POP')),
]

const CALLS: readonly HostileProgram[] = [
  plain('recursive calls to the maximum depth, repeated', endless(call(SELF))),
  plain('the same with memory in each frame', endless(call(SELF), '1 8192 MSTORE')),
  plain('the same by DELEGATECALL', endless(call(SELF, 'DELEGATECALL'))),
  plain('recursive STATICCALL with 1 kB of input', endless(call(SELF, 'STATICCALL', '0 0 1024 0'))),
  plain('a call of nobody', endless(call('0xaaaaaaaaaaaaaaaaaaaa'))),
  plain('calls of new accounts', endless(call('GAS'))),
  plain('CALLCODE of itself without gas', endless(`0 0 0 0 0 ${SELF} 0 CALLCODE POP`)),
  plain('1 MB of return data, reverted', returning()),
]

const CREATIONS: readonly HostileProgram[] = [
  plain('CREATE of nothing', endless('0 0 0 CREATE POP')),
  plain('CREATE of 49 kB of JUMPDEST', endless('49152 0 0 CREATE POP', memoryOf(0x5b, 49_152))),
  plain(
    'CREATE of contracts of 24 kB',
    endless('5 0 0 CREATE POP', `0x6160005ff3${'00'.repeat(27)} 0 MSTORE`),
  ),
  plain('init code that creates itself', endless('CODESIZE 0 0 CODECOPY CODESIZE 0 0 CREATE POP')),
  plain('CREATE2 with another salt each time', endless('GAS 0 0 0 CREATE2 POP')),
  plain(
    'contracts that destroy themselves',
    endless('2 0 0 CREATE POP', `0x33ff${'00'.repeat(30)} 0 MSTORE`),
  ),
]

/** Writes one byte of memory and doubles it until the size is reached. */
function memoryOf(byte: number, size: number): string {
  const lines = [`${byte} 0 MSTORE8`]
  for (let have = 1; have < size; have *= 2) lines.push(`${have} 0 ${have} MCOPY`)
  return lines.join(' ')
}

function pushes(): Bytes {
  const one = concatBytes(Uint8Array.of(0x7f), filled(32, 0x5b), Uint8Array.of(0x50))
  return concatBytes(
    Uint8Array.of(0x5b),
    ...Array.from({ length: 700 }, () => one),
    assemble('0 JUMP'),
  )
}

/**
 * Makes a program that calls itself with input for ever when it has no input. With input it reverts
 * with a megabyte.
 */
function returning(): Bytes {
  const repeated = assemble(`0 0 1 0 0 ${SELF} GAS CALL POP`)
  const head = assemble('CALLDATASIZE 0xffff JUMPI JUMPDEST')
  const target = head.length + repeated.length + 3
  const jump = assemble(`${head.length - 1} JUMP`)
  const patched = Uint8Array.from(head)
  patched.set([target >> 8, target & 0xff], 2)
  return concatBytes(patched, repeated, jump, assemble(`JUMPDEST ${MB} 0 REVERT`))
}

/** Makes a program that passes its calldata to the contract again and again. */
const precompile = (name: string, address: number, input: Bytes): HostileProgram => ({
  name,
  code: endless(
    `0 0 CALLDATASIZE 0 ${address} GAS STATICCALL POP`,
    'CALLDATASIZE 0 0 CALLDATACOPY',
  ),
  input,
  isLongStep: true,
})

const many = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one)

export function hostilePrograms(): readonly HostileProgram[] {
  const modulus = concatBytes(...[256, 256, 256].map((n) => word(BigInt(n))), filled(768, 0xfd))
  const rounds = concatBytes(Uint8Array.of(0, 0x98, 0x96, 0x80), filled(208, 1), Uint8Array.of(1))
  return [
    ...[...LOOPS, ...MEMORY, ...STATE, ...CALLS, ...CREATIONS],
    precompile('ecrecover', 1, filled(128, 1)),
    precompile('sha256 of 1 MB', 2, filled(MB, 1)),
    precompile('ripemd160 of 1 MB', 3, filled(MB, 1)),
    precompile('identity of 1 MB', 4, filled(MB, 1)),
    precompile('modexp of 256 bytes', 5, modulus),
    precompile('bn254 pairing of 30 pairs', 8, CURVES.bnPairs(many(30, [2n, 3n] as const))),
    precompile('blake2f of 10 million rounds', 9, rounds),
    precompile('BLS12-381 sum of 60 points', 12, CURVES.sumG1(many(60, [3n, 5n] as const))),
    precompile('BLS12-381 pairing of 10 pairs', 15, CURVES.blsPairs(many(10, [2n, 3n] as const))),
    precompile('BLS12-381 map to G2', 17, filled(128, 0).fill(5, 20, 40)),
  ]
}
const word = (value: bigint): Bytes => Buffer.from(value.toString(16).padStart(64, '0'), 'hex')

/** Contracts that take more than others: what the development chain has from its genesis on under load. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Hex } from 'viem'

type Contract = { readonly address: Hex; readonly code: Hex }
const contract = (number: number, code: string): Contract => ({
  address: `0x${number.toString(16).padStart(40, '0')}`,
  code: `0x${code.replaceAll(' ', '')}`,
})

/** JUMPDEST PUSH0 JUMP: as long as its gas, 11 of it each round. */
export const ENDLESS = contract(0xe1, '5b 5f 56')
/** PUSH0 CALLDATALOAD PUSH1 1 ADD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN: the word it is given, plus one. */
export const INCREMENT = contract(0xe2, '5f 35 6001 01 5f 52 6020 5f f3')
/** PUSH0 JUMPDEST PUSH1 1 ADD DUP1 DUP1 TSTORE PUSH1 1 JUMP: a transient slot for every 120 gas, kept until the end. */
export const HOARD = contract(0xe3, '5f 5b 6001 01 80 80 5d 6001 56')
/** PUSH0 PUSH3 MSTORE8, then itself again with all gas: 256 KB of memory in every frame. */
export const DEEP = contract(0xe4, '5f 6203ffff 53 5f 5f 5f 5f 5f 30 5a f1 00')
/** JUMPDEST PUSH2 256 PUSH0 LOG0 PUSH2 4096 GAS GT PUSH0 JUMPI STOP: a log of 256 bytes for every 2,450 gas. */
export const SMALL_LOGS = contract(0xe5, '5b 610100 5f a0 611000 5a 11 5f 57 00')
const ALL = [ENDLESS, INCREMENT, HOARD, DEEP, SMALL_LOGS]

/** Writes the file for `--genesis-alloc`; gives the flag. */
export function allocFlags(directory: string): readonly string[] {
  const path = join(directory, 'alloc.json')
  const alloc = ALL.map(({ address, code }) => [address, { balance: '0x0', code }] as const)
  writeFileSync(path, JSON.stringify(Object.fromEntries(alloc)))
  return ['--genesis-alloc', path]
}

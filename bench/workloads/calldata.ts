/** Calldata for the workloads' contracts. */
import { encodeFunctionData, parseAbi } from 'viem'
import type { Hex } from '../../engine/primitives/bytes.ts'
import { FIRST_HOLDER, holder, QUOTER, ROUTER, TOKENS } from './world.ts'

const abi = parseAbi([
  'function balanceOf(address) view returns (uint256)',
  'function transfer(address, uint256) returns (bool)',
  'function quote(uint256, address[]) view returns (uint256[])',
  'function best(address, uint256, address[][]) view returns (uint256, uint256)',
  'function swap(uint256, address[], address) returns (uint256[])',
  'function fill(address, uint256, uint256, uint256)',
  'function checkedLoop(uint256) pure returns (uint256)',
  'function hashLoop(uint256) pure returns (bytes32)',
  'struct Call { address target; bool allowFailure; bytes callData; }',
  'function aggregate3(Call[] calls) payable returns ((bool, bytes)[])',
])
const pairAbi = parseAbi(['function swap(uint256, uint256, address)'])
const rangesAbi = parseAbi(['function quote(uint256, uint256) view returns (uint256, uint160)'])

/** A call as eth_call takes it, without its sender. */
export type Call = { readonly to: Hex; readonly data: Hex }

/** Written without a codec, because benchmarks make this calldata while they measure. */
export const balanceOf = (n: number): Hex => `0x70a08231${holder(n).slice(2).padStart(64, '0')}`
export const transfer = (to: Hex, amount: bigint): Hex =>
  encodeFunctionData({ abi, functionName: 'transfer', args: [to, amount] })
export const loop = (functionName: 'checkedLoop' | 'hashLoop', n: number): Hex =>
  encodeFunctionData({ abi, functionName, args: [BigInt(n)] })

export const fill = (first: number, count: number): Hex =>
  encodeFunctionData({
    abi,
    functionName: 'fill',
    args: [TOKENS[0], BigInt(FIRST_HOLDER), BigInt(first), BigInt(count)],
  })

/** Quotes a path over all tokens in order. */
export const quote = (amount: bigint): Hex =>
  encodeFunctionData({ abi, functionName: 'quote', args: [amount, TOKENS] })
export const swap = (amount: bigint, to: Hex): Hex =>
  encodeFunctionData({ abi, functionName: 'swap', args: [amount, TOKENS, to] })
export const swapOfPair = (out: bigint, to: Hex): Hex =>
  encodeFunctionData({ abi: pairAbi, functionName: 'swap', args: [0n, out, to] })
export const quoteOfRanges = (amount: bigint, steps: number): Hex =>
  encodeFunctionData({ abi: rangesAbi, functionName: 'quote', args: [amount, BigInt(steps)] })

const [A, B, C, D] = TOKENS
/** Paths from the first token to the last, with eleven hops in all. */
const PATHS = [
  [A, D],
  [A, B, D],
  [A, C, D],
  [A, B, C, D],
  [A, C, B, D],
] as const
export const best = (amount: bigint): Call => ({
  to: QUOTER,
  data: encodeFunctionData({ abi, functionName: 'best', args: [ROUTER, amount, PATHS] }),
})

/** Combines calls, none of which may fail. */
export const multicall = (calls: readonly Call[]): Hex =>
  encodeFunctionData({
    abi,
    functionName: 'aggregate3',
    args: [calls.map(({ to, data }) => ({ target: to, allowFailure: false, callData: data }))],
  })

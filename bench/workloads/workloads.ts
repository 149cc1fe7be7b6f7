/** Calls of contracts that solc made, and the state they run on: the same for every engine. */
import { readFileSync } from 'node:fs'
import {
  encodeAbiParameters,
  encodeFunctionData,
  type Hex,
  keccak256,
  pad,
  parseAbi,
  toHex,
} from 'viem'

export type WorkloadAccount = {
  readonly address: Hex
  readonly code: Hex
  /** 32 bytes each. */
  readonly storage: ReadonlyMap<Hex, Hex>
}
export type Workload = { readonly name: string; readonly to: Hex; readonly data: Hex }

/** Who calls; it has no code. */
export const CALLER: Hex = pad('0xca11e4', { size: 20 })
export const CALL_GAS = 30_000_000

const code = (file: URL, name: string): Hex => JSON.parse(readFileSync(file, 'utf8')).code[name]
const COMPILED = new URL('./compiled.json', import.meta.url)
const PRODUCT = new URL('../../engine/contracts/compiled.json', import.meta.url)

const at = (n: number): Hex => pad(toHex(0xbe0000 + n), { size: 20 })
const TOKENS = [at(1), at(2), at(3), at(4)]
const PAIRS = [at(11), at(12), at(13)]
const [ROUTER, RANGES, COMPUTE, FORWARDER, MULTICALL] = [at(21), at(22), at(23), at(24), at(25)]
const holder = (n: number): Hex => pad(toHex(0xa0_0000 + n), { size: 20 })
const HOLDERS = 50
const TEN_18 = 10n ** 18n

const slot = (n: number): Hex => pad(toHex(n), { size: 32 })
const value = (n: bigint): Hex => toHex(BigInt.asUintN(256, n), { size: 32 })
const wordOf = (key: Hex | bigint): Hex =>
  typeof key === 'string' ? pad(key, { size: 32 }) : value(key)
const inMapping = (key: Hex | bigint, place: Hex): Hex =>
  keccak256(encodeAbiParameters([{ type: 'bytes32' }, { type: 'bytes32' }], [wordOf(key), place]))

const balance = (of: Hex, amount: bigint): [Hex, Hex] => [inMapping(of, slot(0)), value(amount)]
const allowance = (of: Hex, spender: Hex): [Hex, Hex] => [
  inMapping(spender, inMapping(of, slot(1))),
  value((1n << 256n) - 1n),
]
/** What a pair holds of each token beyond its reserves: it came in before the swap. */
const CAME_IN = TEN_18
const RESERVE = 1_000_000n * TEN_18

const balances: readonly [Hex, Hex][] = [
  balance(CALLER, RESERVE),
  allowance(CALLER, ROUTER),
  ...Array.from({ length: HOLDERS }, (_, n) => balance(holder(n), BigInt(n + 1) * TEN_18)),
]

export const ACCOUNTS: readonly WorkloadAccount[] = [
  ...TOKENS.map((address, index) =>
    account(address, 'Token', [
      ...balances,
      // Only the first token has come in, and only in the first pair: a quote knows nothing of it.
      ...PAIRS.map((pair, of) => balance(pair, RESERVE + (of === 0 && index === 0 ? CAME_IN : 0n))),
    ]),
  ),
  ...PAIRS.map((address, index) =>
    account(address, 'Pair', [
      [slot(0), pad(TOKENS[index]!, { size: 32 })],
      [slot(1), pad(TOKENS[index + 1]!, { size: 32 })],
      [slot(2), value(RESERVE | (RESERVE << 112n) | (1_600_000_000n << 224n))],
      [slot(3), value(1n)],
      [slot(4), value(1n)],
    ]),
  ),
  account(
    ROUTER,
    'Router',
    PAIRS.map((pair, index) => [
      inMapping(TOKENS[index + 1]!, inMapping(TOKENS[index]!, slot(0))),
      pad(pair, { size: 32 }),
    ]),
  ),
  account(RANGES, 'Ranges', [
    [slot(0), value(1n << 96n)],
    [slot(1), value(10n ** 21n)],
    [inMapping(value(-1n), slot(2)), value((1n << 200n) | (1n << 100n) | (1n << 3n))],
    [inMapping(value(-56n), slot(3)), value(-(10n ** 19n))],
  ]),
  account(COMPUTE, 'Compute', []),
  account(FORWARDER, 'Forwarder', [
    ...balances,
    [
      '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc',
      pad(TOKENS[0]!, { size: 32 }),
    ],
  ]),
  { address: MULTICALL, code: code(PRODUCT, 'Multicall3'), storage: new Map() },
]

function account(
  address: Hex,
  name: string,
  storage: readonly (readonly [Hex, Hex])[],
): WorkloadAccount {
  return { address, code: code(COMPILED, name), storage: new Map(storage) }
}

const abi = parseAbi([
  'function balanceOf(address) view returns (uint256)',
  'function transfer(address, uint256) returns (bool)',
  'function quote(uint256, address[]) view returns (uint256[])',
  'function swap(uint256, address[], address) returns (uint256[])',
  'function checkedLoop(uint256) pure returns (uint256)',
  'function hashLoop(uint256) pure returns (bytes32)',
  'struct Call { address target; bool allowFailure; bytes callData; }',
  'function aggregate3(Call[] calls) payable returns ((bool, bytes)[])',
])
const pairAbi = parseAbi(['function swap(uint256, uint256, address)'])
const rangesAbi = parseAbi(['function quote(uint256, uint256) view returns (uint256, uint160)'])

const balanceOf = (n: number): Hex =>
  encodeFunctionData({ abi, functionName: 'balanceOf', args: [holder(n)] })
const call = (functionName: 'checkedLoop' | 'hashLoop', n: bigint): Hex =>
  encodeFunctionData({ abi, functionName, args: [n] })

export const WORKLOADS: readonly Workload[] = [
  { name: 'ERC-20 balanceOf', to: TOKENS[0]!, data: balanceOf(7) },
  { name: 'ERC-20 balanceOf by a proxy', to: FORWARDER, data: balanceOf(7) },
  {
    name: 'ERC-20 transfer',
    to: TOKENS[0]!,
    data: encodeFunctionData({ abi, functionName: 'transfer', args: [holder(3), 5n] }),
  },
  {
    name: 'swap of a pair',
    to: PAIRS[0]!,
    data: encodeFunctionData({
      abi: pairAbi,
      functionName: 'swap',
      args: [0n, TEN_18 / 2n, CALLER],
    }),
  },
  {
    name: 'quote over 3 hops',
    to: ROUTER,
    data: encodeFunctionData({ abi, functionName: 'quote', args: [TEN_18, TOKENS] }),
  },
  {
    name: 'swap over 3 hops',
    to: ROUTER,
    data: encodeFunctionData({ abi, functionName: 'swap', args: [TEN_18, TOKENS, CALLER] }),
  },
  {
    name: 'quote over 40 ranges of liquidity',
    to: RANGES,
    data: encodeFunctionData({ abi: rangesAbi, functionName: 'quote', args: [10n ** 22n, 40n] }),
  },
  {
    name: 'multicall of 50 balances',
    to: MULTICALL,
    data: encodeFunctionData({
      abi,
      functionName: 'aggregate3',
      args: [
        Array.from({ length: HOLDERS }, (_, n) => ({
          target: TOKENS[0]!,
          allowFailure: false,
          callData: balanceOf(n),
        })),
      ],
    }),
  },
  { name: 'checked arithmetic, 1,000 times', to: COMPUTE, data: call('checkedLoop', 1_000n) },
  { name: 'hashes and memory, 1,000 times', to: COMPUTE, data: call('hashLoop', 1_000n) },
]

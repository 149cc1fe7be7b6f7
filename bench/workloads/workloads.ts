/** Calls of contracts compiled by solc, and their state, the same for every engine. */
import {
  balanceOf,
  type Call,
  loop,
  multicall,
  quote,
  quoteOfRanges,
  swap,
  swapOfPair,
  transfer,
} from './calldata.ts'
import {
  accountsOf,
  CALLER,
  COMPUTE,
  FORWARDER,
  holder,
  MULTICALL,
  PAIRS,
  RANGES,
  ROUTER,
  TEN_18,
  TOKENS,
} from './world.ts'

export type Workload = Call & { readonly name: string }

export const CALL_GAS = 30_000_000
const HOLDERS = 50
export const ACCOUNTS = accountsOf(HOLDERS)

export const WORKLOADS: readonly Workload[] = [
  { name: 'ERC-20 balanceOf', to: TOKENS[0], data: balanceOf(7) },
  { name: 'ERC-20 balanceOf by a proxy', to: FORWARDER, data: balanceOf(7) },
  { name: 'ERC-20 transfer', to: TOKENS[0], data: transfer(holder(3), 5n) },
  { name: 'swap of a pair', to: PAIRS[0], data: swapOfPair(TEN_18 / 2n, CALLER) },
  { name: 'quote over 3 hops', to: ROUTER, data: quote(TEN_18) },
  { name: 'swap over 3 hops', to: ROUTER, data: swap(TEN_18, CALLER) },
  {
    name: 'quote over 40 ranges of liquidity',
    to: RANGES,
    data: quoteOfRanges(10n ** 22n, 40),
  },
  {
    name: 'multicall of 50 balances',
    to: MULTICALL,
    data: multicall(
      Array.from({ length: HOLDERS }, (_, n) => ({ to: TOKENS[0], data: balanceOf(n) })),
    ),
  },
  { name: 'checked arithmetic, 1,000 times', to: COMPUTE, data: loop('checkedLoop', 1_000) },
  { name: 'hashes and memory, 1,000 times', to: COMPUTE, data: loop('hashLoop', 1_000) },
]

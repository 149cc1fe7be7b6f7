/**
 * The state under the workloads' calls: contracts compiled by solc, their storage and balances. All
 * engines and servers have the same.
 */
import { readFileSync } from 'node:fs'
import { DEV_ACCOUNTS } from '../../engine/chainspec/dev-accounts.ts'
import type { Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'

export type WorkloadAccount = {
  readonly address: Hex
  readonly code: Hex
  /** Keys and values have 32 bytes. */
  readonly storage: ReadonlyMap<Hex, Hex>
}

const digits = (n: bigint | number, bytes: number): string =>
  BigInt.asUintN(8 * bytes, BigInt(n))
    .toString(16)
    .padStart(2 * bytes, '0')
/** Encodes a negative number in two's complement. */
export const word = (n: bigint | number): Hex => `0x${digits(n, 32)}`
const wordOf = (address: Hex): Hex => `0x${address.slice(2).padStart(64, '0')}`
const addressOf = (n: number): Hex => `0x${digits(n, 20)}`
const at = (n: number): Hex => addressOf(0xbe0000 + n)

/** The sender of calls; it has no code. */
export const CALLER: Hex = addressOf(0xca11e4)
export const TOKENS = [at(1), at(2), at(3), at(4)] as const
/** A chain of pairs from the first token to the last; the others are shortcuts. */
export const PAIRS = [at(11), at(12), at(13)] as const
const SHORTCUTS = [
  { pair: at(14), from: 0, to: 2 },
  { pair: at(15), from: 1, to: 3 },
  { pair: at(16), from: 0, to: 3 },
] as const
export const [ROUTER, RANGES, COMPUTE, FORWARDER, MULTICALL, QUOTER, FILLER] = [
  ...[at(21), at(22), at(23), at(24), at(25), at(26), at(27)],
] as [Hex, Hex, Hex, Hex, Hex, Hex, Hex]
export const FIRST_HOLDER = 0xa0_0000
export const holder = (n: number): Hex => addressOf(FIRST_HOLDER + n)
export const TEN_18 = 10n ** 18n

const compiled = (file: string): Readonly<Record<string, Hex>> =>
  JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8')).code
const inMapping = (key: Hex, slot: Hex): Hex =>
  bytesToHex(keccak256(hexToBytes(`${key}${slot.slice(2)}`)))
const balance = (of: Hex, amount: bigint): readonly [Hex, Hex] => [
  inMapping(wordOf(of), word(0)),
  word(amount),
]
const allowance = (of: Hex, spender: Hex): readonly [Hex, Hex] => [
  inMapping(wordOf(spender), inMapping(wordOf(of), word(1))),
  word(-1),
]
/**
 * Balance of the first pair in the first token above its reserves, paid in before the swap. Quotes
 * ignore it.
 */
const CAME_IN = TEN_18
const RESERVE = 1_000_000n * TEN_18

/** @param holders number of holders of the first token */
export function accountsOf(holders: number): readonly WorkloadAccount[] {
  const code = compiled('./compiled.json')
  const account = (
    address: Hex,
    name: string,
    storage: readonly (readonly [Hex, Hex])[],
  ): WorkloadAccount => ({ address, code: code[name]!, storage: new Map(storage) })
  const funded = Array.from({ length: holders }, (_, n) =>
    balance(holder(n), BigInt(n + 1) * TEN_18),
  )
  const rich = [CALLER, MULTICALL, ...DEV_ACCOUNTS.map(({ address }) => address)]
  const balances = [
    ...rich.map((address) => balance(address, RESERVE)),
    balance(FILLER, 10n ** 12n * TEN_18),
    ...[CALLER, MULTICALL].map((address) => allowance(address, ROUTER)),
  ]
  const pairs = [
    ...PAIRS.map((pair, from) => ({ pair, from, to: from + 1, reserve: RESERVE })),
    ...SHORTCUTS.map((one, n) => ({ ...one, reserve: (RESERVE * BigInt(90 - n)) / 100n })),
  ]
  const inPairs = (token: number) =>
    pairs
      .filter(({ from, to }) => from === token || to === token)
      .map(({ pair, reserve }) =>
        balance(pair, reserve + (token === 0 && pair === PAIRS[0] ? CAME_IN : 0n)),
      )
  return [
    ...TOKENS.map((address, token) =>
      account(address, 'Token', [...balances, ...(token === 0 ? funded : []), ...inPairs(token)]),
    ),
    ...pairs.map(({ pair, from, to, reserve }) =>
      account(pair, 'Pair', [
        [word(0), wordOf(TOKENS[from]!)],
        [word(1), wordOf(TOKENS[to]!)],
        [word(2), word(reserve | (reserve << 112n) | (1_600_000_000n << 224n))],
        [word(3), word(1)],
        [word(4), word(1)],
      ]),
    ),
    account(
      ROUTER,
      'Router',
      pairs.map(({ pair, from, to }) => [
        inMapping(wordOf(TOKENS[to]!), inMapping(wordOf(TOKENS[from]!), word(0))),
        wordOf(pair),
      ]),
    ),
    account(RANGES, 'Ranges', [
      [word(0), word(1n << 96n)],
      [word(1), word(10n ** 21n)],
      [inMapping(word(-1), word(2)), word((1n << 200n) | (1n << 100n) | (1n << 3n))],
      [inMapping(word(-56), word(3)), word(-(10n ** 19n))],
    ]),
    account(COMPUTE, 'Compute', []),
    account(FORWARDER, 'Forwarder', [...funded.slice(0, 50), [IMPLEMENTATION, wordOf(TOKENS[0])]]),
    account(QUOTER, 'Quoter', []),
    account(FILLER, 'Filler', []),
    {
      address: MULTICALL,
      code: compiled('../../engine/contracts/compiled.json')['Multicall3']!,
      storage: new Map(),
    },
  ]
}
/** Slot of the implementation in ERC-1967. */
const IMPLEMENTATION = '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc'

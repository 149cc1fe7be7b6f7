/**
 * Contracts of the OP stack that a development chain has from its first block on, with their
 * addresses and storage.
 */
import { readFileSync } from 'node:fs'
import type { Bytes, Hex } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { DEV_ACCOUNTS } from './dev-accounts.ts'
import { MESSAGE_PASSER } from './genesis.ts'
import type { AccountKey } from './genesis-file.ts'
import { L1_BLOCK, SEQUENCER_FEE_VAULT } from './l1-attributes.ts'

export const CONTRACTS = [
  'FeeVault',
  'GasPriceOracle',
  'GaslessWhitelist',
  'L1Block',
  'L2ToL1MessagePasser',
  'Multicall3',
  'Proxy',
  'ProxyAdmin',
  'WETH',
] as const
export type ContractCode = Readonly<Record<(typeof CONTRACTS)[number], Hex>>
/**
 * Reads the compiler's output for engine/contracts (docs/adr/0026). One thread reads it when a
 * chain is made.
 */
export function contractCode(): ContractCode {
  const file = new URL('../contracts/compiled.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly code: ContractCode }).code
}

export type AllocJson = Record<Hex, Partial<Record<AccountKey, unknown>>>

/**
 * Returns the allocation.
 * @param gaslessContract address of the gasless allowlist under X Layer's rules; undefined: other
 * rules
 */
export function predeployAlloc(code: ContractCode, gaslessContract: Bytes | undefined): AllocJson {
  const at = (name: keyof ContractCode, storage: Storage = {}) => ({
    ...CONTRACT,
    code: code[name],
    storage,
  })
  const alloc: AllocJson = { [WETH]: at('WETH'), [MULTICALL3]: at('Multicall3') }
  for (const [address, name, storage] of PROXIED) {
    const implementation = implementationOf(address)
    alloc[implementation] = at(name)
    const own = { [IMPLEMENTATION_SLOT]: implementation, [ADMIN_SLOT]: PROXY_ADMIN }
    alloc[address] = at('Proxy', { ...own, ...storage })
  }
  if (gaslessContract === undefined) return alloc
  const storage: Storage = { [OWNER_SLOT]: DEV_ACCOUNTS[0]!.address, '0x04': MAX_GASLESS_GAS }
  alloc[bytesToHex(gaslessContract)] = at('GaslessWhitelist', storage)
  return alloc
}

type Storage = Readonly<Record<Hex, Hex>>
/** Nonce 1 is that of a newly created contract. */
const CONTRACT = { nonce: '0x1', balance: '0x0' }
const WETH: Hex = '0x4200000000000000000000000000000000000006'
const MULTICALL3: Hex = '0xca11bde05977b3631167028862be2a173976ca11'
const PROXY_ADMIN: Hex = '0x4200000000000000000000000000000000000018'
/** Keccak-256 of "eip1967.proxy.implementation" and "eip1967.proxy.admin", minus 1. */
const IMPLEMENTATION_SLOT = '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc'
const ADMIN_SLOT = '0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103'
/** Returns the address where OP chains have the code of a predeployed contract. */
const implementationOf = (address: Hex): Hex => `0x${'c0d3'.repeat(9)}${address.slice(-4)}`
/** isEcotone, isFjord, isIsthmus, isJovian: a byte each. */
const ALL_FORKS = '0x01010101'
/** ERC-7201 slot of "openzeppelin.storage.Ownable". */
const OWNER_SLOT = '0x9016d09d72d40fdae2fd8ceac6b6234c7706214fd39c1cd1e609a0528c199300'
const PROXIED: readonly (readonly [address: Hex, contract: keyof ContractCode, own?: Storage])[] = [
  ['0x420000000000000000000000000000000000000f', 'GasPriceOracle', { '0x00': ALL_FORKS }],
  [SEQUENCER_FEE_VAULT, 'FeeVault'],
  [L1_BLOCK, 'L1Block'],
  [MESSAGE_PASSER, 'L2ToL1MessagePasser'],
  [PROXY_ADMIN, 'ProxyAdmin', { '0x00': DEV_ACCOUNTS[0]!.address }],
  // Vaults for base fees, L1 fees and operator fees.
  ['0x4200000000000000000000000000000000000019', 'FeeVault'],
  ['0x420000000000000000000000000000000000001a', 'FeeVault'],
  ['0x420000000000000000000000000000000000001b', 'FeeVault'],
]
/** X Layer's own limit. */
const MAX_GASLESS_GAS = '0x1000000'

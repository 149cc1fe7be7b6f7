/** Contracts of the OP stack that a development chain has from its first block on: where they are and what is in their storage. */
import type { Bytes, Hex } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { DEV_ACCOUNTS } from './dev-accounts.ts'
import { MESSAGE_PASSER } from './genesis.ts'
import type { AccountKey } from './genesis-file.ts'
import { L1_BLOCK, SEQUENCER_FEE_VAULT } from './l1-attributes.ts'

/** Contracts by the name of their source. */
export const CONTRACTS = [
  'FeeVault',
  'GasPriceOracle',
  'GaslessWhitelist',
  'L1Block',
  'L2ToL1MessagePasser',
  'Multicall3',
  'WETH',
] as const
/** Code of each, as it lies on the chain. */
export type ContractCode = Readonly<Record<(typeof CONTRACTS)[number], Hex>>
/** The `alloc` of a genesis.json. */
export type AllocJson = Record<Hex, Partial<Record<AccountKey, unknown>>>

/** @param gaslessContract where X Layer's rules look for the whitelist; undefined: under other rules */
export function predeployAlloc(code: ContractCode, gaslessContract: Bytes | undefined): AllocJson {
  const alloc: AllocJson = Object.fromEntries(
    PLACES.map(([address, name]) => [address, { ...CONTRACT, code: code[name] }]),
  )
  alloc[GAS_PRICE_ORACLE] = { ...alloc[GAS_PRICE_ORACLE], storage: { '0x00': ALL_FORKS } }
  if (gaslessContract === undefined) return alloc
  const storage = { [OWNER_SLOT]: DEV_ACCOUNTS[0]!.address, '0x04': MAX_GASLESS_GAS }
  alloc[bytesToHex(gaslessContract)] = { ...CONTRACT, code: code.GaslessWhitelist, storage }
  return alloc
}

/** Nonce 1, as a contract that was created has. */
const CONTRACT = { nonce: '0x1', balance: '0x0' }
const GAS_PRICE_ORACLE: Hex = '0x420000000000000000000000000000000000000f'
const PLACES: readonly (readonly [address: Hex, contract: keyof ContractCode])[] = [
  ['0x4200000000000000000000000000000000000006', 'WETH'],
  [GAS_PRICE_ORACLE, 'GasPriceOracle'],
  [SEQUENCER_FEE_VAULT, 'FeeVault'],
  [L1_BLOCK, 'L1Block'],
  [MESSAGE_PASSER, 'L2ToL1MessagePasser'],
  // Base fees, L1 fees, operator fees.
  ['0x4200000000000000000000000000000000000019', 'FeeVault'],
  ['0x420000000000000000000000000000000000001a', 'FeeVault'],
  ['0x420000000000000000000000000000000000001b', 'FeeVault'],
  ['0xca11bde05977b3631167028862be2a173976ca11', 'Multicall3'],
]
/** isEcotone, isFjord, isIsthmus, isJovian: a byte each. */
const ALL_FORKS = '0x01010101'
/** ERC-7201, of "openzeppelin.storage.Ownable". */
const OWNER_SLOT = '0x9016d09d72d40fdae2fd8ceac6b6234c7706214fd39c1cd1e609a0528c199300'
/** X Layer's own limit. */
const MAX_GASLESS_GAS = '0x1000000'

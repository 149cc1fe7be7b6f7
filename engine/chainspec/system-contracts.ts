/** Contracts that a chain has from its first block on, at addresses and with code that their EIPs (or authors) have fixed. */
import type { Hex } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import type { GenesisAccount } from './types.ts'

/** EIP-4788: roots of beacon blocks by timestamp. */
export const BEACON_ROOTS: Hex = '0x000f3df6d732807ef1319fb7b8bb8522d0beac02'
/** EIP-2935: hashes of the last 8191 blocks. */
export const BLOCK_HASHES: Hex = '0x0000f90827f1c53a10cb7a02335b175320002935'
/** Deploys calldata (salt, init code) with CREATE2: github.com/Arachnid/deterministic-deployment-proxy. */
export const CREATE2_FACTORY: Hex = '0x4e59b44847b379578588920ca78fbf26c0b4956c'

/** Nonce 1, as a contract that was created has. */
export const SYSTEM_CONTRACTS: ReadonlyMap<Hex, GenesisAccount> = new Map(
  (
    [
      [
        BEACON_ROOTS,
        '0x3373fffffffffffffffffffffffffffffffffffffffe14604d57602036146024575f5ffd5b5f35801560495762001fff810690815414603c575f5ffd5b62001fff01545f5260205ff35b5f5ffd5b62001fff42064281555f359062001fff015500',
      ],
      [
        BLOCK_HASHES,
        '0x3373fffffffffffffffffffffffffffffffffffffffe14604657602036036042575f35600143038111604257611fff81430311604257611fff9006545f5260205ff35b5f5ffd5b5f35611fff60014303065500',
      ],
      [
        CREATE2_FACTORY,
        '0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3',
      ],
    ] satisfies [Hex, Hex][]
  ).map(([address, code]) => [address, { nonce: 1n, balance: 0n, code: hexToBytes(code) }]),
)

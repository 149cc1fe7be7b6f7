/**
 * The first block of a chain: its header, the roots of its allocation, and contracts that a chain
 * has from this block on. Their EIPs or authors fixed the addresses and the code.
 */
import { createHash } from 'node:crypto'
import type { Bytes, Hex } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { EMPTY_HASH, EMPTY_OMMERS, EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../primitives/rlp.ts'
import { trieRoot } from '../primitives/trie-root.ts'
import { bytesToBigint, ZERO_20, ZERO_32 } from '../primitives/words.ts'
import type { GenesisAccount, Rules } from './types.ts'

export type Allocation = ReadonlyMap<Hex, GenesisAccount>

/** sha256 of nothing: the requests hash of a block without requests. */
export const EMPTY_REQUESTS: Bytes = Uint8Array.from(createHash('sha256').digest())
export const MESSAGE_PASSER: Hex = '0x4200000000000000000000000000000000000016'
/** Base fee of the first block that has one, in wei. */
export const INITIAL_BASE_FEE = 1_000_000_000n

/** Fields of a genesis header that the rules do not determine. */
export type GenesisFields = Pick<Header, 'number' | 'timestamp' | 'gasLimit' | 'extraData'> &
  Partial<
    Pick<
      Header,
      | 'parentHash'
      | 'coinbase'
      | 'difficulty'
      | 'mixHash'
      | 'nonce'
      | 'gasUsed'
      | 'baseFeePerGas'
      | 'blobGasUsed'
      | 'excessBlobGas'
    >
  >
export type GenesisRoots = {
  readonly stateRoot: Bytes
  /** Storage root of the L2ToL1MessagePasser: the withdrawals root from Isthmus on. */
  readonly messagePasserRoot: Bytes
}

/**
 * Makes the header of the first block.
 * @param rules rules at the block's own number and time
 */
export function genesisHeader(fields: GenesisFields, rules: Rules, roots: GenesisRoots): Header {
  const { baseFeePerGas = INITIAL_BASE_FEE, blobGasUsed = 0n, excessBlobGas = 0n } = fields
  const { baseFee, withdrawals, blobs, beaconRoot, requests } = rules.header
  const withdrawalsRoot = withdrawals === 'messagePasser' ? roots.messagePasserRoot : EMPTY_ROOT
  return {
    parentHash: fields.parentHash ?? ZERO_32,
    ommersHash: EMPTY_OMMERS,
    coinbase: fields.coinbase ?? ZERO_20,
    stateRoot: roots.stateRoot,
    transactionsRoot: EMPTY_ROOT,
    receiptsRoot: EMPTY_ROOT,
    logsBloom: new Uint8Array(256),
    difficulty: fields.difficulty ?? 0n,
    number: fields.number,
    gasLimit: fields.gasLimit,
    gasUsed: fields.gasUsed ?? 0n,
    timestamp: fields.timestamp,
    extraData: fields.extraData,
    mixHash: fields.mixHash ?? ZERO_32,
    nonce: fields.nonce ?? new Uint8Array(8),
    ...(baseFee ? { baseFeePerGas } : {}),
    ...(withdrawals === 'none' ? {} : { withdrawalsRoot }),
    ...(blobs ? { blobGasUsed, excessBlobGas } : {}),
    ...(beaconRoot ? { parentBeaconBlockRoot: ZERO_32 } : {}),
    ...(requests ? { requestsHash: EMPTY_REQUESTS } : {}),
  }
}

/**
 * Returns both roots of an allocation. All tries are built in memory, so the limit is some 100,000
 * entries.
 */
export function allocationRoots(alloc: Allocation): GenesisRoots {
  const accounts = [...alloc].map(([address, account]) => ({
    key: keccak256(hexToBytes(address)),
    value: accountLeaf(account),
  }))
  const passer = alloc.get(MESSAGE_PASSER)
  return {
    stateRoot: trieRoot(accounts),
    messagePasserRoot: passer === undefined ? EMPTY_ROOT : storageRoot(passer),
  }
}

function accountLeaf(account: GenesisAccount): Bytes {
  const codeHash = account.code === undefined ? EMPTY_HASH : keccak256(account.code)
  return encodeRlp([
    rlpUint(account.nonce ?? 0n),
    rlpUint(account.balance),
    storageRoot(account),
    codeHash,
  ])
}

function storageRoot({ storage = [] }: GenesisAccount): Bytes {
  const slots = storage
    .map(({ key, value }) => ({ key: keccak256(key), value: rlpUint(bytesToBigint(value)) }))
    .filter(({ value }) => value.length > 0)
  return trieRoot(slots.map(({ key, value }) => ({ key, value: encodeRlp(value) })))
}

/** EIP-4788: roots of beacon blocks by timestamp. */
export const BEACON_ROOTS: Hex = '0x000f3df6d732807ef1319fb7b8bb8522d0beac02'
/** EIP-2935: hashes of the last 8191 blocks. */
export const BLOCK_HASHES: Hex = '0x0000f90827f1c53a10cb7a02335b175320002935'
/**
 * Deploys calldata (salt, init code) with CREATE2:
 * github.com/Arachnid/deterministic-deployment-proxy.
 */
export const CREATE2_FACTORY: Hex = '0x4e59b44847b379578588920ca78fbf26c0b4956c'

/** Nonce 1 is that of a newly created contract. */
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

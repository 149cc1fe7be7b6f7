/** The first block of a chain: its header, and the roots of what is allocated in it. */
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

/** sha256 of nothing: the requests of a block that makes none. */
export const EMPTY_REQUESTS: Bytes = Uint8Array.from(createHash('sha256').digest())
/** L2ToL1MessagePasser. */
export const MESSAGE_PASSER: Hex = '0x4200000000000000000000000000000000000016'
/** The base fee of the first block that has one. Wei. */
export const INITIAL_BASE_FEE = 1_000_000_000n

/** What a genesis header has of its own; the rest follows from the rules. */
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

/** Header of the first block. `rules`: those at its own number and time. */
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

/** Both roots of an allocation. Builds every trie in memory: for allocations of up to some 100,000 entries. */
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

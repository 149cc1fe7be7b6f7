/**
 * State and block overrides of eth_call and similar methods, with go-ethereum's rules and texts.
 */
import type { BlockEnv, MovedPrecompile, Session } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { checksumAddress } from '../../primitives/keccak.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { StateReader } from '../../state/reader.ts'
import { latin1 } from '../../state/words.ts'

export type SlotOverride = readonly [key: Bytes, value: Bytes]
export type AccountOverride = {
  readonly address: Bytes
  readonly nonce?: bigint
  readonly balance?: bigint
  readonly code?: Bytes
  /** Replaces the whole storage. */
  readonly state?: readonly SlotOverride[]
  /** Replaces single slots. */
  readonly stateDiff?: readonly SlotOverride[]
  readonly movePrecompileToAddress?: Bytes
}
/** Block fields that the call sees with other values. */
export type BlockOverrides = {
  readonly number?: bigint
  readonly difficulty?: bigint
  /** Unix time in seconds. */
  readonly time?: bigint
  readonly gasLimit?: bigint
  readonly feeRecipient?: Bytes
  readonly prevRandao?: Bytes
  readonly baseFeePerGas?: bigint
  readonly blobBaseFee?: bigint
  readonly blockHash?: readonly (readonly [number: bigint, hash: Bytes])[]
}

/**
 * Lists moved precompiles in the given order, or the reason why the overrides are invalid.
 * @param precompiles lists the precompiles on demand, because few requests override anything
 */
export function movedPrecompiles(
  overrides: readonly AccountOverride[],
  precompiles: () => readonly Bytes[],
): { readonly moved: readonly MovedPrecompile[] } | { readonly refusal: string } {
  const moved: MovedPrecompile[] = []
  let isPrecompile: ((address: Bytes) => boolean) | undefined
  for (const { address, state, stateDiff, movePrecompileToAddress: to } of overrides) {
    const text = checksumAddress(address)
    if (state !== undefined && stateDiff !== undefined)
      return { refusal: `account ${text} has both 'state' and 'stateDiff'` }
    isPrecompile ??= addressSet(precompiles())
    if (to === undefined) {
      // Any override turns a precompile into an ordinary account.
      if (isPrecompile(address)) moved.push({ from: address, to })
      continue
    }
    if (!isPrecompile(address)) return { refusal: `account ${text} is not a precompile` }
    if (overrides.some((other) => equalBytes(other.address, to)))
      return { refusal: `account ${checksumAddress(to)} is already overridden` }
    moved.push({ from: address, to })
  }
  return { moved }
}

/**
 * Writes the overrides before the call, as a state that the call does not undo. Like go-ethereum,
 * every override creates the account, even an empty one. An empty account is deleted only when a
 * later call touches it.
 */
export function applyOverrides(session: Session, overrides: readonly AccountOverride[]): void {
  for (const { address, nonce, balance, code, state, stateDiff } of overrides) {
    if (nonce !== undefined) session.setNonce(address, nonce)
    if (code !== undefined) session.setCode(address, code)
    if (balance !== undefined)
      session.addBalance(address, balance - session.account(address).balance)
    if (state !== undefined) {
      session.addBalance(address, 0n)
      session.clearStorage(address)
    }
    for (const [key, value] of state ?? stateDiff ?? []) session.setSlot(address, key, value)
  }
  session.startTransaction()
}

export function overrideBlock(env: BlockEnv, overrides: BlockOverrides | undefined): BlockEnv {
  if (overrides === undefined) return env
  return {
    number: overrides.number ?? env.number,
    timestamp: overrides.time ?? env.timestamp,
    gasLimit: overrides.gasLimit ?? env.gasLimit,
    baseFee: overrides.baseFeePerGas ?? env.baseFee,
    coinbase: overrides.feeRecipient ?? env.coinbase,
    prevRandao: overrides.prevRandao ?? env.prevRandao,
    blobBaseFee: overrides.blobBaseFee ?? env.blobBaseFee,
    difficulty: overrides.difficulty ?? env.difficulty,
  }
}

/** Wraps a reader to override results of BLOCKHASH. */
export function overrideHashes(
  reader: StateReader,
  hashes: BlockOverrides['blockHash'] = [],
): StateReader {
  if (hashes.length === 0) return reader
  const known = new Map(hashes)
  return {
    account: (address, out, at) => reader.account(address, out, at),
    slot: (address, key, out, at) => reader.slot(address, key, out, at),
    code: (hash) => reader.code(hash),
    blockHash: (number) => known.get(number) ?? reader.blockHash(number),
    hasSlots: (address) => reader.hasSlots(address),
    slots: (address) => reader.slots(address),
  }
}

/** Makes a set of addresses that are compared by their bytes. */
function addressSet(addresses: readonly Bytes[]): (address: Bytes) => boolean {
  const keys = new Set(addresses.map(latin1))
  return (address) => keys.has(latin1(address))
}

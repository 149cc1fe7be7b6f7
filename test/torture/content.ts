/**
 * Transactions, receipts, logs and headers of the invented blocks. They follow the same plain rules
 * as the state.
 */
import { chainSpec } from '../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { ExecutedTransaction } from '../../engine/execution/transaction/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { type Header, hashHeader } from '../../engine/primitives/header.ts'
import { EMPTY_OMMERS, EMPTY_ROOT, keccak256 } from '../../engine/primitives/keccak.ts'
import type { Log, Receipt } from '../../engine/primitives/receipt.ts'
import { bloomOf } from '../../engine/primitives/receipt-codec.ts'
import { makeDeposit } from '../../engine/primitives/transaction-codec.ts'
import { concatBytes, ZERO_20, ZERO_32 } from '../../engine/primitives/words.ts'
import { blockOf, FINAL_STEP, GENESIS, hashOf, MAX_STEPS, type SharedLedger } from './ledger.ts'
import { ACCOUNTS, ADDRESSES, mix, type Point } from './truth.ts'

/** Height of the first block. */
export const GENESIS_NUMBER = 100

/** Makes 32 bytes that name their writer. */
export const word = (...parts: readonly number[]): Bytes => {
  const words = new Int32Array(8)
  words.set(parts)
  return new Uint8Array(words.buffer)
}

/** Returns the number of transactions in a flashblock. */
export const transactionsIn = ({ seed }: SharedLedger, salt: number, step: number): number =>
  salt === GENESIS ? 0 : mix(seed, salt, step, 3) % 4

/** Returns the number of transactions in the block at a point. */
export function transactionsAt(ledger: SharedLedger, { salt, step }: Point): number {
  const last = step === FINAL_STEP ? blockOf(ledger, salt).steps - 1 : step
  let count = 0
  for (let each = 0; each <= last; each++) count += transactionsIn(ledger, salt, each)
  return count
}

const SMALL_BYTES = 100

/** Makes transaction `index` of a flashblock and its receipt. */
export function executedOf(
  ledger: SharedLedger,
  { salt, step }: Point,
  index: number,
): ExecutedTransaction {
  const bits = mix(ledger.seed, salt * MAX_STEPS + step, index, 4)
  const size = bits % ledger.largeIn === 0 ? ledger.payloadBytes : bits % SMALL_BYTES
  const transaction = makeDeposit({
    sourceHash: word(0x7a, salt, step, index),
    from: ADDRESSES[bits % ACCOUNTS]!,
    to: ADDRESSES[(bits >>> 8) % ACCOUNTS],
    mint: 0n,
    value: BigInt(bits),
    gasLimit: 21_000n,
    isSystemTransaction: false,
    input: new Uint8Array(size).fill(salt),
  })
  const logs = logsOf(ledger, { salt, step }, index)
  const receipt: Receipt = {
    type: 0x7e,
    status: 1,
    cumulativeGasUsed: BigInt(bits),
    gasUsed: 21_000n,
    logsBloom: bloomOf(logs),
    logs,
    contractAddress: undefined,
    effectiveGasPrice: 0n,
    depositNonce: BigInt(salt),
    depositReceiptVersion: 1n,
  }
  return { transaction, receipt }
}

/**
 * Makes the logs of transaction `index` of a flashblock. The topics name the block, then the index.
 */
export function logsOf(ledger: SharedLedger, { salt, step }: Point, index: number): readonly Log[] {
  const bits = mix(ledger.seed, salt * MAX_STEPS + step, index, 5)
  return Array.from({ length: bits % 3 }, (_, at) => ({
    address: ADDRESSES[(bits + at) % ACCOUNTS]!,
    topics: [blockTopic(salt), word(step, index, at)],
    data: word(salt, step, index, at, bits),
  }))
}
export const blockTopic = (salt: number): Bytes => word(0x106, salt)

/** Returns the flashblock of a block's transaction, and its index in there. */
export function locationOf(
  ledger: SharedLedger,
  salt: number,
  index: number,
): { readonly step: number; readonly index: number } {
  let left = index
  for (let step = 0; step < MAX_STEPS; step++) {
    const count = transactionsIn(ledger, salt, step)
    if (left < count) return { step, index: left }
    left -= count
  }
  throw new Error(`block ${salt} has no transaction ${index}`)
}

/** Returns the index in the block of a flashblock's first transaction. */
export const firstIndex = (ledger: SharedLedger, { salt, step }: Point): number =>
  step === 0 ? 0 : transactionsAt(ledger, { salt, step: step - 1 })

/**
 * Makes the header of a block at a point. The writer gives `stateRoot` and the transactions so far.
 */
export function headerAt(
  ledger: SharedLedger,
  point: Point,
  content: { readonly stateRoot: Bytes; readonly executed: readonly ExecutedTransaction[] },
): { readonly header: Header; readonly hash: Bytes } {
  const { height, parent } = blockOf(ledger, point.salt)
  const { stateRoot, executed } = content
  const header: Header = {
    parentHash: parent === 0 ? ZERO_32 : hashOf(ledger, parent, FINAL_STEP),
    ommersHash: EMPTY_OMMERS,
    coinbase: ZERO_20,
    stateRoot,
    transactionsRoot: keccak256(
      concatBytes(...executed.map(({ transaction }) => transaction.hash)),
    ),
    receiptsRoot: EMPTY_ROOT,
    logsBloom: bloomOf(executed.flatMap(({ receipt }) => receipt.logs)),
    difficulty: 0n,
    number: BigInt(height),
    gasLimit: 50_000_000n,
    gasUsed: BigInt(executed.length),
    timestamp: BigInt(height),
    extraData: word(point.salt, point.step),
    mixHash: ZERO_32,
    nonce: new Uint8Array(8),
    baseFeePerGas: 7n,
  }
  return { header, hash: hashHeader(header) }
}

/** A chain that starts with an empty block. */
export function tortureChain(): ChainSpec {
  const header: Header = {
    parentHash: ZERO_32,
    ommersHash: EMPTY_OMMERS,
    coinbase: ZERO_20,
    stateRoot: EMPTY_ROOT,
    transactionsRoot: EMPTY_ROOT,
    receiptsRoot: EMPTY_ROOT,
    logsBloom: new Uint8Array(256),
    difficulty: 0n,
    number: BigInt(GENESIS_NUMBER),
    gasLimit: 50_000_000n,
    gasUsed: 0n,
    timestamp: BigInt(GENESIS_NUMBER),
    extraData: word(GENESIS, FINAL_STEP),
    mixHash: ZERO_32,
    nonce: new Uint8Array(8),
    baseFeePerGas: 7n,
  }
  return {
    ...chainSpec({ name: 'xlayer' }),
    genesisNumber: header.number,
    genesisHeader: header,
    genesisHash: hashHeader(header),
    alloc: new Map(),
  }
}

/** Whole blocks ↔ RLP, as files of blocks and debug_getRawBlock have them. */
import type { Bytes } from './bytes.ts'
import type { Header } from './header.ts'
import { headerItems, headerOf } from './header-codec.ts'
import {
  decodeRlp,
  encodeRlp,
  RlpError,
  type RlpItem,
  readFixed,
  readItem,
  readList,
  readUint,
  rlpUint,
} from './rlp.ts'

export type Withdrawal = {
  readonly index: bigint
  readonly validatorIndex: bigint
  readonly address: Bytes
  /** Gwei. */
  readonly amount: bigint
}
export type Block = {
  readonly header: Header
  /** Envelopes (EIP-2718). */
  readonly transactions: readonly Bytes[]
  readonly ommers: readonly Header[]
  /** undefined: before Shanghai. */
  readonly withdrawals: readonly Withdrawal[] | undefined
}

export function encodeBlock(block: Block): Bytes {
  const items: RlpItem[] = [
    headerItems(block.header),
    block.transactions.map((raw) => (isLegacy(raw) ? decodeRlp(raw) : raw)),
    block.ommers.map(headerItems),
  ]
  if (block.withdrawals !== undefined) items.push(block.withdrawals.map(withdrawalItems))
  return encodeRlp(items)
}

/** @throws {RlpError} */
export function decodeBlock(data: Bytes): Block {
  return blockOf(decodeRlp(data))
}

/** The blocks of a file of one RLP block after another, one at a time. @throws {RlpError} at the block that is wrong */
export function* decodeBlocks(data: Bytes): Generator<Block> {
  for (let at = 0; at < data.length; ) {
    const { item, next } = readItem(data, at)
    yield blockOf(item)
    at = next
  }
}

const isLegacy = (raw: Bytes) => raw.length > 0 && raw[0]! >= 0xc0

function blockOf(item: RlpItem): Block {
  const [header, transactions, ommers, withdrawals, ...rest] = readList(item, ' for types.Block')
  if (header === undefined || transactions === undefined || ommers === undefined)
    throw new RlpError('rlp: too few elements for types.Block')
  if (rest.length > 0) throw new RlpError('rlp: input list has too many elements for types.Block')
  return {
    header: headerOf(header),
    transactions: readList(transactions).map((raw) =>
      raw instanceof Uint8Array ? raw : encodeRlp(raw),
    ),
    ommers: readList(ommers).map(headerOf),
    withdrawals: withdrawals === undefined ? undefined : readList(withdrawals).map(withdrawalOf),
  }
}

const withdrawalItems = (withdrawal: Withdrawal): RlpItem => [
  rlpUint(withdrawal.index),
  rlpUint(withdrawal.validatorIndex),
  withdrawal.address,
  rlpUint(withdrawal.amount),
]

function withdrawalOf(item: RlpItem): Withdrawal {
  const [index, validatorIndex, address, amount, ...rest] = readList(item, ' for types.Withdrawal')
  if (amount === undefined || rest.length > 0)
    throw new RlpError('rlp: a withdrawal has 4 fields: index, validatorIndex, address, amount')
  return {
    index: readUint(index!, 8),
    validatorIndex: readUint(validatorIndex!, 8),
    address: readFixed(address!, 20),
    amount: readUint(amount, 8),
  }
}

/** Attributes of the next block and its first transaction, from the parent and a simulated L1. */
import { decodeExtraData, encodeExtraData, nextBaseFee } from '../../chainspec/base-fee.ts'
import {
  L1_BLOCK,
  type L1Attributes,
  l1AttributesDeposit,
  SEQUENCER_FEE_VAULT,
} from '../../chainspec/l1-attributes.ts'
import type { L1FeeParameters } from '../../chainspec/l1-fee.ts'
import type { ChainSpec } from '../../chainspec/types.ts'
import type { BlockAttributes } from '../../execution/transaction/types.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import type { DepositTransaction } from '../../primitives/transaction.ts'
import { bigintToBytes, concatBytes } from '../../primitives/words.ts'

/** Inputs of fees: prices on the simulated L1 (wei), and values of the system configuration. */
export type L1FeeInputs = Omit<L1FeeParameters, 'overhead' | 'scalar'>

/** Constants of the simulated L1 (seconds), with X Layer's values. */
const L1 = {
  blockTime: 12n,
  /** L1 height at the genesis of the chain. */
  genesisNumber: 23_668_700n,
  batcher: '0xdfd6c636dcb5a013c2431316c4a0762b84e70a5d',
} as const

type Parent = { readonly hash: Bytes; readonly header: Header }

/**
 * Returns the attributes of the next block.
 * @param options another `salt` makes another block on the same parent
 */
export function nextAttributes(
  chain: ChainSpec,
  parent: Parent,
  {
    timestamp,
    salt = NO_BYTES,
    gasLimit = parent.header.gasLimit,
  }: {
    readonly timestamp: bigint
    readonly salt?: Bytes | undefined
    readonly gasLimit?: bigint | undefined
  },
): BlockAttributes {
  const { header } = parent
  const beaconRoot = concatBytes(l1BlockOf(chain, timestamp).hash, text('beacon block root'))
  return {
    parentHash: parent.hash,
    parentBeaconBlockRoot: keccak256(beaconRoot),
    coinbase: hexToBytes(SEQUENCER_FEE_VAULT),
    prevRandao: keccak256(concatBytes(parent.hash, text('prevRandao'), salt)),
    number: header.number + 1n,
    gasLimit,
    timestamp,
    extraData: nextExtraData(chain, header, timestamp),
    baseFee: nextBaseFee(chain, header, timestamp),
  }
}

/** Makes the L1-attributes deposit of a block with these attributes. */
export function attributesDeposit(
  chain: ChainSpec,
  attributes: BlockAttributes,
  feeInputs: L1FeeInputs,
): DepositTransaction {
  const rules = chain.rulesAt(attributes.number, attributes.timestamp)
  const l1: L1Attributes = {
    ...feeInputs,
    ...(hasL1Block(chain) ? {} : FREE),
    ...l1BlockOf(chain, attributes.timestamp),
    batcherHash: concatBytes(new Uint8Array(12), hexToBytes(L1.batcher)),
    overhead: 0n,
    scalar: 0n,
  }
  return l1AttributesDeposit(l1, rules.l1Attributes)
}

/**
 * Copies the parent's parameters. At the fork that introduces them, the chain's constants apply.
 */
function nextExtraData(chain: ChainSpec, parent: Header, timestamp: bigint): Bytes {
  const rules = chain.rulesAt(parent.number + 1n, timestamp)
  const before = chain.rulesAt(parent.number, parent.timestamp).extraDataVersion
  const parameters =
    before === undefined
      ? { ...chain.eip1559, minBaseFee: 0n }
      : decodeExtraData(parent.extraData, before)
  return encodeExtraData(parameters, rules.extraDataVersion)
}

/**
 * Fees depend on the contract's storage, while receipts show the calldata. Without the contract,
 * both agree only on zero values.
 */
const FREE = {
  baseFeeScalar: 0n,
  blobBaseFeeScalar: 0n,
  operatorFeeScalar: 0n,
  operatorFeeConstant: 0n,
  daFootprintGasScalar: 0n,
}
const hasL1Block = ({ alloc }: ChainSpec) => alloc?.get(L1_BLOCK)?.code !== undefined

/**
 * Returns the L1 block from which an L2 block of this timestamp (seconds) derives; a new one starts
 * every 12 s.
 */
export function l1BlockOf(
  chain: ChainSpec,
  timestamp: bigint,
): Pick<L1Attributes, 'number' | 'timestamp' | 'hash' | 'sequenceNumber'> {
  const age = timestamp - chain.genesisHeader.timestamp
  const blocks = age / L1.blockTime
  const number = L1.genesisNumber + blocks
  return {
    number,
    timestamp: chain.genesisHeader.timestamp + blocks * L1.blockTime,
    hash: keccak256(concatBytes(chain.genesisHash, bigintToBytes(number, 8))),
    sequenceNumber: (age % L1.blockTime) / BigInt(chain.blockTime),
  }
}

const text = (value: string) => new TextEncoder().encode(value)

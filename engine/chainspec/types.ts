/** What a chain is: its forks, its constants, its genesis. */
import type { Bytes, Hex } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'

/** OP forks in order; a place for the next is one more line in the table of forks. */
export type OptimismFork =
  | 'bedrock'
  | 'regolith'
  | 'canyon'
  | 'ecotone'
  | 'fjord'
  | 'granite'
  | 'holocene'
  | 'isthmus'
  | 'jovian'

/** What an engine must know of the rules at a block; `spec` names the EVM fork ("prague"). */
export type EvmRules = {
  readonly spec: string
  readonly chainId: bigint
  /** Precompiled contracts that differ from the fork's own, by address in lower-case hex: gas and input limits of OP forks. */
  readonly precompiles: 'ethereum' | 'fjord' | 'granite' | 'isthmus' | 'jovian'
}

/** Every rule that depends on the fork, as plain data: read by fees, deposits, header rules and precompiles alike. */
export type Rules = {
  readonly chainId: bigint
  /** undefined: an L1 chain. */
  readonly optimism: OptimismFork | undefined
  /** EVM fork by name: "chainstart", "homestead" … "paris" … "prague", "osaka", "bpo1" … */
  readonly spec: string
  readonly evm: EvmRules
  readonly l1Fee: 'none' | 'bedrock' | 'regolith' | 'ecotone' | 'fjord'
  /** `gas × scalar / 10^6 + constant` or `gas × scalar × 100 + constant`. */
  readonly operatorFee: 'none' | 'isthmus' | 'jovian'
  readonly hasDaFootprint: boolean
  /** extraData of this block: 0, 9 or 17 bytes of EIP-1559 parameters for the next. */
  readonly extraData: 'free' | 'holocene' | 'jovian'
  readonly depositReceiptVersion: 0n | 1n | undefined
  /** Header fields present from this fork. */
  readonly header: {
    readonly baseFee: boolean
    readonly withdrawals: 'none' | 'empty' | 'messagePasser'
    readonly blobs: boolean
    readonly beaconRoot: boolean
    readonly requests: boolean
  }
  /** EIP-2935 and EIP-4788 system calls before the first transaction. */
  readonly systemCalls: { readonly blockHashes: boolean; readonly beaconRoot: boolean }
  readonly gaslessContract: Bytes | undefined
  /** Its logs are requests of the block (EIP-6110), and two system contracts make further ones; undefined: no requests (an OP chain). */
  readonly depositContract: Bytes | undefined
  /** Base-fee constants where the parent's extraData holds none (before Holocene), or holds zeros. */
  readonly eip1559: FeeConstants
  /** undefined: no blob transactions here (before Cancun, and on an OP chain). */
  readonly blobs: BlobSchedule | undefined
  /** Wei to the miner, 0 from the merge on; greater than 0 says that the block is before the merge. */
  readonly blockReward: bigint
}

export type FeeConstants = { readonly denominator: bigint; readonly elasticity: bigint }
export type BlobSchedule = {
  /** Blobs in a block. */
  readonly target: bigint
  readonly max: bigint
  readonly updateFraction: bigint
}

export type GenesisAccount = {
  readonly nonce?: bigint
  readonly balance: bigint
  readonly code?: Bytes
  readonly storage?: readonly { readonly key: Bytes; readonly value: Bytes }[]
}

export type ChainSpec = {
  readonly name: string
  readonly chainId: bigint
  /** Number of the first block (not 0 on X Layer). */
  readonly genesisNumber: bigint
  /** Header of the first block; the state root is a constant where the allocation is not at hand. */
  readonly genesisHeader: Header
  readonly genesisHash: Bytes
  /** Address in lower-case hex → account; undefined: not at hand. */
  readonly alloc: ReadonlyMap<Hex, GenesisAccount> | undefined
  /** EIP-1559 constants before Holocene, and where attributes hold zero parameters. */
  readonly eip1559: FeeConstants
  /** Seconds. */
  readonly blockTime: number
  readonly publicFeed?: string
  rulesAt(number: bigint, timestamp: bigint): Rules
}

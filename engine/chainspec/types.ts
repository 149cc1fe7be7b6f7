/** Types of a chain: its forks, its constants, its genesis. */
import type { Bytes, Hex } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'

export type EvmRules = {
  /**
   * EVM fork by the name in the engine's library: opcodes, their gas, the precompiled contracts.
   */
  readonly spec: string
  readonly chainId: bigint
  /** undefined: the precompiled contracts of the EVM fork, as on Ethereum. */
  readonly precompiles: PrecompileChanges | undefined
}

export type EvmContracts = {
  /**
   * Price by the length in bytes (EIP-198), or by words of 8 bytes (EIP-2565). 'bounded' is dearer,
   * for at most 1024 bytes (EIP-7883, EIP-7823).
   */
  readonly modexp: 'none' | 'bytes' | 'words' | 'bounded'
  /** Original price (EIP-196, EIP-197), or a quarter to a half of it (EIP-1108). */
  readonly bn254: 'none' | 'dear' | 'cheap'
  readonly hasBlake2f: boolean
  readonly hasPointEvaluation: boolean
  readonly hasBls12: boolean
  readonly hasP256Verify: boolean
}

/** New features of an EVM fork's opcodes. */
export type EvmOpcodes = {
  /**
   * TLOAD, TSTORE, MCOPY, BLOBHASH, and SELFDESTRUCT that only moves the balance (EIP-1153,
   * EIP-5656, EIP-4844, EIP-6780).
   */
  readonly hasTransientStorage: boolean
  /** Calls follow delegations, by which an account runs another account's code (EIP-7702). */
  readonly hasDelegations: boolean
  /** CLZ (EIP-7939). */
  readonly hasLeadingZeros: boolean
}

/**
 * Differences of precompiled contracts from the EVM fork. Each row of the table of forks has one
 * object.
 */
export type PrecompileChanges = {
  /**
   * Gas of P256VERIFY. Ethereum has that contract only from a later fork on, at twice the price
   * (RIP-7212, EIP-7951).
   */
  readonly p256VerifyGas: bigint
  /** Low byte of the address → maximum bytes of input; longer input uses all gas. */
  readonly maxInputBytes: Readonly<Record<number, number>>
}

/**
 * Every rule that depends on the fork, as plain data for fees, deposits, header rules and
 * precompiles.
 */
export type Rules = {
  readonly chainId: bigint
  /** Newest active fork, as information for people. Code only compares it between two blocks. */
  readonly fork: string
  readonly isOptimism: boolean
  /**
   * Deposits of an editor without a key set accounts (execution/transaction/edits.ts), on
   * development chains only.
   */
  readonly hasEdits: boolean
  /** EVM fork as in `evm`. */
  readonly spec: string
  readonly evm: EvmRules
  /**
   * Basis of the L1 fee: calldata and an overhead, calldata at the prices of gas and blobs, or
   * estimated compressed bytes.
   */
  readonly l1Fee: 'none' | 'overhead' | 'blobs' | 'compressed'
  /** Non-zero bytes that a signature counts as, besides the envelope; for 'overhead' only. */
  readonly l1SignatureBytes: bigint
  /** Layout of the L1 attributes, named by its newest fields. */
  readonly l1Attributes: 'overhead' | 'blobs' | 'operator' | 'footprint'
  /** `gas × scalar × multiplier / divisor + constant`; undefined: none. */
  readonly operatorFee: { readonly multiplier: bigint; readonly divisor: bigint } | undefined
  readonly hasDaFootprint: boolean
  /** A block may end with a transaction that refunds gas (execution/transaction/post-exec.ts). */
  readonly hasPostExec: boolean
  /** The first block under these rules has deposits only, whichever fork brought the rules. */
  readonly startsWithDeposits: boolean
  /**
   * Version byte of the next block's EIP-1559 parameters in extraData: 0 for 9 bytes, 1 for 17.
   * undefined: extraData is free.
   */
  readonly extraDataVersion: 0 | 1 | undefined
  readonly depositReceiptVersion: 0n | 1n | undefined
  /** System deposits use no gas; all others use their whole limit. */
  readonly hasSystemDeposits: boolean
  /** Highest type of a signed transaction; type 3 only with blobs. */
  readonly newestTransactionType: 0 | 1 | 2 | 3 | 4
  readonly gas: GasRules
  /** Maximum in bytes (EIP-3860); undefined: unlimited. */
  readonly maxInitCodeBytes: number | undefined
  /** Sender, receiver and the addresses of an access list are warm from the start (EIP-2929). */
  readonly hasWarmAddresses: boolean
  /** The fee recipient is warm as well (EIP-3651). */
  readonly isCoinbaseWarm: boolean
  /**
   * A receipt contains the status of the transaction (EIP-658); before, it contained a state root.
   */
  readonly hasReceiptStatus: boolean
  /** SELFDESTRUCT deletes only contracts that the same transaction created (EIP-6780). */
  readonly keepsDestroyed: boolean
  /** An account can run another account's code as its own (EIP-7702). */
  readonly hasDelegations: boolean
  /** There are no miners: difficulty, nonce and ommers of a header have no meaning (EIP-3675). */
  readonly isMerged: boolean
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
  /**
   * Logs of this contract are requests of the block (EIP-6110); two system contracts add more.
   * undefined: no requests (an OP chain).
   */
  readonly depositContract: Bytes | undefined
  /** Base-fee constants for a parent whose extraData has none (before Holocene), or zeros. */
  readonly eip1559: FeeConstants
  /** undefined: no blob transactions (before Cancun, and on an OP chain). */
  readonly blobs: BlobSchedule | undefined
  /** undefined: as many as in a block (EIP-7594 sets 6). */
  readonly maxBlobsOfTransaction: number | undefined
  /** Version of a sidecar: 1 has proofs of cells (EIP-7594). */
  readonly sidecarVersion: 0 | 1
  /** Blobs cost at least as much as execution gas (EIP-7918). */
  readonly hasBlobReserve: boolean
  /**
   * Wei for the miner, 0 from the merge on. A value above 0 means that the block is before the
   * merge.
   */
  readonly blockReward: bigint
}

/** Gas of a transaction besides that of its opcodes. */
export type GasRules = {
  readonly creation: number
  /** Gas of a byte of calldata that is not 0. */
  readonly nonZeroByte: number
  /** Gas of 32 bytes of init code (EIP-3860). */
  readonly initCodeWord: number
  /** Minimum gas for each token of calldata (EIP-7623); 0: no minimum. */
  readonly floorOfToken: number
  /** The refund is at most the used gas divided by this number (EIP-3529). */
  readonly refundQuotient: bigint
  /** Maximum gas limit of a transaction (EIP-7825); undefined: that of the block. */
  readonly limit: bigint | undefined
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
  /** Header of the first block. The state root is a constant when the allocation is unavailable. */
  readonly genesisHeader: Header
  readonly genesisHash: Bytes
  /**
   * Genesis hash from which fork ids start, if it is an older genesis; undefined: `genesisHash`.
   */
  readonly forkIdGenesis?: Bytes | undefined
  /** Address in lower-case hex → account; undefined: unavailable. */
  readonly alloc: ReadonlyMap<Hex, GenesisAccount> | undefined
  /** EIP-1559 constants before Holocene, and for attributes with zero parameters. */
  readonly eip1559: FeeConstants
  /** Seconds. */
  readonly blockTime: number
  /** Fork → block number or seconds of its start; the basis of `rulesAt`. */
  readonly schedule: { readonly [fork: string]: bigint | undefined }
  rulesAt(number: bigint, timestamp: bigint): Rules
}

/** What a chain is: its forks, its constants, its genesis. */
import type { Bytes, Hex } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'

/** What an engine must know of the rules at a block. */
export type EvmRules = {
  /** EVM fork by the name that the engine's library has for it: opcodes, their gas, the precompiled contracts. */
  readonly spec: string
  readonly chainId: bigint
  /** undefined: those of the EVM fork, as on Ethereum. */
  readonly precompiles: PrecompileChanges | undefined
}

/** The precompiled contracts of an EVM fork. */
export type EvmContracts = {
  /** Its price: by the lengths in bytes (EIP-198), by words of 8 bytes (EIP-2565), or dearer than that for at most 1024 bytes (EIP-7883, EIP-7823). */
  readonly modexp: 'none' | 'bytes' | 'words' | 'bounded'
  /** As they came (EIP-196, EIP-197), or at a quarter to a half of the price (EIP-1108). */
  readonly bn254: 'none' | 'dear' | 'cheap'
  readonly hasBlake2f: boolean
  readonly hasPointEvaluation: boolean
  readonly hasBls12: boolean
  readonly hasP256Verify: boolean
}

/** What an EVM fork's opcodes can do more than an older one's, as far as it is new. */
export type EvmOpcodes = {
  /** TLOAD, TSTORE, MCOPY, BLOBHASH, and SELFDESTRUCT that only moves the balance (EIP-1153, EIP-5656, EIP-4844, EIP-6780). */
  readonly hasTransientStorage: boolean
  /** Calls follow an account that lets another one's code run as its own (EIP-7702). */
  readonly hasDelegations: boolean
  /** CLZ (EIP-7939). */
  readonly hasLeadingZeros: boolean
}

/** Where precompiled contracts differ from the EVM fork's own. One object for each row of the table of forks. */
export type PrecompileChanges = {
  /** Gas of P256VERIFY, which Ethereum has from a later fork on and at twice the price (RIP-7212, EIP-7951). */
  readonly p256VerifyGas: bigint
  /** Low byte of the address → bytes; longer input takes all gas. */
  readonly maxInputBytes: Readonly<Record<number, number>>
}

/** Every rule that depends on the fork, as plain data: read by fees, deposits, header rules and precompiles alike. */
export type Rules = {
  readonly chainId: bigint
  /** The newest active fork, for people to read; code asks only whether two blocks have the same one. */
  readonly fork: string
  readonly isOptimism: boolean
  /** Deposits of an editor that nobody is say what accounts are (execution/transaction/edits.ts): development chains alone. */
  readonly hasEdits: boolean
  /** As in `evm`. */
  readonly spec: string
  readonly evm: EvmRules
  /** What the L1 fee counts: calldata and an overhead, calldata at the prices of gas and blobs, or an estimate of compressed bytes. */
  readonly l1Fee: 'none' | 'overhead' | 'blobs' | 'compressed'
  /** Bytes other than zero that a signature is counted as, beside the envelope; 'overhead' only. */
  readonly l1SignatureBytes: bigint
  /** Layout of the L1 attributes, by what it has more than the one before. */
  readonly l1Attributes: 'overhead' | 'blobs' | 'operator' | 'footprint'
  /** `gas × scalar × multiplier / divisor + constant`; undefined: none. */
  readonly operatorFee: { readonly multiplier: bigint; readonly divisor: bigint } | undefined
  readonly hasDaFootprint: boolean
  /** A block may end with a transaction that gives gas back (execution/transaction/post-exec.ts). */
  readonly hasPostExec: boolean
  /** The first block under these rules has deposits only, whichever fork brought the rules. */
  readonly startsWithDeposits: boolean
  /** Version byte of the EIP-1559 parameters for the next block in extraData: 0 of 9 bytes, 1 of 17; undefined: extraData is free. */
  readonly extraDataVersion: 0 | 1 | undefined
  readonly depositReceiptVersion: 0n | 1n | undefined
  /** Deposits of the system itself, which use no gas; all others use all of theirs. */
  readonly hasSystemDeposits: boolean
  /** Greatest type of a signed transaction; type 3 only where there are blobs. */
  readonly newestTransactionType: 0 | 1 | 2 | 3 | 4
  readonly gas: GasRules
  /** Bytes (EIP-3860); undefined: not limited. */
  readonly maxInitCodeBytes: number | undefined
  /** Sender, receiver and what an access list names are warm from the start (EIP-2929). */
  readonly hasWarmAddresses: boolean
  /** The fee recipient as well (EIP-3651). */
  readonly isCoinbaseWarm: boolean
  /** A receipt says whether the transaction succeeded (EIP-658), before it said the state root after it. */
  readonly hasReceiptStatus: boolean
  /** SELFDESTRUCT deletes only what the same transaction created (EIP-6780). */
  readonly keepsDestroyed: boolean
  /** An account can let another one's code run as its own (EIP-7702). */
  readonly hasDelegations: boolean
  /** No miners: difficulty, nonce and ommers of a header say nothing (EIP-3675). */
  readonly isMerged: boolean
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
  /** undefined: as many as in a block (EIP-7594 sets 6). */
  readonly maxBlobsOfTransaction: number | undefined
  /** Of the form in which blobs come with their transaction: 1 with proofs of cells (EIP-7594). */
  readonly sidecarVersion: 0 | 1
  /** Blobs cost at least what they would as execution gas (EIP-7918). */
  readonly hasBlobReserve: boolean
  /** Wei to the miner, 0 from the merge on; greater than 0 says that the block is before the merge. */
  readonly blockReward: bigint
}

/** Gas of a transaction beside that of its opcodes. */
export type GasRules = {
  /** Of a creation, beside what every transaction costs. */
  readonly creation: number
  /** Of a byte of calldata that is not 0. */
  readonly nonZeroByte: number
  /** Of 32 bytes of init code (EIP-3860). */
  readonly initCodeWord: number
  /** Least gas for each token of calldata (EIP-7623); 0: there is no such floor. */
  readonly floorOfToken: number
  /** At most the used gas divided by it is refunded (EIP-3529). */
  readonly refundQuotient: bigint
  /** Most that a transaction may ask for (EIP-7825); undefined: what the block has. */
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
  /** Header of the first block; the state root is a constant where the allocation is not at hand. */
  readonly genesisHeader: Header
  readonly genesisHash: Bytes
  /** From where fork ids count, if it is an older genesis; undefined: `genesisHash`. */
  readonly forkIdGenesis?: Bytes | undefined
  /** Address in lower-case hex → account; undefined: not at hand. */
  readonly alloc: ReadonlyMap<Hex, GenesisAccount> | undefined
  /** EIP-1559 constants before Holocene, and where attributes hold zero parameters. */
  readonly eip1559: FeeConstants
  /** Seconds. */
  readonly blockTime: number
  /** Fork → block number or seconds of its start; what `rulesAt` is made from. */
  readonly schedule: { readonly [fork: string]: bigint | undefined }
  rulesAt(number: bigint, timestamp: bigint): Rules
}

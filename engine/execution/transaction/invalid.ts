/**
 * Reasons why a transaction cannot be in a block or in the txpool, with all their texts
 * (go-ethereum: core/error.go, core/txpool; reth: rpc-eth-types, RpcInvalidTransactionError).
 * Callers branch on codes, because texts differ between clients and versions.
 */
type Reason<Code extends string> = {
  /** Names the broken rule. */
  readonly code: Code
  /**
   * The transaction is wrong in itself, or valid but rejected. JSON-RPC has a code for each
   * (EIP-1474: invalid input, transaction rejected).
   */
  readonly why: 'input' | 'rejected'
  readonly message: string
}

const input = <Code extends string>(code: Code, message: string): Reason<Code> => ({
  code,
  why: 'input',
  message,
})
const rejected = <Code extends string>(code: Code, message: string): Reason<Code> => ({
  code,
  why: 'rejected',
  message,
})

/** Reasons of block execution. */
export const invalid = {
  nonceTooLow: (next: bigint, given: bigint) =>
    input('nonceTooLow', `nonce too low: next nonce ${next}, tx nonce ${given}`),
  nonceTooHigh: () => input('nonceTooHigh', 'nonce too high'),
  intrinsicGasTooLow: () => input('gasTooLow', 'intrinsic gas too low'),
  feeBelowBaseFee: () => input('feeBelowBaseFee', 'max fee per gas less than block base fee'),
  chainId: () => input('chainId', 'invalid chain ID'),
  depositsOnly: () => input('depositsOnly', 'the first block of a fork takes deposits only'),
  /** The follower's fork schedule differs from the network's. */
  unscheduledFork: (fork: string, timestamp: bigint) =>
    input(
      'unscheduledFork',
      `the first deposit of ${fork} in a block that does not start it here (--fork-time ${fork}=${timestamp} would)`,
    ),
  afterPostExec: () => input('postExec', 'a transaction after the post-exec transaction'),
  postExecNotLast: () =>
    input('postExec', 'a post-exec transaction that is not the last of its block'),
  postExecNumber: (given: bigint, number: bigint) =>
    input('postExec', `a post-exec transaction of block ${given} in block ${number}`),
  refundTarget: (index: bigint) =>
    input('gasRefund', `a gas refund for ${index}, no signed transaction`),
  refundAboveGas: (refund: bigint, gas: bigint) =>
    input('gasRefund', `a gas refund of ${refund} for ${gas} used`),
  exceedsBlockGasLimit: () => input('exceedsBlockGasLimit', 'exceeds block gas limit'),
  exceedsDaFootprintLimit: () =>
    input('exceedsDaFootprintLimit', 'exceeds block DA footprint limit'),
  /** No block can include the transaction; a block without enough space left has another reason. */
  daFootprintTooLarge: (footprint: bigint, limit: bigint) =>
    input(
      'daFootprintTooLarge',
      `DA footprint exceeds block gas limit: footprint ${footprint}, limit ${limit}`,
    ),
  exceedsGasCap: (cap: bigint, gas: bigint) =>
    input('exceedsGasCap', `transaction gas limit too high (cap: ${cap}, tx: ${gas})`),
  initCodeSize: () => input('initCodeSize', 'max initcode size exceeded'),
  gasAllowance: (gas: bigint) => input('gasAllowance', `gas required exceeds allowance (${gas})`),

  nonceMax: () => rejected('nonceMax', 'nonce has max value'),
  senderIsContract: () => rejected('senderIsContract', 'sender is not an EOA'),
  tipAboveFee: () =>
    rejected('tipAboveFee', 'max priority fee per gas higher than max fee per gas'),
  type: () => rejected('type', 'transaction type not supported'),
  funds: (have: bigint, want: bigint) =>
    rejected('funds', `insufficient funds for gas * price + value: have ${have} want ${want}`),
  transferFunds: () => rejected('funds', 'insufficient funds for transfer'),
  blobFee: () => rejected('blobFee', 'max fee per blob gas less than block blob gas fee'),
  blobGas: () => rejected('exceedsBlobGasLimit', 'blob gas limit of the block exceeded'),
  blobCreation: () => rejected('blobs', 'blob transaction of type create'),
  noBlobHash: () => rejected('blobs', 'blob transaction missing blob hashes'),
  tooManyBlobs: () => rejected('blobs', 'blob transaction has too many blobs'),
  blobVersion: (index: number, version: number) =>
    rejected('blobs', `blob ${index} has invalid hash version ${version}`),
  delegatingCreation: () =>
    rejected('authorizations', 'EIP-7702 transaction cannot be used to create contract'),
  noAuthorization: () => rejected('authorizations', 'EIP-7702 transaction with empty auth list'),
  systemTransaction: () =>
    rejected('systemTransaction', 'no system transactions allowed after regolith'),
}

/** Reasons of the txpool; those that the geth txpool words otherwise have its texts. */
export const refusal = {
  alreadyKnown: () => input('alreadyKnown', 'already known'),
  /** The sequencer could not include the transaction, or somebody removed it. */
  dropped: (reason: string) => rejected('dropped', `transaction was dropped: ${reason}`),
  oversized: (size: number, limit: number) =>
    input('oversized', `oversized data: transaction size ${size}, limit ${limit}`),
  undecodable: (why: string) => input('undecodable', why),
  type: () => input('type', 'transaction type not supported'),
  unprotected: () =>
    input('unprotected', 'only replay-protected (EIP-155) transactions allowed over RPC'),
  feeAboveCap: (fee: bigint, cap: bigint) =>
    input('feeAboveCap', `tx fee (${fee} wei) exceeds the configured cap (${cap} wei)`),
  initCodeSize: (size: number, limit: number) =>
    input('initCodeSize', `max initcode size exceeded: code size ${size} limit ${limit}`),
  chainId: (have: bigint, want: bigint) =>
    input('chainId', `invalid sender: invalid chain id for signer: have ${have} want ${want}`),
  intrinsicGasTooLow: (gas: bigint, min: bigint) =>
    input('gasTooLow', `intrinsic gas too low: gas ${gas}, minimum needed ${min}`),
  floorGasTooLow: (gas: bigint, min: bigint) =>
    input(
      'gasTooLow',
      `insufficient gas for floor data gas cost: gas ${gas}, minimum needed ${min}`,
    ),
  tipTooLow: (tip: bigint, min: bigint) =>
    input('underpriced', `transaction underpriced: gas tip cap ${tip}, minimum needed ${min}`),
  noAuthorization: () =>
    input('authorizations', 'set code tx must have at least one authorization tuple'),
  reserved: () => input('reserved', 'address already reserved'),
  replacementUnderpriced: (why = '') =>
    input('replacementUnderpriced', `replacement transaction underpriced${why}`),
  accountLimit: (count: number) =>
    input('accountLimit', `account limit exceeded: pooled ${count} txs`),
  underpriced: () => input('underpriced', 'transaction underpriced'),
  full: () => rejected('full', 'txpool is full'),
  blobFeeTooLow: (fee: bigint, min: bigint) =>
    input(
      'underpriced',
      `transaction gas price below minimum: blob fee cap ${fee}, minimum needed ${min}`,
    ),
  tooManyBlobs: (count: number, limit: number) =>
    input('blobs', `transaction blob limit exceeded: blob count ${count}, limit ${limit}`),
  sidecar: (what: string) => input('sidecar', what),
}

export type InvalidCode = ReturnType<
  (typeof invalid)[keyof typeof invalid] | (typeof refusal)[keyof typeof refusal]
>['code']

/** Reason why a transaction is invalid, in geth's words. */
export type InvalidTransaction = Reason<InvalidCode>

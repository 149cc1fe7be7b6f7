/**
 * Reasons why a transaction cannot be in a block, with all their texts (go-ethereum: core/error.go;
 * reth: rpc-eth-types, RpcInvalidTransactionError).
 */
import type { InvalidTransaction } from './types.ts'

const input = (message: string): InvalidTransaction => ({ why: 'input', message })
const rejected = (message: string): InvalidTransaction => ({ why: 'rejected', message })

export const invalid = {
  nonceTooLow: (next: bigint, given: bigint) =>
    input(`nonce too low: next nonce ${next}, tx nonce ${given}`),
  nonceTooHigh: () => input('nonce too high'),
  intrinsicGasTooLow: () => input('intrinsic gas too low'),
  feeBelowBaseFee: () => input('max fee per gas less than block base fee'),
  chainId: () => input('invalid chain ID'),
  depositsOnly: () => input('the first block of a fork takes deposits only'),
  /** The follower's fork schedule differs from the network's. */
  unscheduledFork: (fork: string, timestamp: bigint) =>
    input(
      `the first deposit of ${fork} in a block that does not start it here (--fork-time ${fork}=${timestamp} would)`,
    ),
  afterPostExec: () => input('a transaction after the post-exec transaction'),
  postExecNotLast: () => input('a post-exec transaction that is not the last of its block'),
  postExecNumber: (given: bigint, number: bigint) =>
    input(`a post-exec transaction of block ${given} in block ${number}`),
  refundTarget: (index: bigint) => input(`a gas refund for ${index}, no signed transaction`),
  refundAboveGas: (refund: bigint, gas: bigint) =>
    input(`a gas refund of ${refund} for ${gas} used`),
  exceedsBlockGasLimit: () => input('exceeds block gas limit'),
  exceedsDaFootprintLimit: () => input('exceeds block DA footprint limit'),
  /** No block can include the transaction; a block without enough space left has another reason. */
  daFootprintTooLarge: (footprint: bigint, limit: bigint) =>
    input(`DA footprint exceeds block gas limit: footprint ${footprint}, limit ${limit}`),
  exceedsGasCap: (cap: bigint, gas: bigint) =>
    input(`transaction gas limit too high (cap: ${cap}, tx: ${gas})`),
  initCodeSize: () => input('max initcode size exceeded'),
  gasAllowance: (gas: bigint) => input(`gas required exceeds allowance (${gas})`),

  nonceMax: () => rejected('nonce has max value'),
  senderIsContract: () => rejected('sender is not an EOA'),
  tipAboveFee: () => rejected('max priority fee per gas higher than max fee per gas'),
  type: () => rejected('transaction type not supported'),
  funds: (have: bigint, want: bigint) =>
    rejected(`insufficient funds for gas * price + value: have ${have} want ${want}`),
  transferFunds: () => rejected('insufficient funds for transfer'),
  blobFee: () => rejected('max fee per blob gas less than block blob gas fee'),
  blobHashes: (what: string) => rejected(what),
  authorizations: (what: string) => rejected(what),
  systemTransaction: () => rejected('no system transactions allowed after regolith'),
}

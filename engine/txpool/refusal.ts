/** Reasons for which the txpool refuses a transaction, with geth's texts where geth has them. */
import { invalid } from '../execution/transaction/invalid.ts'
import type { InvalidTransaction } from '../execution/transaction/types.ts'

const input = (message: string): InvalidTransaction => ({ why: 'input', message })
const rejected = (message: string): InvalidTransaction => ({ why: 'rejected', message })

export const refusal = {
  alreadyKnown: () => input('already known'),
  /** The sequencer could not include the transaction, or somebody removed it. */
  dropped: (reason: string) => rejected(`transaction was dropped: ${reason}`),
  oversized: (size: number, limit: number) =>
    input(`oversized data: transaction size ${size}, limit ${limit}`),
  undecodable: (why: string) => input(why),
  type: () => input('transaction type not supported'),
  unprotected: () => input('only replay-protected (EIP-155) transactions allowed over RPC'),
  feeAboveCap: (fee: bigint, cap: bigint) =>
    input(`tx fee (${fee} wei) exceeds the configured cap (${cap} wei)`),
  initCodeSize: (size: number, limit: number) =>
    input(`max initcode size exceeded: code size ${size} limit ${limit}`),
  exceedsGasCap: invalid.exceedsGasCap,
  exceedsBlockGasLimit: invalid.exceedsBlockGasLimit,
  tipAboveFee: invalid.tipAboveFee,
  chainId: (have: bigint, want: bigint) =>
    input(`invalid sender: invalid chain id for signer: have ${have} want ${want}`),
  nonceMax: invalid.nonceMax,
  nonceTooLow: invalid.nonceTooLow,
  senderIsContract: invalid.senderIsContract,
  intrinsicGasTooLow: (gas: bigint, min: bigint) =>
    input(`intrinsic gas too low: gas ${gas}, minimum needed ${min}`),
  floorGasTooLow: (gas: bigint, min: bigint) =>
    input(`insufficient gas for floor data gas cost: gas ${gas}, minimum needed ${min}`),
  tipTooLow: (tip: bigint, min: bigint) =>
    input(`transaction underpriced: gas tip cap ${tip}, minimum needed ${min}`),
  noAuthorization: () => input('set code tx must have at least one authorization tuple'),
  daFootprintTooLarge: invalid.daFootprintTooLarge,
  funds: invalid.funds,
  reserved: () => input('address already reserved'),
  replacementUnderpriced: () => input('replacement transaction underpriced'),
  accountLimit: (count: number) => input(`account limit exceeded: pooled ${count} txs`),
  underpriced: () => input('transaction underpriced'),
  full: () => rejected('txpool is full'),
}

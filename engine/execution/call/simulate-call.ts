/**
 * Converts a call of eth_simulateV1 to a message, and to the unsigned transaction that its block
 * lists.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { BlockEnv } from '../../evm/engine.ts'
import type { SignedTransaction } from '../../primitives/transaction.ts'
import { encodeTransaction, transactionHash } from '../../primitives/transaction-codec.ts'
import { type CallRequest, messageOf } from './call.ts'
import type { SimulatedMessage } from './message.ts'
import { SimulationError } from './simulate-chain.ts'

/** @throws {SimulationError} for fees that contradict each other, and for another chain's id */
export function simulationMessage(
  request: CallRequest & { readonly gas: bigint },
  env: BlockEnv,
  chain: Pick<ChainSpec, 'chainId'>,
): SimulatedMessage {
  const message = messageOf(request, env, chain)
  if (typeof message === 'string') throw new SimulationError('input', message)
  return { ...message, gas: request.gas }
}

/** Makes a transaction without a signature: v, r and s are zero. */
export function simulatedTransaction(
  call: CallRequest,
  of: { readonly message: SimulatedMessage; readonly nonce: bigint; readonly chainId: bigint },
): SignedTransaction {
  const { message, nonce, chainId } = of
  const { from, to, value, input, gas: gasLimit, accessList } = message
  const common = { nonce, to, value, input, gasLimit, v: 0n, r: 0n, s: 0n }
  const fees = { maxFeePerGas: message.feeCap, maxPriorityFeePerGas: message.tipCap }
  const modern = { ...common, ...fees, chainId, accessList }
  const fields =
    call.gasPrice !== undefined
      ? { ...common, type: 0 as const, gasPrice: call.gasPrice, chainId: undefined }
      : message.authorizations !== undefined
        ? { ...modern, type: 4 as const, authorizationList: message.authorizations }
        : message.blobHashes !== undefined
          ? {
              ...modern,
              type: 3 as const,
              maxFeePerBlobGas: message.blobFeeCap,
              blobVersionedHashes: message.blobHashes,
            }
          : { ...modern, type: 2 as const }
  const raw = encodeTransaction(fields)
  return { ...fields, raw, hash: transactionHash(raw), from }
}

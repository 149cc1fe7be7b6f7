/** Transactions that are sent without a key, or whose gas is estimated before signing. */
import { type Bytes, NO_BYTES } from '../../engine/primitives/bytes.ts'
import { failed } from '../core/errors.ts'
import { resultText } from '../core/executor.ts'
import type { SendDeposit } from '../core/ports.ts'
import { transactionCall } from '../json/codecs.ts'
import type { FrontContext } from '../method/method.ts'
import { eth_estimateGas } from './call.ts'
import { type CallFields, checkFields } from './shared/fill.ts'

/** Maximum gas that a deposit can buy on L1. */
export const MAX_DEPOSIT_GAS = 20_000_000n

/**
 * Sends a transaction on a development chain as a deposit, which needs no signature, nonce or fee.
 * @throws {RpcError}
 */
export async function sendUnsigned(
  context: FrontContext,
  call: CallFields,
  { from, send }: { readonly from: Bytes; readonly send: SendDeposit },
): Promise<Bytes> {
  checkFields(call, context)
  if (call.authorizationList !== undefined)
    throw failed('a transaction without a signature cannot have an authorizationList: leave it out')
  const { to, value = 0n, gas } = call
  const gasLimit = gas ?? (await estimated(context, call, from))
  if (gasLimit > MAX_DEPOSIT_GAS)
    throw failed(
      `expected at most ${MAX_DEPOSIT_GAS} gas for a transaction without a signature, got ${gasLimit}`,
    )
  const input = call.input ?? call.data ?? NO_BYTES
  return send({ from, to, mint: 0n, value, gasLimit, input })
}

/**
 * Estimates the gas of a call in the pool.
 * @throws {RpcError}
 */
export async function estimated(
  context: FrontContext,
  call: CallFields,
  from: Bytes,
): Promise<bigint> {
  const wire = transactionCall.encode({ ...call, from })
  const text = resultText(await context.callPool(eth_estimateGas, [wire, 'pending']))
  return BigInt(JSON.parse(text) as string)
}

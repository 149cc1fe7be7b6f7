/** Transactions that are sent without a key of their sender, or before it is asked for. */
import { type Bytes, NO_BYTES } from '../../engine/primitives/bytes.ts'
import { transactionCall } from '../json/codecs.ts'
import type { FrontContext } from '../method/method.ts'
import { failed } from '../seam/errors.ts'
import { resultText } from '../seam/executor.ts'
import type { SendDeposit } from '../seam/ports.ts'
import { eth_estimateGas } from './call.ts'
import { type CallFields, checkFields } from './shared/fill.ts'

/** As much as a deposit may buy on L1. */
export const MOST_DEPOSIT_GAS = 20_000_000n

/** Of a development chain: as a deposit, which is not asked for a signature, a nonce or a fee. @throws {RpcError} */
export async function sendUnsigned(
  context: FrontContext,
  call: CallFields,
  { from, send }: { readonly from: Bytes; readonly send: SendDeposit },
): Promise<Bytes> {
  checkFields(call, context)
  if (call.authorizationList !== undefined)
    throw failed('a transaction without a signature has no authorizationList: leave it out')
  const { to, value = 0n, gas } = call
  const gasLimit = gas ?? (await estimated(context, call, from))
  if (gasLimit > MOST_DEPOSIT_GAS)
    throw failed(`gas of a transaction without a signature is at most ${MOST_DEPOSIT_GAS}`)
  const input = call.input ?? call.data ?? NO_BYTES
  return send({ from, to, mint: 0n, value, gasLimit, input })
}

/** Gas that the call needs, by the pool. @throws {RpcError} */
export async function estimated(
  context: FrontContext,
  call: CallFields,
  from: Bytes,
): Promise<bigint> {
  const wire = transactionCall.encode({ ...call, from })
  const text = resultText(await context.callPool(eth_estimateGas, [wire, 'pending']))
  return BigInt(JSON.parse(text) as string)
}

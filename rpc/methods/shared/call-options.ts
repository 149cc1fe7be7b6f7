/** What eth_call, eth_estimateGas and debug_traceCall have in common: the request as the engine wants it, its failure as the caller does. */
import type { Block } from '../../../engine/chain/types.ts'
import type { CallFailure, CallOptions } from '../../../engine/execution/call/call.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { PoolContext } from '../../method/method.ts'
import { executionReverted, failed, type RpcError, timedOut } from '../../seam/errors.ts'
import type { CallFields } from './fill.ts'
import type { BlockOverrideValue, StateOverrideValue } from './overrides.ts'

export type Overrides = {
  readonly stateOverrides: StateOverrideValue | undefined
  readonly blockOverrides: BlockOverrideValue | undefined
}

/** @throws {ViewError} when the block's state is gone */
export function callOptions(
  { chain, engine, limits, isExpired, stateOf }: PoolContext,
  asked: Overrides & { readonly request: CallFields; readonly block: Block },
): CallOptions {
  const { block, stateOverrides, blockOverrides } = asked
  const { data, ...request } = asked.request
  const input = request.input ?? data
  return {
    engine,
    chain,
    ...stateOf(block),
    request: input === undefined ? request : { ...request, input },
    gasCap: BigInt(limits.callGas),
    limits: { isExpired, memoryBytes: limits.evmMemoryBytes },
    ...(stateOverrides === undefined ? {} : { stateOverrides: stateOverridesOf(stateOverrides) }),
    ...(blockOverrides === undefined ? {} : { blockOverrides: blockOverridesOf(blockOverrides) }),
  }
}

export const stateOverridesOf = (
  value: StateOverrideValue,
): CallOptions['stateOverrides'] & object =>
  value.map(([address, account]) => ({ ...account, address }))

/** Clients write three fields in two ways. */
export function blockOverridesOf(
  value: BlockOverrideValue,
): CallOptions['blockOverrides'] & object {
  const { coinbase, random, baseFee, ...same } = value
  return {
    ...same,
    ...(coinbase === undefined ? {} : { feeRecipient: coinbase }),
    ...(random === undefined ? {} : { prevRandao: random }),
    ...(baseFee === undefined ? {} : { baseFeePerGas: baseFee }),
  }
}

export function failureOf(result: CallFailure): RpcError {
  switch (result.status) {
    case 'revert':
      return executionReverted(bytesToHex(result.output), result.reason)
    case 'refused':
      return failed(result.message)
    case 'missing':
      return failed(`state not available: ${result.what}`)
    case 'stopped':
      return result.why === 'memory'
        ? failed('out of memory: a frame grew beyond its limit')
        : timedOut()
  }
}

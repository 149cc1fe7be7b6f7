/**
 * Common parts of eth_call, eth_estimateGas and debug_traceCall: the engine's options for a
 * request, and errors for the caller.
 */
import type { Block } from '../../../engine/chain/types.ts'
import type { Limits as RunLimits } from '../../../engine/evm/engine.ts'
import type { CallFailure, CallOptions } from '../../../engine/execution/call/call.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { MissingError } from '../../../engine/state/reader.ts'
import { executionReverted, failed, type RpcError, timedOut } from '../../core/errors.ts'
import type { PoolContext } from '../../method/method.ts'
import type { CallFields } from './fill.ts'
import type { BlockOverrideValue, StateOverrideValue } from './overrides.ts'

export type Overrides = {
  readonly stateOverrides: StateOverrideValue | undefined
  readonly blockOverrides: BlockOverrideValue | undefined
}

/**
 * Builds the options of a call.
 * @throws {ViewError} when the block's state is gone
 */
export function callOptions(
  context: PoolContext,
  requested: Overrides & { readonly request: CallFields; readonly block: Block },
): CallOptions {
  const { chain, engine, limits, stateOf, expects } = context
  const { block, stateOverrides, blockOverrides } = requested
  const { request } = requested
  const input = request.input ?? request.data
  const state = stateOf(block)
  expects?.(() => ({ reader: state.reader, messages: [request] }))
  return {
    engine,
    chain,
    ...state,
    request: input === request.input ? request : { ...request, input: input! },
    gasCap: BigInt(limits.callGas),
    limits: runLimits(context),
    ...(stateOverrides === undefined ? {} : { stateOverrides: stateOverridesOf(stateOverrides) }),
    ...(blockOverrides === undefined
      ? {}
      : { blockOverrides: ownBlockOverridesOf(blockOverrides) }),
  }
}

/** Limits of a run in a method. */
export const runLimits = ({
  limits,
  isExpired,
  isLost,
}: Pick<PoolContext, 'limits' | 'isExpired' | 'isLost'>): RunLimits => ({
  isExpired,
  memoryBytes: limits.evmMemoryBytes,
  isLost,
})

export const stateOverridesOf = (
  value: StateOverrideValue,
): CallOptions['stateOverrides'] & object =>
  value.map(([address, account]) => ({ ...account, address }))

/**
 * Builds the overrides of one call, with go-ethereum's error for members that it does not support.
 * @throws {RpcError}
 */
function ownBlockOverridesOf({
  beaconRoot,
  withdrawals,
  ...others
}: BlockOverrideValue): CallOptions['blockOverrides'] & object {
  for (const [name, value] of Object.entries({ beaconRoot, withdrawals }))
    if (value !== undefined)
      throw failed(`block override "${name}" is not supported for this RPC method`)
  return blockOverridesOf(others)
}

/** Merges the two spellings that clients use for three of the fields. */
export function blockOverridesOf(
  value: Omit<BlockOverrideValue, 'beaconRoot' | 'withdrawals'>,
): CallOptions['blockOverrides'] & object {
  const { coinbase, random, baseFee, ...same } = value
  return {
    ...same,
    ...(coinbase === undefined ? {} : { feeRecipient: coinbase }),
    ...(random === undefined ? {} : { prevRandao: random }),
    ...(baseFee === undefined ? {} : { baseFeePerGas: baseFee }),
  }
}

/**
 * Converts a failed call to its error.
 * @throws {MissingError}
 */
export function failureOf(result: CallFailure): RpcError {
  switch (result.status) {
    case 'revert':
      return executionReverted(bytesToHex(result.output), result.reason)
    case 'refused':
      return failed(result.message)
    case 'missing':
      throw new MissingError(...result.missing)
    case 'stopped':
      return result.why === 'memory'
        ? failed('out of memory: an EVM frame exceeded --limit-evm-memory-bytes')
        : timedOut()
  }
}

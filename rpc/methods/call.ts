/** Running messages without changing anything. */

import type { BlockSelector } from '../../engine/chain/types.ts'
import { type CallFailure, type CallOptions, call } from '../../engine/execution/call.ts'
import { estimateGas } from '../../engine/execution/estimate.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { onBlock } from '../basis.ts'
import { executionReverted, failed, RpcError, timedOut } from '../errors.ts'
import { blockId, transactionCall } from '../ethereum.ts'
import type { CallFields } from '../fill.ts'
import { type MethodContext, optional, param, poolMethod } from '../method.ts'
import {
  type BlockOverrideValue,
  blockOverride,
  type StateOverrideValue,
  stateOverride,
} from '../overrides.ts'
import { LATEST, resolveBlock } from '../resolve.ts'
import { bytesResult, quantityResult } from '../results.ts'

const LISTED = ['standard', 'flashblocks'] as const
const params = [
  param('Transaction', transactionCall),
  optional('Block', blockId, LATEST),
  optional('State overrides', stateOverride),
  optional('Block overrides', blockOverride),
] as const

export const eth_call = poolMethod({
  name: 'eth_call',
  summary: 'Runs a message on the state of a block and gives its output.',
  runs: 'call',
  listed: LISTED,
  basis: onBlock(1),
  params,
  result: bytesResult('Return data'),
  async handler(context, request, at, state, block) {
    const result = await call(optionsOf(context, { request, at, state, block }))
    if (result.status === 'success') return result.output
    throw failureOf(result)
  },
})

export const eth_estimateGas = poolMethod({
  name: 'eth_estimateGas',
  summary: 'The least gas with which a message succeeds on the state of a block.',
  runs: 'call',
  listed: LISTED,
  basis: onBlock(1),
  params,
  result: quantityResult('Gas used'),
  async handler(context, request, at, state, block) {
    const result = await estimateGas(optionsOf(context, { request, at, state, block }))
    if (result.status === 'success') return result.gas
    throw failureOf(result)
  },
})

function optionsOf(
  { view, chain, engine, limits, isExpired }: MethodContext,
  asked: {
    readonly request: CallFields
    readonly at: BlockSelector
    readonly state: StateOverrideValue | undefined
    readonly block: BlockOverrideValue | undefined
  },
): CallOptions {
  const block = resolveBlock(view, asked.at)
  const { data, ...request } = asked.request
  const input = request.input ?? data
  return {
    engine,
    chain,
    env: view.env(block),
    reader: view.state(block),
    request: input === undefined ? request : { ...request, input },
    gasCap: BigInt(limits.callGas),
    limits: { isExpired, memoryBytes: limits.evmMemoryBytes },
    ...(asked.state === undefined ? {} : { stateOverrides: stateOverridesOf(asked.state) }),
    ...(asked.block === undefined ? {} : { blockOverrides: blockOverridesOf(asked.block) }),
  }
}

const stateOverridesOf = (value: StateOverrideValue): CallOptions['stateOverrides'] & object =>
  value.map(([address, account]) => ({ ...account, address }))

/** Clients write three fields in two ways. */
function blockOverridesOf(value: BlockOverrideValue): CallOptions['blockOverrides'] & object {
  const { coinbase, random, baseFee, ...same } = value
  return {
    ...same,
    ...(coinbase === undefined ? {} : { feeRecipient: coinbase }),
    ...(random === undefined ? {} : { prevRandao: random }),
    ...(baseFee === undefined ? {} : { baseFeePerGas: baseFee }),
  }
}

function failureOf(result: CallFailure): RpcError {
  switch (result.status) {
    case 'revert':
      return executionReverted(bytesToHex(result.output), result.reason)
    case 'refused':
      return new RpcError(result.code, result.message)
    case 'missing':
      return failed(`state not available: ${result.what}`)
    case 'stopped':
      return result.why === 'memory'
        ? failed('out of memory: a frame grew beyond its limit')
        : timedOut()
  }
}

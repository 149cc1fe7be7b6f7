/** Running messages without changing anything. */

import type { BlockSelector } from '../../engine/chain/types.ts'
import { type CallOptions, call } from '../../engine/execution/call.ts'
import { estimateGas } from '../../engine/execution/estimate.ts'
import { onBlock } from '../basis.ts'
import { callOptions, failureOf, type Overrides } from '../call-options.ts'
import { blockId, transactionCall } from '../ethereum.ts'
import type { CallFields } from '../fill.ts'
import { type MethodContext, optional, param, poolMethod } from '../method.ts'
import { blockOverride, stateOverride } from '../overrides.ts'
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
  async handler(context, request, at, stateOverrides, blockOverrides) {
    const result = await call(optionsOf(context, request, at, { stateOverrides, blockOverrides }))
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
  async handler(context, request, at, stateOverrides, blockOverrides) {
    const result = await estimateGas(
      optionsOf(context, request, at, { stateOverrides, blockOverrides }),
    )
    if (result.status === 'success') return result.gas
    throw failureOf(result)
  },
})

const optionsOf = (
  context: MethodContext,
  request: CallFields,
  at: BlockSelector,
  overrides: Overrides,
): CallOptions =>
  callOptions(context, { request, block: resolveBlock(context.view, at), ...overrides })

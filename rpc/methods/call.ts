/** Running messages without changing anything. */

import type { BlockSelector } from '../../engine/chain/types.ts'
import { createAccessList } from '../../engine/execution/access-list.ts'
import { type CallOptions, call } from '../../engine/execution/call.ts'
import { estimateGas } from '../../engine/execution/estimate.ts'
import { ZERO_20 } from '../../engine/primitives/words.ts'
import { readAccount } from '../../engine/state/read.ts'
import { onBlock } from '../basis.ts'
import { callOptions, failureOf, type Overrides } from '../call-options.ts'
import { asciiJson } from '../envelope.ts'
import { blockId, quantityText, transactionCall } from '../ethereum.ts'
import type { CallFields } from '../fill.ts'
import { accessListText } from '../json.ts'
import { type MethodContext, optional, param, poolMethod } from '../method.ts'
import { blockOverride, stateOverride } from '../overrides.ts'
import { LATEST, resolveBlock } from '../resolve.ts'
import { bytesResult, quantityResult, textResult } from '../results.ts'

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

export const eth_createAccessList = poolMethod({
  name: 'eth_createAccessList',
  summary: 'What a message touches on the state of a block, as the access list it could declare.',
  runs: 'call',
  basis: onBlock(1),
  params: [
    param('Transaction', transactionCall),
    optional('Block', blockId, LATEST),
    optional('State overrides', stateOverride),
  ],
  result: textResult('Access list', { title: 'Access list result', type: 'object' }),
  async handler(context, request, at, stateOverrides) {
    const options = optionsOf(context, request, at, { stateOverrides, blockOverrides: undefined })
    const nonce = request.nonce ?? readAccount(options.reader, request.from ?? ZERO_20)?.nonce ?? 0n
    const result = await createAccessList({ ...options, nonce })
    if (result.status !== 'success') throw failureOf(result)
    const { accessList, gasUsed, error } = result
    return (
      `{"accessList":${accessListText(accessList)}` +
      `${error === undefined ? '' : `,"error":${asciiJson(error)}`},"gasUsed":${quantityText(gasUsed)}}`
    )
  },
})

const optionsOf = (
  context: MethodContext,
  request: CallFields,
  at: BlockSelector,
  overrides: Overrides,
): CallOptions =>
  callOptions(context, { request, block: resolveBlock(context.view, at), ...overrides })

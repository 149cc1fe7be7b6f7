/** Methods that run messages without changing anything. */

import type { BlockSelector } from '../../engine/chain/types.ts'
import { createAccessList } from '../../engine/execution/call/access-list.ts'
import { type CallOptions, call } from '../../engine/execution/call/call.ts'
import { estimateGas } from '../../engine/execution/call/estimate.ts'
import { andThen } from '../../engine/execution/transaction/maybe-promise.ts'
import { ZERO_20 } from '../../engine/primitives/words.ts'
import { readAccount } from '../../engine/state/read.ts'
import { blockId, quantityText, transactionCall } from '../json/codecs.ts'
import { asciiJson } from '../json/envelope.ts'
import { accessListText } from '../json/json.ts'
import { bytesResult, quantityResult, textResult } from '../json/results.ts'
import { followsBlock } from '../method/basis.ts'
import { optional, type PoolContext, param, poolMethod } from '../method/method.ts'
import { LATEST, PENDING, resolveBlock } from '../method/resolve.ts'
import { callOptions, failureOf, type Overrides } from './shared/call-options.ts'
import type { CallFields } from './shared/fill.ts'
import { blockOverride, stateOverride } from './shared/overrides.ts'

const LISTED = ['standard', 'flashblocks'] as const
const paramsAt = (whenLeftOut: typeof LATEST | typeof PENDING) =>
  [
    param('Transaction', transactionCall),
    optional('Block', blockId, whenLeftOut),
    optional('State overrides', stateOverride),
    optional('Block overrides', blockOverride),
  ] as const
const ABOUT = { is: 'state', at: 1 } as const
/**
 * Clients estimate the next transaction without a block parameter. At latest, the estimate would
 * miss the sender's previous transaction until a complete block has it.
 */
const ABOUT_NEXT = { ...ABOUT, whenLeftOut: 'pending' } as const

export const eth_call = poolMethod({
  name: 'eth_call',
  about: ABOUT,
  summary: 'Runs a message on the state of a block and returns its output.',
  runs: 'call',
  listed: LISTED,
  basis: 'about',
  // A call reads state only through its reader, and the block's fields are passed to it.
  follows: followsBlock(ABOUT, 3),
  params: paramsAt(LATEST),
  result: bytesResult('Return data'),
  handler(context, request, at, stateOverrides, blockOverrides) {
    const options = optionsOf(context, request, at, { stateOverrides, blockOverrides })
    return andThen(call(options), (result) => {
      if (result.status === 'success') return result.output
      throw failureOf(result)
    })
  },
})

export const eth_estimateGas = poolMethod({
  name: 'eth_estimateGas',
  about: ABOUT_NEXT,
  summary:
    'The minimum gas with which a message succeeds on the state of a block (default: pending).',
  runs: 'call',
  listed: LISTED,
  basis: 'about',
  weight: 3,
  follows: followsBlock(ABOUT_NEXT, 3),
  params: paramsAt(PENDING),
  result: quantityResult('Gas used'),
  handler(context, request, at, stateOverrides, blockOverrides) {
    const options = optionsOf(context, request, at, { stateOverrides, blockOverrides })
    return andThen(estimateGas(options), (result) => {
      if (result.status === 'success') return result.gas
      throw failureOf(result)
    })
  },
})

export const eth_createAccessList = poolMethod({
  name: 'eth_createAccessList',
  about: ABOUT_NEXT,
  summary:
    'The accounts and slots that a message touches on the state of a block (default: pending), as an access list.',
  runs: 'call',
  basis: 'about',
  weight: 3,
  params: [
    param('Transaction', transactionCall),
    optional('Block', blockId, PENDING),
    optional('State overrides', stateOverride),
  ],
  result: textResult('Access list', { title: 'Access list result', type: 'object' }),
  handler(context, request, at, stateOverrides) {
    const options = optionsOf(context, request, at, { stateOverrides, blockOverrides: undefined })
    const nonce = request.nonce ?? readAccount(options.reader, request.from ?? ZERO_20)?.nonce ?? 0n
    return andThen(createAccessList({ ...options, nonce }), (result) => {
      if (result.status !== 'success') throw failureOf(result)
      const { accessList, gasUsed, error } = result
      return (
        `{"accessList":${accessListText(accessList)}` +
        `${error === undefined ? '' : `,"error":${asciiJson(error)}`},"gasUsed":${quantityText(gasUsed)}}`
      )
    })
  },
})

const optionsOf = (
  context: PoolContext,
  request: CallFields,
  at: BlockSelector,
  overrides: Overrides,
): CallOptions =>
  callOptions(context, { request, block: resolveBlock(context.view, at), ...overrides })

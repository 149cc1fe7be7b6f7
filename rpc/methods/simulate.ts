/** eth_simulateV1. */
import type { Block } from '../../engine/chain/types.ts'
import { MESSAGE_PASSER } from '../../engine/chainspec/genesis.ts'
import { RequestsError } from '../../engine/execution/requests.ts'
import {
  type SimulatedBlock,
  type SimulatedCallResult,
  type SimulateOptions,
  SimulationStopped,
  simulateBlocks,
} from '../../engine/execution/simulate.ts'
import {
  type BlockToSimulate,
  MAX_SIMULATED_BLOCKS,
  SimulationError,
} from '../../engine/execution/simulate-chain.ts'
import { hexToBytes } from '../../engine/primitives/hex.ts'
import { onBlock } from '../basis.ts'
import { blockOverridesOf, stateOverridesOf } from '../call-options.ts'
import { asciiJson } from '../envelope.ts'
import { failed, invalidParams, RpcError, timedOut } from '../errors.ts'
import {
  address,
  blockId,
  hash,
  hexText,
  quantityText,
  transactionCall,
  uint64,
} from '../ethereum.ts'
import { simulatedBlockText, simulatedLogText } from '../json.ts'
import { LIMITS } from '../limits.ts'
import { type MethodContext, optional, param, poolMethod } from '../method.ts'
import { blockOverrideFields, stateOverride } from '../overrides.ts'
import { LATEST, resolveBlock } from '../resolve.ts'
import { textResult } from '../results.ts'
import { array, boolean, object, type TypeOf } from '../schema.ts'
import { withTrie } from '../trie.ts'

const withdrawal = object('Withdrawal', {
  index: uint64,
  validatorIndex: uint64,
  address,
  amount: uint64,
})
const MAX_CALLS = LIMITS.simulatedCalls.value
const blockStateCall = object('BlockStateCall', {
  blockOverrides: object('BlockOverrides', {
    ...blockOverrideFields,
    beaconRoot: hash,
    withdrawals: array(withdrawal, 1_000, 'Withdrawal'),
  }),
  stateOverrides: stateOverride,
  calls: array(transactionCall, MAX_CALLS, 'TransactionArgs'),
})
const payload = object('SimulatePayload', {
  blockStateCalls: array(blockStateCall, 1_000, 'BlockStateCall'),
  traceTransfers: boolean,
  validation: boolean,
  returnFullTransactions: boolean,
})

export const eth_simulateV1 = poolMethod({
  name: 'eth_simulateV1',
  summary: 'Blocks of calls on top of a block, of which nothing stays.',
  runs: 'call',
  basis: onBlock(1),
  cost: 5,
  params: [param('Payload', payload), optional('Block', blockId, LATEST)],
  result: textResult('Blocks', { type: 'array', items: { type: 'object' } }),
  async handler(context, request, at) {
    const asked = blocksOf(request.blockStateCalls ?? [])
    const base = resolveBlock(context.view, at)
    const { traceTransfers = false, validation = false } = request
    const run = (rootsAfter: SimulateOptions['rootsAfter']) =>
      simulateBlocks({
        ...{ engine: context.engine, chain: context.chain, blocks: asked },
        ...{ traceTransfers, validation, rootsAfter },
        base: base.header,
        baseHash: base.hash,
        reader: context.view.state(base),
        gasCap: BigInt(context.limits.callGas),
        limits: { isExpired: context.isExpired, memoryBytes: context.limits.evmMemoryBytes },
      })
    const isFull = request.returnFullTransactions ?? false
    const blocks = await simulated(context, base, run)
    return `[${blocks.map((block) => blockText(block, isFull)).join(',')}]`
  },
})

/** @throws {RpcError} */
function blocksOf(wanted: readonly TypeOf<typeof blockStateCall>[]): readonly BlockToSimulate[] {
  if (wanted.length === 0) throw invalidParams('empty input')
  if (wanted.length > MAX_SIMULATED_BLOCKS) throw new RpcError(-38026, 'too many blocks')
  const calls = wanted.reduce((sum, block) => sum + (block.calls?.length ?? 0), 0)
  if (calls > MAX_CALLS) throw new RpcError(-38026, `too many calls: ${calls} > ${MAX_CALLS}`)
  return wanted.map(({ blockOverrides, stateOverrides, calls: given = [] }) => ({
    calls: given.map(({ data, ...call }) => {
      const input = call.input ?? data
      return input === undefined ? call : { ...call, input }
    }),
    ...(stateOverrides === undefined ? {} : { stateOverrides: stateOverridesOf(stateOverrides) }),
    ...(blockOverrides === undefined
      ? {}
      : {
          blockOverrides: {
            ...blockOverridesOf(blockOverrides),
            ...(blockOverrides.beaconRoot === undefined
              ? {}
              : { beaconRoot: blockOverrides.beaconRoot }),
            withdrawals: (blockOverrides.withdrawals ?? []).map(
              ({ index = 0n, validatorIndex = 0n, address: to = NOBODY, amount = 0n }) => ({
                ...{ index, validatorIndex, amount },
                address: to,
              }),
            ),
          },
        }),
  }))
}
const NOBODY = new Uint8Array(20)

/** With roots where the base has a trie: a block that is not canonical yet has none. @throws {RpcError} */
async function simulated(
  context: MethodContext,
  base: Block,
  run: (rootsAfter: SimulateOptions['rootsAfter']) => Promise<readonly SimulatedBlock[]>,
): Promise<readonly SimulatedBlock[]> {
  const { canonical } = context.view
  const isRooted =
    base.flashblockIndex === undefined &&
    base.number <= canonical.number &&
    base.number + BigInt(context.limits.proofBlocks) > canonical.number
  try {
    if (!isRooted) return await run(undefined)
    const passer = hexToBytes(MESSAGE_PASSER)
    return await withTrie(context, base, (trie) => {
      let last = trie
      return run((diff) => {
        last = last.after(diff)
        return { stateRoot: last.stateRoot, withdrawalsRoot: last.storageRoot(passer) }
      })
    })
  } catch (error) {
    if (error instanceof SimulationError) throw new RpcError(error.code, error.message)
    if (error instanceof SimulationStopped) throw timedOut()
    if (error instanceof RequestsError) throw failed(error.message)
    throw error
  }
}

function blockText(block: SimulatedBlock, isFull: boolean): string {
  const calls = block.calls.map((call, index) => callText(block, call, index))
  return simulatedBlockText(block, isFull, `"calls":[${calls.join(',')}]`)
}

function callText(block: SimulatedBlock, call: SimulatedCallResult, index: number): string {
  const { output, logs, gasUsed, maxUsedGas, isSuccess, error } = call
  const data = error?.data === undefined ? '' : `,"data":${hexText(error.data)}`
  const problem =
    error === undefined
      ? ''
      : `,"error":{"code":${error.code},"message":${asciiJson(error.message)}${data}}`
  const texts = logs.map((log) => simulatedLogText(block, log, index))
  return (
    `{"returnData":${hexText(output)},"logs":[${texts.join(',')}],"gasUsed":${quantityText(gasUsed)},` +
    `"maxUsedGas":${quantityText(maxUsedGas)},"status":${quantityText(isSuccess ? 1 : 0)}${problem}}`
  )
}

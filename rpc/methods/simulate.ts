/** eth_simulateV1. */
import type { Block } from '../../engine/chain/types.ts'
import { MESSAGE_PASSER } from '../../engine/chainspec/genesis.ts'
import { RequestsError } from '../../engine/execution/block/requests.ts'
import {
  type SimulatedBlock,
  type SimulatedCallResult,
  type SimulateOptions,
  SimulationStopped,
  simulateBlocks,
} from '../../engine/execution/call/simulate.ts'
import {
  type BlockToSimulate,
  MAX_SIMULATED_BLOCKS,
  SimulationError,
} from '../../engine/execution/call/simulate-chain.ts'
import { hexToBytes } from '../../engine/primitives/hex.ts'
import { failed, invalidParams, simulatedCode, simulationFailed, timedOut } from '../core/errors.ts'
import {
  address,
  blockId,
  hash,
  hexText,
  quantityText,
  transactionCall,
  uint64,
} from '../json/codecs.ts'
import { asciiJson } from '../json/envelope.ts'
import { simulatedBlockText, simulatedLogText } from '../json/json.ts'
import { textResult } from '../json/results.ts'
import { array, boolean, object, strictObject, type TypeOf } from '../json/schema.ts'
import { optional, type PoolContext, param, poolMethod } from '../method/method.ts'
import { LATEST, resolveBlock } from '../method/resolve.ts'
import { blockOverridesOf, runLimits, stateOverridesOf } from './shared/call-options.ts'
import { blockOverrideFields, stateOverride } from './shared/overrides.ts'
import { withTrie } from './shared/trie.ts'

const withdrawal = strictObject('Withdrawal', {
  index: uint64,
  validatorIndex: uint64,
  address,
  amount: uint64,
})
const blockStateCall = object('BlockStateCall', {
  blockOverrides: strictObject('BlockOverrides', {
    ...blockOverrideFields,
    beaconRoot: hash,
    withdrawals: array(withdrawal, 1_000, 'Withdrawal'),
  }),
  stateOverrides: stateOverride,
  calls: array(transactionCall, 'simulatedCalls', 'TransactionArgs'),
})
const fields = object('SimulatePayload', {
  blockStateCalls: array(blockStateCall, MAX_SIMULATED_BLOCKS, 'BlockStateCall'),
  traceTransfers: boolean,
  validation: boolean,
  returnFullTransactions: boolean,
})
/**
 * Lists are counted before they are decoded, so that one long list and several short ones get the
 * same error.
 */
const payload: typeof fields = {
  ...fields,
  decode(wire, limits) {
    checkCounts(wire, limits.simulatedCalls)
    return fields.decode(wire, limits)
  },
}

/**
 * Checks the numbers of blocks and calls.
 * @throws {RpcError}
 */
function checkCounts(wire: unknown, maxCalls: number): void {
  const blocks = memberOf(wire, 'blockStateCalls')
  if (!Array.isArray(blocks)) return
  if (blocks.length > MAX_SIMULATED_BLOCKS) throw tooMany('too many blocks')
  let count = 0
  for (const block of blocks) {
    const calls = memberOf(block, 'calls')
    if (Array.isArray(calls)) count += calls.length
  }
  if (count > maxCalls) throw tooMany(`too many calls: ${count} > ${maxCalls}`)
}

const memberOf = (wire: unknown, name: string): unknown =>
  typeof wire === 'object' && wire !== null && Object.hasOwn(wire, name)
    ? (wire as Record<string, unknown>)[name]
    : undefined
const tooMany = (message: string) => simulationFailed({ why: 'too many', message })

export const eth_simulateV1 = poolMethod({
  name: 'eth_simulateV1',
  about: { is: 'state', at: 1, isLocalOnly: true },
  summary: 'Simulates blocks of calls on top of a block, and discards the blocks.',
  runs: 'call',
  basis: 'about',
  cost: 5,
  weight: 5,
  params: [param('Payload', payload), optional('Block', blockId, LATEST)],
  result: textResult('Blocks', { type: 'array', items: { type: 'object' } }),
  async handler(context, request, at) {
    const requested = blocksOf(request.blockStateCalls ?? [])
    const base = resolveBlock(context.view, at)
    const { traceTransfers = false, validation = false } = request
    const reader = context.view.state(base)
    context.expects?.(() => ({ reader, messages: requested.flatMap(({ calls }) => calls) }))
    const run = (rootsAfter: SimulateOptions['rootsAfter']) =>
      simulateBlocks({
        engine: context.engine,
        chain: context.chain,
        blocks: requested,
        traceTransfers,
        validation,
        rootsAfter,
        base: base.header,
        baseHash: base.hash,
        reader,
        gasCap: BigInt(context.limits.callGas),
        limits: runLimits(context),
      })
    const isFull = request.returnFullTransactions ?? false
    const blocks = await simulated(context, base, run)
    return `[${blocks.map((block) => blockText(block, isFull)).join(',')}]`
  },
})

/**
 * Converts the decoded blocks for the simulation.
 * @throws {RpcError}
 */
function blocksOf(wanted: readonly TypeOf<typeof blockStateCall>[]): readonly BlockToSimulate[] {
  if (wanted.length === 0) throw invalidParams('empty input')
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
                index,
                validatorIndex,
                amount,
                address: to,
              }),
            ),
          },
        }),
  }))
}
const NOBODY = new Uint8Array(20)

/**
 * Runs the simulation, with state roots where the base has a trie. A base above canonical has none.
 * @throws {RpcError}
 */
async function simulated(
  context: PoolContext,
  base: Block,
  run: (rootsAfter: SimulateOptions['rootsAfter']) => Promise<readonly SimulatedBlock[]>,
): Promise<readonly SimulatedBlock[]> {
  const { canonical } = context.view
  const isRooted =
    !context.isLazy &&
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
    if (error instanceof SimulationError) throw simulationFailed(error)
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
      : `,"error":{"code":${simulatedCode(error)},"message":${asciiJson(error.message)}${data}}`
  const texts = logs.map((log) => simulatedLogText(block, log, index))
  return (
    `{"returnData":${hexText(output)},"logs":[${texts.join(',')}],"gasUsed":${quantityText(gasUsed)},` +
    `"maxUsedGas":${quantityText(maxUsedGas)},"status":${quantityText(isSuccess ? 1 : 0)}${problem}}`
  )
}

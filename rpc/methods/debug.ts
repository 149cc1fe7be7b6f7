/** Methods that run transactions again and show how they went (go-ethereum: eth/tracers/api.go). */
import type { Block, BlockSelector } from '../../engine/chain/types.ts'
import { call } from '../../engine/execution/call.ts'
import {
  precompilesOf,
  type ReplayOptions,
  ReplayStopped,
  stateWithin,
  type Trace,
  traceTransactions,
} from '../../engine/execution/trace.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { makeTracer, TRACER_NAMES } from '../../engine/tracers/registry.ts'
import { TraceBudget, type Tracer, TracerError } from '../../engine/tracers/types.ts'
import { onBlock } from '../basis.ts'
import { callOptions, failureOf } from '../call-options.ts'
import { asciiJson } from '../envelope.ts'
import { failed, invalidParams, timedOut } from '../errors.ts'
import { blockId, blockNumber, hash, hexText, transactionCall } from '../ethereum.ts'
import type { CallFields } from '../fill.ts'
import { type Method, type MethodContext, optional, param, poolMethod } from '../method.ts'
import { LATEST, resolveBlock } from '../resolve.ts'
import { textResult } from '../results.ts'
import {
  choiceOf,
  type TraceCallConfig,
  type TraceConfig,
  traceCallConfig,
  traceConfig,
} from '../trace-config.ts'

const LISTED = ['standard', 'flashblocks'] as const
const traceResult = textResult('Trace', { title: 'Trace', type: 'object' })
const blockTraceResult = textResult('Traces', { type: 'array', items: { type: 'object' } })

export const debug_traceTransaction = poolMethod({
  name: 'debug_traceTransaction',
  summary: 'Runs a transaction again, with those before it in its block, and shows how it went.',
  runs: 'trace',
  listed: LISTED,
  cost: 10,
  params: [param('Transaction hash', hash), optional('Options', traceConfig)],
  result: traceResult,
  async handler(context, transactionHash, config) {
    const found = context.view.findTransaction(transactionHash)
    if (found === undefined) throw failed('transaction not found')
    const { block, index } = found
    const [trace] = await traced(context, block, { config, first: index, last: index })
    return resultOf(trace!)
  },
})

export const debug_traceBlockByHash = poolMethod({
  name: 'debug_traceBlockByHash',
  summary: 'Runs all transactions of a block again and shows how they went.',
  runs: 'trace',
  listed: LISTED,
  basis: onBlock(0),
  cost: 20,
  params: [param('Block hash', hash), optional('Options', traceConfig)],
  result: blockTraceResult,
  handler(context, blockHash, config) {
    const block = context.view.block({ hash: blockHash, requireCanonical: false })
    if (block === undefined) throw failed(`block ${bytesToHex(blockHash)} not found`)
    return blockTraces(context, block, config)
  },
})

export const debug_traceBlockByNumber = poolMethod({
  name: 'debug_traceBlockByNumber',
  summary: 'Runs all transactions of a block again and shows how they went.',
  runs: 'trace',
  listed: LISTED,
  basis: onBlock(0),
  cost: 20,
  params: [param('Block', blockNumber), optional('Options', traceConfig)],
  result: blockTraceResult,
  handler(context, at, config) {
    const block = context.view.block(at)
    if (block === undefined) throw failed(`block ${nameOf(at)} not found`)
    return blockTraces(context, block, config)
  },
})

/** The service's rule for blocks by number: a trace mode must be named. Checked where parameters are decoded before anything runs. */
export function requireTracer(method: Method): Method {
  return {
    ...method,
    decode(params) {
      const decoded = method.decode(params)
      const config = decoded[1] as TraceConfig | undefined
      if (config?.tracer === undefined)
        throw invalidParams(
          `trace mode is required: name a tracer in the second parameter, one of ${TRACER_NAMES.join(', ')}`,
        )
      return decoded
    },
  }
}

export const debug_traceCall = poolMethod({
  name: 'debug_traceCall',
  summary: 'Runs a message on the state of a block and shows how it went.',
  runs: 'trace',
  cost: 10,
  basis: onBlock(1),
  params: [
    param('Transaction', transactionCall),
    optional('Block', blockId, LATEST),
    optional('Options', traceCallConfig),
  ],
  result: traceResult,
  handler: (context, request, at, config = {}) =>
    replaying(context, config, (isExpired) =>
      tracedCall(context, { request, at, config, isExpired }),
    ),
})

async function tracedCall(
  context: MethodContext,
  asked: {
    readonly request: CallFields
    readonly at: BlockSelector
    readonly config: TraceCallConfig
    readonly isExpired: () => boolean
  },
): Promise<string> {
  const { view, engine, limits } = context
  const { request, at, config, isExpired } = asked
  const block = resolveBlock(view, at)
  const { stateOverrides, blockOverrides, txIndex } = config
  const budget = new TraceBudget(limits.responseBytes)
  const options = callOptions(context, { request, block, stateOverrides, blockOverrides })
  const rules = context.chain.rulesAt(block.number, block.header.timestamp)
  const reader =
    txIndex === undefined
      ? options.reader
      : await stateWithin({ ...replayOf(context, block), limits: { isExpired } }, txIndex + 1)
  const inner = makeTracer(choiceOf(config), {
    place: undefined,
    firstLog: 0,
    precompiles: precompilesOf(engine, { rules }),
    budget,
  })
  let isApplied = false
  const tracer: Tracer = {
    sink: inner.sink,
    start: (scene) => inner.start?.(scene),
    end(gasUsed) {
      isApplied = true
      inner.end?.(gasUsed)
    },
    result: () => inner.result(),
  }
  const done = await call({
    ...options,
    reader,
    tracer,
    limits: { ...options.limits, isExpired: () => isExpired() || budget.isSpent },
  })
  if (budget.isSpent) throw failed(`trace of more than ${budget.bytes} bytes`)
  if (!isApplied && done.status === 'refused')
    throw failed(`tracing failed: ${bareRefusal(done.message)}`)
  if (!isApplied && done.status !== 'success') throw failureOf(done)
  return tracer.result().join('')
}

async function blockTraces(
  context: MethodContext,
  block: Block,
  config: TraceConfig | undefined,
): Promise<string> {
  const traces = await traced(context, block, {
    config,
    first: 0,
    last: block.transactionCount - 1,
  })
  const texts = traces.map((trace) => {
    const name = `{"txHash":${hexText(trace.transactionHash)}`
    return 'error' in trace
      ? `${name},"error":${asciiJson(trace.error)}}`
      : `${name},"result":${trace.pieces.join('')}}`
  })
  return `[${texts.join(',')}]`
}

/** @throws {RpcError} */
async function traced(
  context: MethodContext,
  block: Block,
  asked: {
    readonly config: TraceConfig | undefined
    readonly first: number
    readonly last: number
  },
): Promise<readonly Trace[]> {
  const { config = {}, first, last } = asked
  return replaying(context, config, (isExpired) =>
    traceTransactions({
      ...replayOf(context, block),
      choice: choiceOf(config),
      budget: new TraceBudget(context.limits.responseBytes),
      limits: { isExpired, memoryBytes: context.limits.evmMemoryBytes },
      first,
      last,
    }),
  )
}

function replayOf(
  { view, chain, engine }: MethodContext,
  block: Block,
): Omit<ReplayOptions, 'limits'> {
  if (block.number === chain.genesisNumber) throw failed('genesis is not traceable')
  const { header, hash } = block
  const parent = view.block({ hash: header.parentHash, requireCanonical: false })
  if (parent === undefined) throw failed(`block ${bytesToHex(header.parentHash)} not found`)
  const reader = view.state(parent)
  return { engine, chain, reader, header, hash, transactions: block.transactions() }
}

/** Runs under the request's deadline and the caller's own. */
async function replaying<T>(
  context: MethodContext,
  config: TraceConfig,
  run: (isExpired: () => boolean) => Promise<T>,
): Promise<T> {
  const own = performance.now() + (config.timeout ?? Number.POSITIVE_INFINITY)
  let isOwn = false
  const isExpired = () => {
    isOwn ||= performance.now() > own
    return isOwn || context.isExpired()
  }
  try {
    return await run(isExpired)
  } catch (error) {
    if (error instanceof ReplayStopped) throw isOwn ? failed('execution timeout') : timedOut()
    throw asRpcError(error)
  }
}

function resultOf(trace: Trace): string {
  if ('error' in trace) throw failed(trace.error)
  return trace.pieces.join('')
}

function asRpcError(error: unknown): unknown {
  if (!(error instanceof TracerError)) return error
  return error.isConfig ? invalidParams(error.message) : failed(error.message)
}

const nameOf = (at: BlockSelector): string =>
  'number' in at ? `#${at.number}` : 'tag' in at ? at.tag : bytesToHex(at.hash)

/** eth_call says "err: … (supplied gas N)" around what go-ethereum says here alone. */
const bareRefusal = (message: string): string =>
  message.replace(/^err: (.*) \(supplied gas \d+\)$/s, '$1')

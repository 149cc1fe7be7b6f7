/** Methods that trace transactions by running them again (go-ethereum: eth/tracers/api.go). */
import type { Block, BlockSelector } from '../../engine/chain/types.ts'
import { call } from '../../engine/execution/call/call.ts'
import {
  precompilesOf,
  stateWithin,
  type TraceOptions,
  traceTransactions,
} from '../../engine/execution/call/replay.ts'
import { type ReplayOptions, ReplayStopped } from '../../engine/execution/call/replay-cache.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { StateReader } from '../../engine/state/reader.ts'
import { makeTracer, TRACER_NAMES } from '../../engine/tracers/registry.ts'
import { type Observer, TraceBudget, TracerError } from '../../engine/tracers/types.ts'
import { failed, invalidParams, timedOut } from '../core/errors.ts'
import {
  type BlockNumber,
  blockId,
  blockNumber,
  hash,
  hexText,
  transactionCall,
} from '../json/codecs.ts'
import { asciiJson } from '../json/envelope.ts'
import { writtenResult } from '../json/results.ts'
import { type Method, optional, type PoolContext, param, poolMethod } from '../method/method.ts'
import { LATEST, resolveBlock } from '../method/resolve.ts'
import { callOptions, failureOf } from './shared/call-options.ts'
import type { CallFields } from './shared/fill.ts'
import {
  choiceOf,
  type TraceCallConfig,
  type TraceConfig,
  traceCallConfig,
  traceConfig,
} from './shared/trace-config.ts'

const LISTED = ['standard', 'flashblocks'] as const
const traceResult = writtenResult('Trace', { title: 'Trace', type: 'object' })
const blockTraceResult = writtenResult('Traces', { type: 'array', items: { type: 'object' } })

export const debug_traceTransaction = poolMethod({
  name: 'debug_traceTransaction',
  about: { is: 'transaction', at: 0 },
  summary: 'Traces a transaction: runs it again, after the earlier transactions of its block.',
  runs: 'trace',
  replays: (view, transactionHash) => view.findTransaction(transactionHash)?.block.hash,
  listed: LISTED,
  cost: 10,
  weight: 40,
  params: [param('Transaction hash', hash), optional('Options', traceConfig)],
  result: traceResult,
  handler(context, transactionHash, config) {
    const found = context.view.findTransaction(transactionHash)
    if (found === undefined) throw failed('transaction not found')
    const { block, index } = found
    return traced(context, block, {
      config,
      first: index,
      last: index,
      open() {},
      close(_hash, problem) {
        if (problem !== undefined) throw failed(problem)
      },
    })
  },
})

export const debug_traceBlockByHash = poolMethod({
  name: 'debug_traceBlockByHash',
  about: { is: 'blockHash', at: 0 },
  summary: 'Traces all transactions of a block by running them again.',
  runs: 'trace',
  replays: (_view, blockHash) => blockHash,
  listed: LISTED,
  basis: 'about',
  cost: 20,
  weight: 80,
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
  about: { is: 'block', at: 0 },
  summary: 'Traces all transactions of a block by running them again.',
  runs: 'trace',
  replays: (view, at) => view.block(at)?.hash,
  listed: LISTED,
  basis: 'about',
  cost: 20,
  weight: 80,
  params: [param('Block', blockNumber), optional('Options', traceConfig)],
  result: blockTraceResult,
  handler(context, at, config) {
    const block = context.view.block(at)
    if (block === undefined) throw failed(`block ${nameOf(at)} not found`)
    return blockTraces(context, block, config)
  },
})

/**
 * Requires a named tracer, as the service does for blocks by number. The check runs at decoding,
 * before the call is queued.
 * @returns the method with the check
 */
export function requireTracer(method: Method): Method {
  return {
    ...method,
    decode(params, limits) {
      const decoded = method.decode(params, limits)
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
  about: { is: 'state', at: 1, isAtOnce: true },
  summary: 'Traces a message by running it on the state of a block.',
  runs: 'trace',
  replays: (view, _request, at, config) =>
    config?.txIndex === undefined ? undefined : view.block(at)?.hash,
  cost: 10,
  basis: 'about',
  weight: 40,
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
  context: PoolContext,
  requested: {
    readonly request: CallFields
    readonly at: BlockSelector
    readonly config: TraceCallConfig
    readonly isExpired: () => boolean
  },
): Promise<void> {
  const { view, engine, output } = context
  const { request, at, config, isExpired } = requested
  const block = resolveBlock(view, at)
  const { stateOverrides, blockOverrides, txIndex } = config
  const budget = budgetOf(context)
  const options = callOptions(context, { request, block, stateOverrides, blockOverrides })
  const rules = context.chain.rulesAt(block.number, block.header.timestamp)
  const reader =
    txIndex === undefined
      ? options.reader
      : await readerBefore(context, { block, txIndex, isExpired, ofBlock: options.reader })
  const tracer = makeTracer(choiceOf(config), {
    location: undefined,
    firstLog: 0,
    precompiles: precompilesOf(engine, { rules }),
    budget,
    output,
  })
  let isApplied = false
  const observer: Observer = {
    sink: tracer.sink,
    start: (scene) => tracer.start?.(scene),
    end(gasUsed) {
      isApplied = true
      tracer.end?.(gasUsed)
    },
  }
  const done = await call({
    ...options,
    reader,
    tracer: observer,
    limits: { ...options.limits, isExpired: () => isExpired() || budget.excess !== undefined },
  })
  if (budget.excess !== undefined) throw failed(budget.excess)
  if (!isApplied && done.status !== 'success') throw failureOf(done)
  tracer.writeResult()
  if (budget.excess !== undefined) throw failed(budget.excess)
}

/**
 * Returns the state before a transaction of the block. An empty block has the state before index 0,
 * too (go-ethereum: stateAtTransaction).
 */
async function readerBefore(
  context: PoolContext,
  at: {
    readonly block: Block
    readonly txIndex: bigint
    readonly isExpired: () => boolean
    readonly ofBlock: StateReader
  },
): Promise<StateReader> {
  const { block, txIndex, isExpired, ofBlock } = at
  if (block.number === context.chain.genesisNumber) throw failed('no transaction in genesis')
  if (txIndex > 0n && txIndex >= block.transactionCount)
    throw failed(`transaction index ${txIndex} out of range for block ${bytesToHex(block.hash)}`)
  const limits = { isExpired, isLost: context.isLost }
  const within = await stateWithin({ ...replayOf(context, block), limits }, Number(txIndex))
  /*
   * A call in the next block may read this block's hash, which the state of its parent does not
   * have.
   */
  return { ...within, blockHash: (number) => ofBlock.blockHash(number) }
}

async function blockTraces(
  context: PoolContext,
  block: Block,
  config: TraceConfig | undefined,
): Promise<void> {
  const { output } = context
  const { limit } = output
  let left = block.transactionCount
  let separator = '['
  await traced(context, block, {
    config,
    first: 0,
    last: block.transactionCount - 1,
    open(transactionHash) {
      // Each later transaction may need space for an error text.
      output.limit = limit - left * PROBLEM_BYTES
      output.write(`${separator}{"txHash":${hexText(transactionHash)},"result":`)
    },
    close(transactionHash, problem) {
      output.limit = limit
      left--
      if (problem === undefined) output.write('}')
      else {
        const name = `{"txHash":${hexText(transactionHash)}`
        output.write(`${separator}${name},"error":${asciiJson(problem)}}`)
      }
      separator = ','
    },
  })
  output.write(block.transactionCount === 0 ? '[]' : ']')
}
/** Space for an error text in place of a trace. */
const PROBLEM_BYTES = 256

/**
 * Writes the traces of some transactions of a block.
 * @throws {RpcError}
 */
async function traced(
  context: PoolContext,
  block: Block,
  requested: Pick<TraceOptions, 'first' | 'last' | 'open' | 'close'> & {
    readonly config: TraceConfig | undefined
  },
): Promise<void> {
  const { config = {}, ...rest } = requested
  return replaying(context, config, (isExpired) =>
    traceTransactions({
      ...replayOf(context, block),
      choice: choiceOf(config),
      budget: budgetOf(context),
      output: context.output,
      /*
       * Gas bounds the memory of included transactions, so the memory limit of calls does not
       * apply.
       */
      limits: { isExpired, isLost: context.isLost },
      ...rest,
    }),
  )
}

function budgetOf({ output, limits }: PoolContext): TraceBudget {
  return new TraceBudget(output, { bytes: limits.responseBytes, steps: limits.traceSteps })
}

function replayOf(
  { view, chain, engine, replays, expects }: PoolContext,
  block: Block,
): Omit<ReplayOptions, 'limits'> {
  if (block.number === chain.genesisNumber) throw failed('genesis is not traceable')
  const { header, hash } = block
  const parent = view.block({ hash: header.parentHash, requireCanonical: false })
  if (parent === undefined) throw failed(`block ${bytesToHex(header.parentHash)} not found`)
  const reader = view.state(parent)
  const transactions = block.transactions()
  expects?.(() => ({ reader, messages: transactions }))
  const receipts = () => block.receipts()
  return { engine, chain, reader, header, hash, transactions, receipts, cached: replays }
}

/** Runs under the request's deadline and the caller's own timeout. */
async function replaying<T>(
  context: PoolContext,
  config: TraceConfig,
  run: (isExpired: () => boolean) => Promise<T>,
): Promise<T> {
  const own = context.now() + (config.timeout ?? Number.POSITIVE_INFINITY)
  let isOwn = false
  const isExpired = () => {
    isOwn ||= context.now() > own
    return isOwn || context.isExpired()
  }
  try {
    return await run(isExpired)
  } catch (error) {
    if (error instanceof ReplayStopped) throw isOwn ? failed('execution timeout') : timedOut()
    throw asRpcError(error)
  }
}

function asRpcError(error: unknown): unknown {
  if (!(error instanceof TracerError)) return error
  return error.isConfig ? invalidParams(error.message) : failed(error.message)
}

function nameOf(at: BlockNumber): string {
  if ('tag' in at) return at.tag
  if ('number' in at) return `#${at.number}`
  return `#${at.flashblock.number} at flashblock ${at.flashblock.index}`
}

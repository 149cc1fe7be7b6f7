/** Replays transactions of an existing block, some of them with a tracer. */
import type { Engine } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { overlayReader } from '../../state/overlay.ts'
import type { StateReader } from '../../state/reader.ts'
import { makeTracer, type TracerChoice } from '../../tracers/registry.ts'
import {
  type TraceBudget,
  type TraceOutput,
  type Tracer,
  TracerError,
} from '../../tracers/types.ts'
import type { BlockExecution } from '../transaction/types.ts'
import {
  execute,
  type Replay,
  type ReplayOptions,
  ReplayStopped,
  replayed,
} from './replay-cache.ts'

export type TraceOptions = ReplayOptions & {
  readonly choice: TracerChoice
  readonly budget: TraceBudget
  readonly output: TraceOutput
  /** Indices of the traced transactions; those before `first` are only executed. */
  readonly first: number
  readonly last: number
  /**
   * Write the text around a trace. With a problem, `close` writes all of it instead of the trace.
   */
  readonly open: (transactionHash: Bytes) => void
  readonly close: (transactionHash: Bytes, problem: string | undefined) => void
}

/**
 * Writes a trace for each transaction from `first` to `last`. When the budget is spent, that
 * transaction and all later ones get a problem instead.
 * @throws {ViewError} {MissingError} {ReplayStopped} {TracerError} for an invalid tracer
 */
export function traceTransactions(options: TraceOptions): Promise<void> {
  return replayed(options, options.first, (replay) => traceOn(replay, options))
}

async function traceOn(replay: Replay, options: TraceOptions): Promise<void> {
  const { engine, hash, header, transactions, budget, output, limits, choice, first, last } =
    options
  const { block } = replay
  const precompiles = precompilesOf(engine, block)
  const isExpired = () => budget.excess !== undefined || limits.isExpired?.() === true
  for (const [index, transaction] of transactions.slice(0, last + 1).entries()) {
    if (index < first) continue
    const { hash: transactionHash } = transaction
    const start = output.length
    options.open(transactionHash)
    const tracer = makeTracer(choice, {
      location: {
        blockHash: hash,
        blockNumber: header.number,
        transactionHash,
        transactionIndex: index,
      },
      firstLog: block.logCount,
      precompiles,
      budget,
      output,
    })
    await execute(replay, transaction, { ...limits, isExpired }, tracer).catch((error: unknown) => {
      if (!(error instanceof ReplayStopped) || budget.excess === undefined) throw error
    })
    const problem = budget.excess ?? problemOf(tracer) ?? budget.excess
    const { excess } = budget
    if (problem !== undefined) output.cutTo(start)
    options.close(transactionHash, problem)
    if (excess === undefined) continue
    for (const left of transactions.slice(index + 1, last + 1)) options.close(left.hash, excess)
    return
  }
}

/**
 * Returns the state after the first `count` transactions of the block.
 * @throws errors of `traceTransactions`
 */
export const stateWithin = (options: ReplayOptions, count: number): Promise<StateReader> =>
  replayed(options, count, async ({ block }) => overlayReader(await block.diff(), options.reader))

/** Addresses in lower-case hex. */
export const precompilesOf = (engine: Engine, { rules }: Pick<BlockExecution, 'rules'>) =>
  new Set<string>(engine.precompiles(rules.evm).map(bytesToHex))

/** Writes the result, or returns the reason why there is none. */
function problemOf(tracer: Tracer): string | undefined {
  try {
    tracer.writeResult()
    return undefined
  } catch (error) {
    if (error instanceof TracerError) return error.message
    throw error
  }
}

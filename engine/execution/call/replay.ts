/** Replays transactions of a block that is there already, some of them under a tracer. */
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
} from './kept-replays.ts'

export type TraceOptions = ReplayOptions & {
  readonly choice: TracerChoice
  readonly budget: TraceBudget
  readonly output: TraceOutput
  /** Indices; those before `first` are executed only. */
  readonly first: number
  readonly last: number
  /** What stands before a trace and behind it in the output; with a problem, all of it, in the place of the trace. */
  readonly open: (transactionHash: Bytes) => void
  readonly close: (transactionHash: Bytes, problem: string | undefined) => void
}

/**
 * Writes one trace for each transaction from `first` to `last`. Where the budget is spent, that transaction and those after it have a
 * problem in its place. @throws {ViewError} {MissingError} {ReplayStopped} {TracerError} for a tracer that cannot be made
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
      place: {
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

/** The state after the first `count` transactions of the block. @throws as traceTransactions does */
export const stateWithin = (options: ReplayOptions, count: number): Promise<StateReader> =>
  replayed(options, count, async ({ block }) => overlayReader(await block.diff(), options.reader))

/** Addresses in lower-case hex. */
export const precompilesOf = (engine: Engine, { rules }: Pick<BlockExecution, 'rules'>) =>
  new Set<string>(engine.precompiles(rules.evm).map(bytesToHex))

/** Writes the result; gives why there is none. */
function problemOf(tracer: Tracer): string | undefined {
  try {
    tracer.writeResult()
    return undefined
  } catch (error) {
    if (error instanceof TracerError) return error.message
    throw error
  }
}

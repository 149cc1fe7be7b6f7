/** Replays transactions of a block that is there already, some of them under a tracer. */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine, Limits } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import { overlayReader } from '../../state/overlay.ts'
import type { StateReader } from '../../state/reader.ts'
import { makeTracer, type TracerChoice } from '../../tracers/registry.ts'
import {
  type Observer,
  type TraceBudget,
  type TraceOutput,
  type Tracer,
  TracerError,
} from '../../tracers/types.ts'
import { attributesOfHeader, openBlock } from '../block/block.ts'
import type { BlockExecution } from '../transaction/types.ts'

export type ReplayOptions = {
  readonly engine: Engine
  readonly chain: Pick<ChainSpec, 'rulesAt'>
  /** The state after the parent. */
  readonly reader: StateReader
  readonly header: Header
  readonly hash: Bytes
  readonly transactions: readonly Transaction[]
  /** One deadline for all of it. */
  readonly limits: Limits
}
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

/** The limits ended the replay. */
export class ReplayStopped extends Error {
  override name = 'ReplayStopped'
}

/**
 * Writes one trace for each transaction from `first` to `last`. Where the budget is spent, that transaction and those after it have a
 * problem in its place. @throws {ViewError} {MissingError} {ReplayStopped} {TracerError} for a tracer that cannot be made
 */
export async function traceTransactions(options: TraceOptions): Promise<void> {
  const block = openReplay(options)
  await traceOpened(options, block).finally(() => block.close())
}

async function traceOpened(options: TraceOptions, block: BlockExecution): Promise<void> {
  const { engine, hash, header, transactions, budget, output, limits, choice } = options
  const precompiles = precompilesOf(engine, block)
  await block.begin()
  for (const [index, transaction] of transactions.slice(0, options.last + 1).entries()) {
    if (index < options.first) {
      await replay(block, transaction, limits)
      continue
    }
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
      firstLog: block.executed.reduce((sum, { receipt }) => sum + receipt.logs.length, 0),
      precompiles,
      budget,
      output,
    })
    const isExpired = () => budget.excess !== undefined || limits.isExpired?.() === true
    await replay(block, transaction, { ...limits, isExpired }, tracer).catch((error: unknown) => {
      if (!(error instanceof ReplayStopped) || budget.excess === undefined) throw error
    })
    const problem = budget.excess ?? problemOf(tracer) ?? budget.excess
    const { excess } = budget
    if (problem !== undefined) output.cutTo(start)
    options.close(transactionHash, problem)
    if (excess === undefined) continue
    for (const left of transactions.slice(index + 1, options.last + 1))
      options.close(left.hash, excess)
    return
  }
}

/** The state after the first `count` transactions of the block. @throws as traceTransactions does */
export async function stateWithin(options: ReplayOptions, count: number): Promise<StateReader> {
  const block = openReplay(options)
  try {
    await block.begin()
    for (const transaction of options.transactions.slice(0, count))
      await replay(block, transaction, options.limits)
    return overlayReader(block.diff(), options.reader)
  } finally {
    block.close()
  }
}

/** Addresses in lower-case hex. */
export const precompilesOf = (engine: Engine, { rules }: Pick<BlockExecution, 'rules'>) =>
  new Set<string>(engine.precompiles(rules.evm).map(bytesToHex))

function openReplay({ engine, chain, reader, header }: ReplayOptions): BlockExecution {
  return openBlock({ engine, chain, reader, attributes: attributesOfHeader(header) })
}

async function replay(
  block: BlockExecution,
  transaction: Transaction,
  limits: Limits,
  tracer?: Observer,
): Promise<true> {
  if (limits.isExpired?.() === true) throw new ReplayStopped('the deadline has passed')
  const done = await block.execute(transaction, limits, tracer)
  if (done.status === 'executed') return true
  if (done.status === 'stopped') throw new ReplayStopped('the transaction was stopped')
  const name = bytesToHex(transaction.hash)
  throw new Error(
    `replay of block ${block.attributes.number}: ${name} is in it but invalid: ${done.reason.message}`,
  )
}

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

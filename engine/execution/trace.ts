/** Replays transactions of a block that is there already, some of them under a tracer. */
import type { ChainSpec } from '../chainspec/types.ts'
import type { Engine, Limits } from '../evm/engine.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { bytesToHex } from '../primitives/hex.ts'
import type { Transaction } from '../primitives/transaction.ts'
import { overlayReader } from '../state/overlay.ts'
import type { StateReader } from '../state/reader.ts'
import { makeTracer, type TracerChoice } from '../tracers/registry.ts'
import { type TraceBudget, type Tracer, TracerError } from '../tracers/types.ts'
import { attributesOfHeader, openBlock } from './block.ts'
import type { BlockExecution } from './types.ts'

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
  /** Indices; those before `first` are executed only. */
  readonly first: number
  readonly last: number
}
/** JSON in pieces, or why there is none. */
export type Trace =
  | { readonly transactionHash: Bytes; readonly pieces: readonly string[] }
  | { readonly transactionHash: Bytes; readonly error: string }

/** The limits ended the replay. */
export class ReplayStopped extends Error {
  override name = 'ReplayStopped'
}

/**
 * One trace for each transaction from `first` to `last`. Where the budget is spent, that transaction and those after it have an error in
 * its place. @throws {ViewError} {MissingError} {ReplayStopped} {TracerError} for a tracer that cannot be made
 */
export async function traceTransactions(options: TraceOptions): Promise<readonly Trace[]> {
  const { engine, hash, header, transactions, budget, limits, choice } = options
  const block = openReplay(options)
  const precompiles = precompilesOf(engine, block)
  const traces: Trace[] = []
  await block.begin()
  for (const [index, transaction] of transactions.slice(0, options.last + 1).entries()) {
    if (index < options.first) {
      await replay(block, transaction, limits)
      continue
    }
    const { hash: transactionHash } = transaction
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
    })
    const isExpired = () => budget.isSpent || limits.isExpired?.() === true
    const isWhole = await replay(block, transaction, { ...limits, isExpired }, tracer).catch(
      (error: unknown) => {
        if (error instanceof ReplayStopped && budget.isSpent) return false
        throw error
      },
    )
    if (!isWhole || budget.isSpent) {
      const error = `trace of more than ${budget.bytes} bytes`
      for (const left of transactions.slice(index, options.last + 1))
        traces.push({ transactionHash: left.hash, error })
      break
    }
    traces.push(traceOf(transactionHash, tracer))
  }
  return traces
}

/** The state after the first `count` transactions of the block. @throws as traceTransactions does */
export async function stateWithin(options: ReplayOptions, count: number): Promise<StateReader> {
  const block = openReplay(options)
  await block.begin()
  for (const transaction of options.transactions.slice(0, count))
    await replay(block, transaction, options.limits)
  return overlayReader(block.diff(), options.reader)
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
  tracer?: Tracer,
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

function traceOf(transactionHash: Bytes, tracer: Tracer): Trace {
  try {
    return { transactionHash, pieces: tracer.result() }
  } catch (error) {
    if (error instanceof TracerError) return { transactionHash, error: error.message }
    throw error
  }
}

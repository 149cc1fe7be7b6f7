/**
 * A block whose engine may fail: what was executed is executed again from the block's base on the engine behind it, and the block goes on
 * there. Nothing that lies in this process, a trap or a memory that cannot grow, makes a block unexecutable.
 */
import { type Engine, type Fallback, type Stopped, TrapError } from '../../evm/engine.ts'
import type { BlockCheckpoint, BlockExecution } from '../transaction/types.ts'

/** @param open begins the same block each time */
export function withFallback(
  engine: Engine,
  open: (engine: Engine) => BlockExecution,
): BlockExecution {
  const { fallback } = engine
  const block = open(engine)
  return fallback === undefined ? block : guarded(block, fallback, () => open(fallback.engine))
}

function guarded(
  first: BlockExecution,
  { tell }: Fallback,
  openAgain: () => BlockExecution,
): BlockExecution {
  let block = first
  let isBegun = false
  /** On the second engine: its place after `begin`, and after each transaction. A checkpoint of the first one's names no place here. */
  let places: BlockCheckpoint[] | undefined
  const placeOf = (at: BlockCheckpoint): BlockCheckpoint => places?.[at.transactions] ?? at

  /** @throws as execution does, with everything as before */
  async function startAgain(why: string): Promise<void> {
    tell(`block ${block.attributes.number}, after ${block.executed.length} transactions: ${why}`)
    const again = openAgain()
    const reached = await repeat(block, again, isBegun).catch((error: unknown) => {
      again.close()
      throw error
    })
    block.close()
    block = again
    places = reached
  }

  /** Once more where the engine fails: `work` leaves nothing behind but in the block. */
  async function sure<T>(work: () => Promise<T>, isFailed: (done: T) => boolean): Promise<T> {
    let why = 'no memory'
    try {
      const done = await work()
      if (places !== undefined || !isFailed(done)) return done
    } catch (error) {
      if (places !== undefined || !(error instanceof TrapError)) throw error
      why = error.message
    }
    await startAgain(why)
    return work()
  }

  return {
    get attributes() {
      return block.attributes
    },
    get env() {
      return block.env
    },
    get rules() {
      return block.rules
    },
    get executed() {
      return block.executed
    },
    get gasUsed() {
      return block.gasUsed
    },
    get logCount() {
      return block.logCount
    },
    async begin() {
      await sure(
        () => block.begin(),
        () => false,
      )
      isBegun = true
      if (places !== undefined) places = [block.checkpoint()]
    },
    async execute(transaction, limits, tracer) {
      const work = () => block.execute(transaction, limits, tracer)
      // A tracer has been told half of it: whoever has it begins anew.
      const done =
        tracer === undefined
          ? await sure(work, (one) => isOutOfMemory(one) && limits?.memoryBytes === undefined)
          : await work()
      if (done.status === 'executed') places?.push(block.checkpoint())
      return done
    },
    finish: (tail) =>
      sure(
        () => block.finish(tail),
        () => false,
      ),
    sums: () => block.sums(),
    checkpoint: () => block.checkpoint(),
    revert(to) {
      block.revert(placeOf(to))
      if (places !== undefined) places.length = to.transactions + 1
    },
    diff: (since) => block.diff(since && placeOf(since)),
    close: () => block.close(),
  }
}

/** Gives the places of `again`. What limits a transaction had is no matter: it was executed. */
async function repeat(
  { attributes, executed }: BlockExecution,
  again: BlockExecution,
  isBegun: boolean,
): Promise<BlockCheckpoint[]> {
  if (isBegun) await again.begin()
  const places = [again.checkpoint()]
  for (const { transaction } of executed) {
    const { status } = await again.execute(transaction)
    if (status !== 'executed')
      throw new Error(
        `the engines differ on block ${attributes.number}: a transaction is ${status}`,
      )
    places.push(again.checkpoint())
  }
  return places
}

const isOutOfMemory = (done: { readonly status: 'executed' | 'invalid' } | Stopped): boolean =>
  done.status === 'stopped' && done.why === 'memory'

/**
 * A block that survives a failing engine. Its transactions are executed again from the block's base
 * on the fallback engine, where the block continues. So a block remains executable after a trap or
 * a failed memory allocation in this process.
 */
import {
  type Engine,
  type Fallback,
  type Limits,
  type Stopped,
  TrapError,
} from '../../evm/engine.ts'
import type { BlockTail } from '../../primitives/block-codec.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import type { Observer } from '../../tracers/types.ts'
import type { BlockAttributes, BlockCheckpoint, BlockExecution } from '../transaction/types.ts'

/** @param open opens the same block at each call */
export function withFallback(
  engine: Engine,
  open: (engine: Engine) => BlockExecution,
): BlockExecution {
  const { fallback } = engine
  const block = open(engine)
  return fallback === undefined
    ? block
    : new FallbackBlock(block, fallback, () => open(fallback.engine))
}

class FallbackBlock implements BlockExecution {
  #block: BlockExecution
  readonly #report: Fallback['report']
  readonly #reopen: () => BlockExecution
  #isStarted = false
  /**
   * Checkpoints on the fallback engine, after `start` and after each transaction. They replace the
   * first engine's checkpoints, which are not valid there.
   */
  #checkpoints: BlockCheckpoint[] | undefined

  constructor(block: BlockExecution, { report }: Fallback, reopen: () => BlockExecution) {
    this.#block = block
    this.#report = report
    this.#reopen = reopen
  }

  get attributes() {
    return this.#block.attributes
  }
  get env() {
    return this.#block.env
  }
  get rules() {
    return this.#block.rules
  }
  get executed() {
    return this.#block.executed
  }
  get gasUsed() {
    return this.#block.gasUsed
  }
  get logCount() {
    return this.#block.logCount
  }

  async start() {
    await this.#withFallback(() => this.#block.start())
    this.#isStarted = true
    const { executed } = this.#block
    if (this.#checkpoints !== undefined)
      this.#checkpoints = Array<BlockCheckpoint>(executed.length + 1).fill(this.#block.checkpoint())
  }
  async execute(transaction: Transaction, limits?: Limits, tracer?: Observer) {
    const work = () => this.#block.execute(transaction, limits, tracer)
    const isFailed = (done: Awaited<ReturnType<typeof work>>) =>
      isOutOfMemory(done) && limits?.memoryBytes === undefined
    // With a tracer the caller restarts, because the tracer has already received some events.
    const done = tracer === undefined ? await this.#withFallback(work, isFailed) : await work()
    if (done.status === 'executed') this.#checkpoints?.push(this.#block.checkpoint())
    return done
  }
  refund(postExec: BlockAttributes['postExec']) {
    return this.#block.refund(postExec)
  }
  finish(tail: BlockTail) {
    return this.#withFallback(() => this.#block.finish(tail))
  }
  sums() {
    return this.#block.sums()
  }
  checkpoint() {
    return this.#orLost(() => this.#block.checkpoint()) ?? withoutJournal(this.#block)
  }
  revert(to: BlockCheckpoint): void {
    // The counts are reverted even if the engine fails. The next use of the state finds the session
    // lost and restarts the block.
    this.#orLost(() => this.#block.revert(this.#checkpointOf(to)))
    if (this.#checkpoints !== undefined) this.#checkpoints.length = to.transactions + 1
  }
  diff(since?: BlockCheckpoint) {
    return this.#withFallback(() => this.#block.diff(since && this.#checkpointOf(since)))
  }
  close(): void {
    this.#block.close()
  }

  #checkpointOf(at: BlockCheckpoint): BlockCheckpoint {
    return this.#checkpoints?.[at.transactions] ?? at
  }

  /**
   * Returns undefined if the engine fails; the block then restarts at the next asynchronous call.
   */
  #orLost<T>(work: () => T): T | undefined {
    try {
      return work()
    } catch (error) {
      if (this.#checkpoints !== undefined || !(error instanceof TrapError)) throw error
      return undefined
    }
  }

  /**
   * Repeats `work` on the fallback engine if the first engine fails. `work` must change only the
   * block.
   */
  async #withFallback<T>(
    work: () => Promise<T>,
    isFailed: (done: T) => boolean = () => false,
  ): Promise<T> {
    let why = 'no memory'
    try {
      const done = await work()
      if (this.#checkpoints !== undefined || !isFailed(done)) return done
    } catch (error) {
      if (this.#checkpoints !== undefined || !(error instanceof TrapError)) throw error
      why = error.message
    }
    await this.#restartOnFallback(why)
    return work()
  }

  /** @throws errors of execution, with everything as before */
  async #restartOnFallback(why: string): Promise<void> {
    const { attributes, executed } = this.#block
    this.#report(`block ${attributes.number}, after ${executed.length} transactions: ${why}`)
    const redone = this.#reopen()
    redone.refund(attributes.postExec)
    const checkpoints = await repeat(this.#block, redone, this.#isStarted).catch(
      (error: unknown) => {
        redone.close()
        throw error
      },
    )
    if (redone.gasUsed !== this.#block.gasUsed)
      this.#report(`block ${attributes.number}: the engines differ in gas, the second one's counts`)
    this.#block.close()
    this.#block = redone
    this.#checkpoints = checkpoints
  }
}

/**
 * Executes the block's transactions on `redone` and returns its checkpoints. Limits are
 * unnecessary, because every transaction was executed before.
 */
async function repeat(
  { attributes, executed }: BlockExecution,
  redone: BlockExecution,
  isStarted: boolean,
): Promise<BlockCheckpoint[]> {
  if (isStarted) await redone.start()
  // Transactions that the block starts with cannot be reverted here.
  const first = redone.executed.length
  const checkpoints = Array<BlockCheckpoint>(first + 1).fill(redone.checkpoint())
  for (const { transaction } of executed.slice(first)) {
    const { status } = await redone.execute(transaction)
    if (status !== 'executed')
      throw new Error(
        `the engines differ on block ${attributes.number}: a transaction is ${status}`,
      )
    checkpoints.push(redone.checkpoint())
  }
  return checkpoints
}

/**
 * A checkpoint without a journal position. The number of transactions identifies its position on
 * the fallback engine.
 */
const withoutJournal = (block: BlockExecution): BlockCheckpoint => ({
  journal: 0,
  transactions: block.executed.length,
  gasUsed: block.gasUsed,
  blobGasUsed: block.sums().blobGasUsed,
  logCount: block.logCount,
})

const isOutOfMemory = (done: { readonly status: 'executed' | 'invalid' } | Stopped): boolean =>
  done.status === 'stopped' && done.why === 'memory'

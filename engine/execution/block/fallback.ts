/**
 * A block whose engine may fail: what was executed is executed again from the block's base on the engine behind it, and the block goes on
 * there. Nothing that lies in this process, a trap or a memory that cannot grow, makes a block unexecutable.
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

/** @param open begins the same block each time */
export function withFallback(
  engine: Engine,
  open: (engine: Engine) => BlockExecution,
): BlockExecution {
  const { fallback } = engine
  const block = open(engine)
  return fallback === undefined
    ? block
    : new SureBlock(block, fallback, () => open(fallback.engine))
}

class SureBlock implements BlockExecution {
  #block: BlockExecution
  readonly #tell: Fallback['tell']
  readonly #openAgain: () => BlockExecution
  #isBegun = false
  /** On the second engine: its place after `begin`, and after each transaction. A checkpoint of the first one's names no place there. */
  #places: BlockCheckpoint[] | undefined

  constructor(block: BlockExecution, { tell }: Fallback, openAgain: () => BlockExecution) {
    this.#block = block
    this.#tell = tell
    this.#openAgain = openAgain
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

  async begin() {
    await this.#sure(() => this.#block.begin())
    this.#isBegun = true
    const { executed } = this.#block
    if (this.#places !== undefined)
      this.#places = Array<BlockCheckpoint>(executed.length + 1).fill(this.#block.checkpoint())
  }
  async execute(transaction: Transaction, limits?: Limits, tracer?: Observer) {
    const work = () => this.#block.execute(transaction, limits, tracer)
    const isFailed = (done: Awaited<ReturnType<typeof work>>) =>
      isOutOfMemory(done) && limits?.memoryBytes === undefined
    // A tracer has been told half of it: whoever has it begins anew.
    const done = tracer === undefined ? await this.#sure(work, isFailed) : await work()
    if (done.status === 'executed') this.#places?.push(this.#block.checkpoint())
    return done
  }
  refund(postExec: BlockAttributes['postExec']) {
    return this.#block.refund(postExec)
  }
  finish(tail: BlockTail) {
    return this.#sure(() => this.#block.finish(tail))
  }
  sums() {
    return this.#block.sums()
  }
  checkpoint() {
    return this.#orLost(() => this.#block.checkpoint()) ?? unplaced(this.#block)
  }
  revert(to: BlockCheckpoint): void {
    // Where it fails the transactions are undone all the same; whatever needs the state next finds it lost, and begins again.
    this.#orLost(() => this.#block.revert(this.#placeOf(to)))
    if (this.#places !== undefined) this.#places.length = to.transactions + 1
  }
  diff(since?: BlockCheckpoint) {
    return this.#sure(() => this.#block.diff(since && this.#placeOf(since)))
  }
  close(): void {
    this.#block.close()
  }

  #placeOf(at: BlockCheckpoint): BlockCheckpoint {
    return this.#places?.[at.transactions] ?? at
  }

  /** undefined: the engine has failed, and the block begins again when something can wait for it. */
  #orLost<T>(work: () => T): T | undefined {
    try {
      return work()
    } catch (error) {
      if (this.#places !== undefined || !(error instanceof TrapError)) throw error
      return undefined
    }
  }

  /** Once more where the engine fails: `work` leaves nothing behind but in the block. */
  async #sure<T>(work: () => Promise<T>, isFailed: (done: T) => boolean = () => false): Promise<T> {
    let why = 'no memory'
    try {
      const done = await work()
      if (this.#places !== undefined || !isFailed(done)) return done
    } catch (error) {
      if (this.#places !== undefined || !(error instanceof TrapError)) throw error
      why = error.message
    }
    await this.#startAgain(why)
    return work()
  }

  /** @throws as execution does, with everything as before */
  async #startAgain(why: string): Promise<void> {
    const { attributes, executed } = this.#block
    this.#tell(`block ${attributes.number}, after ${executed.length} transactions: ${why}`)
    const again = this.#openAgain()
    again.refund(attributes.postExec)
    const places = await repeat(this.#block, again, this.#isBegun).catch((error: unknown) => {
      again.close()
      throw error
    })
    if (again.gasUsed !== this.#block.gasUsed)
      this.#tell(`block ${attributes.number}: the engines differ in gas, the second one's counts`)
    this.#block.close()
    this.#block = again
    this.#places = places
  }
}

/** Gives the places of `again`. What limits a transaction had is no matter: it was executed. */
async function repeat(
  { attributes, executed }: BlockExecution,
  again: BlockExecution,
  isBegun: boolean,
): Promise<BlockCheckpoint[]> {
  if (isBegun) await again.begin()
  // Those that it begins with cannot be undone here.
  const first = again.executed.length
  const places = Array<BlockCheckpoint>(first + 1).fill(again.checkpoint())
  for (const { transaction } of executed.slice(first)) {
    const { status } = await again.execute(transaction)
    if (status !== 'executed')
      throw new Error(
        `the engines differ on block ${attributes.number}: a transaction is ${status}`,
      )
    places.push(again.checkpoint())
  }
  return places
}

/** Its counts: the journal is lost, and a checkpoint's transactions say its place on the second engine. */
const unplaced = (block: BlockExecution): BlockCheckpoint => ({
  journal: 0,
  transactions: block.executed.length,
  gasUsed: block.gasUsed,
  blobGasUsed: block.sums().blobGasUsed,
  logCount: block.logCount,
})

const isOutOfMemory = (done: { readonly status: 'executed' | 'invalid' } | Stopped): boolean =>
  done.status === 'stopped' && done.why === 'memory'

/**
 * A block whose transactions are executed here or, flashblock by flashblock, taken as another node has executed them. Whatever is taken how,
 * it is the same block: receipts, sums, changes. A run after what was taken has a session of its own, over the state that came out.
 */
import { decodeL1Attributes } from '../../chainspec/l1-attributes.ts'
import { type L1FeeParameters, rollupData } from '../../chainspec/l1-fee.ts'
import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv } from '../../evm/engine.ts'
import type { BlockTail } from '../../primitives/block-codec.ts'
import type { Log } from '../../primitives/receipt.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'
import type { StateDiff } from '../../state/diff.ts'
import { LaidState } from '../../state/laid.ts'
import { priceOf, type RollupFees, readL1Parameters } from '../transaction/fees.ts'
import {
  areSameRefunds,
  type Refunds,
  refundInReceipt,
  refundsOf,
} from '../transaction/post-exec.ts'
import type {
  BlockCheckpoint,
  BlockExecution,
  BlockPrefix,
  BlockSums,
  ExecutedTransaction,
  OpenBlock,
} from '../transaction/types.ts'
import { blockEnv, openBlock } from './block.ts'
import { dataGasOf, makeReceipt, withReceipt } from './receipts.ts'
import { createSums } from './sums.ts'

export interface JoinedExecution extends BlockExecution {
  /** The state after the transactions so far. Those that were executed here are one piece from then on: nobody may undo a part of it. */
  state(): Promise<LaidState>
  /**
   * The next transactions as they came out elsewhere. Nothing of it is judged here: sums tell. Where it begins the block, what the block does
   * before its first transaction is in its changes. @throws {MissingError} {ViewError} with nothing changed
   */
  join(part: JoinedPart): Promise<void>
}
export type JoinedPart = {
  readonly transactions: readonly Transaction[]
  /** One for each. */
  readonly outcomes: readonly TakenOutcome[]
  /** Of them alone, as `state().rebased` gives them. */
  readonly changes: StateDiff
}
/** What of a receipt nobody can know without executing. */
export type TakenOutcome = {
  readonly isSuccess: boolean
  readonly cumulativeGasUsed: bigint
  readonly logs: readonly Log[]
  /** Of a deposit. */
  readonly depositNonce: bigint | undefined
}

export const joinedBlock = (
  options: Parameters<OpenBlock>[0] & { readonly mostMissing: number },
): JoinedExecution => new Joined(options)

/** Where a checkpoint stands: in a run, or between pieces. */
type Place = { readonly run: BlockExecution | undefined; readonly pieces: number }
type Prefix = { -readonly [K in keyof BlockPrefix]: BlockPrefix[K] }

class Joined implements JoinedExecution {
  attributes: BlockExecution['attributes']
  readonly env: BlockEnv
  readonly rules: Rules
  #options: Parameters<OpenBlock>[0]
  readonly #laid: LaidState
  /** Of what was taken before the run, or is all of it. */
  #taken: Prefix = { executed: [], gasUsed: 0n, blobGasUsed: 0n, logCount: 0 }
  readonly #sums = createSums()
  #refunds: Refunds
  #run: BlockExecution | undefined
  readonly #places = new WeakMap<BlockCheckpoint, Place>()
  /** Pieces there were when a run was closed, its own among them. */
  readonly #closed = new WeakMap<BlockExecution, number>()

  constructor({ mostMissing, ...options }: Parameters<typeof joinedBlock>[0]) {
    const { chain, attributes, reader } = options
    this.#options = options
    this.attributes = attributes
    this.#refunds = refundsOf(attributes)
    this.rules = chain.rulesAt(attributes.number, attributes.timestamp)
    this.env = blockEnv(attributes, this.rules)
    this.#laid = new LaidState(reader, mostMissing)
  }

  get executed(): readonly ExecutedTransaction[] {
    return (this.#run ?? this.#taken).executed
  }
  get gasUsed(): bigint {
    return (this.#run ?? this.#taken).gasUsed
  }
  get logCount(): number {
    return (this.#run ?? this.#taken).logCount
  }

  begin(): Promise<void> {
    return this.#running().begin()
  }
  execute(...what: Parameters<BlockExecution['execute']>) {
    return this.#running().execute(...what)
  }
  refund(postExec: BlockExecution['attributes']['postExec']): boolean {
    const refunds = refundsOf({ postExec })
    if (!areSameRefunds(this.#refunds, refunds, this.executed.length)) return false
    this.#run?.refund(postExec)
    this.attributes = { ...this.attributes, postExec }
    this.#options = { ...this.#options, attributes: this.attributes }
    this.#refunds = refunds
    return true
  }
  finish(tail: BlockTail) {
    return this.#running().finish(tail)
  }

  /** A run that began the block has summed all of it. */
  sums(): BlockSums {
    if (this.#run !== undefined && this.#laid.pieces === 0) return this.#run.sums()
    const { executed, gasUsed } = this
    const { blobGasUsed } = this.#run?.checkpoint() ?? this.#taken
    return this.#sums.of(executed, { gasUsed, blobGasUsed })
  }

  checkpoint(): BlockCheckpoint {
    const { executed, gasUsed, blobGasUsed, logCount } = this.#taken
    const checkpoint = this.#run?.checkpoint() ?? {
      ...{ journal: 0, transactions: executed.length, gasUsed, blobGasUsed, logCount },
    }
    this.#places.set(checkpoint, { run: this.#run, pieces: this.#laid.pieces })
    return checkpoint
  }

  revert(to: BlockCheckpoint): void {
    const { run, pieces } = this.#placeOf(to)
    this.#sums.truncate(to.transactions)
    if (run !== undefined && run === this.#run) run.revert(to)
    else this.#takeBack(to, run, pieces)
  }

  #takeBack(to: BlockCheckpoint, run: Place['run'], pieces: number): void {
    this.#run?.close()
    this.#run = undefined
    if (run !== undefined && run.executed.length !== to.transactions)
      throw new Error('a checkpoint inside of what is one piece by now')
    this.#laid.cut(run === undefined ? pieces : this.#closed.get(run)!)
    const executed = this.#taken.executed.slice(0, to.transactions)
    const { gasUsed, blobGasUsed, logCount } = to
    this.#taken = { executed, gasUsed, blobGasUsed, logCount }
  }

  async diff(since?: BlockCheckpoint): Promise<StateDiff> {
    const place = since && this.#placeOf(since)
    if (this.#run === undefined)
      return this.#laid.diff(place === undefined ? 0 : this.#piecesAt(place))
    const own = await this.#run.diff(place?.run === this.#run ? since : undefined)
    if (this.#laid.pieces === 0) return own
    const after = this.#laid.rebased(own)
    if (place?.run === this.#run) return after
    const at = this.#laid.pieces
    this.#laid.lay(after)
    const all = this.#laid.diff(place === undefined ? 0 : this.#piecesAt(place))
    this.#laid.cut(at)
    return all
  }

  async join({ transactions, outcomes, changes }: JoinedPart): Promise<void> {
    await this.#closeRun()
    const at = this.#laid.pieces
    this.#laid.lay(changes)
    try {
      this.#take(transactions, outcomes)
    } catch (error) {
      this.#laid.cut(at)
      throw error
    }
  }

  #take(transactions: JoinedPart['transactions'], outcomes: JoinedPart['outcomes']): void {
    const { rules } = this
    const executed = [...this.#taken.executed]
    let { gasUsed, blobGasUsed, logCount } = this.#taken
    let parameters: L1FeeParameters | undefined
    const first = executed[0]?.transaction ?? transactions[0]
    const inReceipts = first && this.#parametersOf(first)
    for (const [at, transaction] of transactions.entries()) {
      const outcome = outcomes[at]!
      const isCharged = rules.l1Fee !== 'none' && isSigned(transaction)
      if (isCharged) parameters ??= readL1Parameters(this.#laid, rules)
      const rollup = isCharged
        ? { data: rollupData(transaction.raw), parameters: parameters! }
        : undefined
      const { cumulativeGasUsed } = outcome
      const gasRefund = refundInReceipt(transaction, rules, this.#refunds.get(executed.length))
      const own = { gasUsed: cumulativeGasUsed - gasUsed, gasRefund, rollup }
      executed.push(this.#takenAs(transaction, outcome, { ...own, parameters: inReceipts }))
      gasUsed = cumulativeGasUsed
      blobGasUsed += dataGasOf(transaction, rollup, rules)
      logCount += outcome.logs.length
    }
    this.#taken = { executed, gasUsed, blobGasUsed, logCount }
  }

  async state() {
    await this.#closeRun()
    return this.#laid
  }

  close(): void {
    this.#run?.close()
  }

  #takenAs(
    transaction: Transaction,
    { isSuccess, cumulativeGasUsed, logs, depositNonce }: TakenOutcome,
    own: {
      readonly gasUsed: bigint
      readonly gasRefund: bigint | undefined
      readonly rollup: RollupFees | undefined
      readonly parameters: L1FeeParameters | undefined
    },
  ): ExecutedTransaction {
    const { rules, env } = this
    const effectiveGasPrice = isSigned(transaction) ? priceOf(transaction, { env, rules }) : 0n
    const { parameters, gasRefund } = own
    const outcome = { isSuccess, gasUsed: own.gasUsed, logs, effectiveGasPrice, depositNonce }
    const about = {
      ...{ rules, env, cumulativeGasUsed, gasRefund, root: undefined, parameters },
      data: own.rollup?.data,
    }
    return withReceipt(transaction, () => makeReceipt(transaction, outcome, about))
  }

  /** Of receipts: those that the block's first transaction says. */
  #parametersOf(first: Transaction): L1FeeParameters | undefined {
    if (this.rules.l1Fee === 'none') return undefined
    return decodeL1Attributes(first.input)?.attributes ?? readL1Parameters(this.#laid, this.rules)
  }

  #running(): BlockExecution {
    if (this.#run === undefined) {
      const isFirst = this.#laid.pieces === 0 && this.#taken.executed.length === 0
      this.#run = openBlock({
        ...this.#options,
        reader: this.#laid.reader(),
        ...(isFirst ? {} : { after: this.#taken }),
      })
    }
    return this.#run
  }

  async #closeRun(): Promise<void> {
    const run = this.#run
    if (run === undefined) return
    this.#laid.lay(this.#laid.rebased(await run.diff()))
    const { blobGasUsed, gasUsed, logCount } = run.checkpoint()
    this.#taken = { executed: [...run.executed], gasUsed, blobGasUsed, logCount }
    run.close()
    this.#run = undefined
    this.#closed.set(run, this.#laid.pieces)
  }

  #placeOf(at: BlockCheckpoint): Place {
    const place = this.#places.get(at)
    if (place === undefined) throw new Error('a checkpoint of another block')
    return place
  }

  #piecesAt({ run, pieces }: Place): number {
    return run === undefined ? pieces : (this.#closed.get(run) ?? pieces)
  }
}

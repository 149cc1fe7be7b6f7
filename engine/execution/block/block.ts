/** Executes a block and builds its header. */

import { forkOfDeposit } from '../../chainspec/forks.ts'
import { EMPTY_REQUESTS } from '../../chainspec/genesis.ts'
import { decodeL1Attributes } from '../../chainspec/l1-attributes.ts'
import { type L1FeeParameters, rollupData } from '../../chainspec/l1-fee.ts'
import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Limits, Session } from '../../evm/engine.ts'
import type { BlockTail } from '../../primitives/block-codec.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { EMPTY_OMMERS, EMPTY_ROOT } from '../../primitives/keccak.ts'
import type { Receipt } from '../../primitives/receipt.ts'
import { recoverAuthority } from '../../primitives/signature.ts'
import {
  isSigned,
  type PostExecTransaction,
  type Transaction,
} from '../../primitives/transaction.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import { MissingError } from '../../state/reader.ts'
import type { Observer, TraceScene } from '../../tracers/types.ts'
import { blobBaseFee, type RollupFees, readL1Parameters } from '../transaction/fees.ts'
import { isGasless } from '../transaction/gasless.ts'
import { type InvalidTransaction, invalid } from '../transaction/invalid.ts'
import {
  areSameRefunds,
  postExecFault,
  postExecIn,
  type Refunds,
  refundInReceipt,
  refundsOf,
} from '../transaction/post-exec.ts'
import type { Applied } from '../transaction/settle.ts'
import { beforeTransactions } from '../transaction/system-call.ts'
import { applyTransaction } from '../transaction/transition.ts'
import type {
  BlockAttributes,
  BlockCheckpoint,
  BlockExecution,
  BlockSums,
  BuildHeader,
  ExecutedTransaction,
  OpenBlock,
} from '../transaction/types.ts'
import { GAS_PER_BLOB, type GasPool } from '../transaction/validation.ts'
import { withFallback } from './fallback.ts'
import { finishBlock } from './finish.ts'
import { dataGasOf, makeReceipt, withReceipt } from './receipts.ts'
import { createSums, type Sums } from './sums.ts'

export const openBlock: OpenBlock = ({ engine, chain, reader, attributes, rootAfter }) => {
  const rules = chain.rulesAt(attributes.number, attributes.timestamp)
  const env = blockEnv(attributes, rules)
  const about = { rules, env, rootAfter }
  return withFallback(
    engine,
    (one) => new Block(attributes, about, one.openSession(reader, env, rules.evm)),
  )
}

/** The block fields that contracts can read. */
export function blockEnv(attributes: BlockAttributes, rules: Rules): BlockEnv {
  const { number, timestamp, gasLimit, baseFee, coinbase, prevRandao } = attributes
  return {
    number,
    timestamp,
    gasLimit,
    baseFee,
    coinbase,
    prevRandao,
    blobBaseFee: blobBaseFee(rules, attributes.excessBlobGas ?? 0n),
    difficulty: attributes.difficulty ?? 0n,
  }
}

export const buildHeader: BuildHeader = (options) => {
  const { rules, attributes, sums, stateRoot, withdrawalsRoot = EMPTY_ROOT } = options
  const { baseFee, withdrawals, blobs, beaconRoot, requests } = rules.header
  return {
    parentHash: attributes.parentHash,
    ommersHash: EMPTY_OMMERS,
    coinbase: attributes.coinbase,
    stateRoot,
    transactionsRoot: sums.transactionsRoot,
    receiptsRoot: sums.receiptsRoot,
    logsBloom: sums.logsBloom,
    difficulty: attributes.difficulty ?? 0n,
    number: attributes.number,
    gasLimit: attributes.gasLimit,
    gasUsed: sums.gasUsed,
    timestamp: attributes.timestamp,
    extraData: attributes.extraData,
    mixHash: attributes.prevRandao,
    nonce: new Uint8Array(8),
    ...(baseFee ? { baseFeePerGas: attributes.baseFee } : {}),
    ...(withdrawals === 'none'
      ? {}
      : { withdrawalsRoot: withdrawals === 'empty' ? EMPTY_ROOT : withdrawalsRoot }),
    ...(blobs
      ? { blobGasUsed: sums.blobGasUsed, excessBlobGas: attributes.excessBlobGas ?? 0n }
      : {}),
    ...(beaconRoot ? { parentBeaconBlockRoot: attributes.parentBeaconBlockRoot ?? ZERO_32 } : {}),
    ...(requests ? { requestsHash: EMPTY_REQUESTS } : {}),
    ...options.tail,
  }
}

/**
 * The inverse of buildHeader, for the fields that execution reads.
 * @param last envelope of the block's last transaction
 */
export const attributesOfHeader = (header: Header, last: Bytes | undefined): BlockAttributes => ({
  parentHash: header.parentHash,
  parentBeaconBlockRoot: header.parentBeaconBlockRoot,
  coinbase: header.coinbase,
  prevRandao: header.mixHash,
  number: header.number,
  gasLimit: header.gasLimit,
  timestamp: header.timestamp,
  extraData: header.extraData,
  baseFee: header.baseFeePerGas ?? 0n,
  difficulty: header.difficulty,
  ...(header.excessBlobGas === undefined ? {} : { excessBlobGas: header.excessBlobGas }),
  postExec: postExecIn(last),
})

type RootAfter = Parameters<OpenBlock>[0]['rootAfter']

class Block implements BlockExecution {
  attributes: BlockAttributes
  readonly env: BlockEnv
  readonly rules: Rules
  readonly executed: ExecutedTransaction[] = []
  gasUsed = 0n
  logCount = 0
  readonly #session: Session
  readonly #rootAfter: RootAfter
  readonly #sums: Sums
  #refunds: Refunds
  #blobGasUsed = 0n
  /** Fee parameters from L1Block's storage, read at the first transaction that pays. */
  #l1: L1FeeParameters | undefined
  /** Fee parameters from the calldata of the block's first transaction. */
  #attributes: { readonly of: Transaction; readonly l1: L1FeeParameters | undefined } | undefined

  constructor(
    attributes: BlockAttributes,
    about: {
      readonly rules: Rules
      readonly env: BlockEnv
      readonly rootAfter: RootAfter
    },
    session: Session,
  ) {
    const { rules, env, rootAfter } = about
    this.#sums = createSums()
    this.attributes = attributes
    this.#refunds = refundsOf(attributes)
    this.#rootAfter = rules.hasReceiptStatus ? undefined : rootAfter
    this.rules = rules
    this.env = env
    this.#session = session
  }

  async start(): Promise<void> {
    await beforeTransactions(this.#session, this.attributes, this.rules)
  }

  async execute(transaction: Transaction, limits?: Limits, tracer?: Observer) {
    const reason =
      forkFault(transaction, this.attributes, this.rules) ??
      postExecFault(transaction, this.attributes, this)
    if (reason !== undefined) return { status: 'invalid' as const, reason }
    const gasless = await isGasless(this.#session, transaction, this.rules)
    const rollup = this.#rollup(transaction)
    tracer?.start?.(this.#sceneOf(transaction))
    if (tracer !== undefined) this.#session.setTrace(tracer.sink)
    if (transaction.type === 0x7d) traceNothing(transaction, tracer)
    const result = await applyTransaction(transaction, {
      session: this.#session,
      env: this.env,
      rules: this.rules,
      gasPool: this.#gasPool(),
      limits,
      rollup,
      gasRefund: this.#refunds.get(this.executed.length) ?? 0n,
      isGasless: gasless,
    })
    if (tracer !== undefined) this.#session.setTrace(undefined)
    if (result.status === 'missing') throw new MissingError(...result.missing)
    if (result.status !== 'executed') return result
    tracer?.end?.(result.gasUsed)
    return { status: 'executed' as const, executed: this.#add(transaction, result, rollup) }
  }

  refund(postExec: BlockAttributes['postExec']): boolean {
    const refunds = refundsOf({ postExec })
    if (!areSameRefunds(this.#refunds, refunds, this.executed.length)) return false
    this.attributes = { ...this.attributes, postExec }
    this.#refunds = refunds
    return true
  }

  async finish(tail: BlockTail): Promise<Bytes | undefined> {
    const logs = this.executed.flatMap(({ receipt }) => receipt.logs)
    const { attributes, rules } = this
    return finishBlock(this.#session, tail, { attributes, rules, logs })
  }

  sums(): BlockSums {
    return this.#sums.of(this.executed, { gasUsed: this.gasUsed, blobGasUsed: this.#blobGasUsed })
  }

  checkpoint(): BlockCheckpoint {
    return {
      journal: this.#session.checkpoint(),
      transactions: this.executed.length,
      gasUsed: this.gasUsed,
      blobGasUsed: this.#blobGasUsed,
      logCount: this.logCount,
    }
  }

  revert(to: BlockCheckpoint): void {
    this.executed.length = to.transactions
    this.#sums.truncate(to.transactions)
    this.gasUsed = to.gasUsed
    this.logCount = to.logCount
    this.#blobGasUsed = to.blobGasUsed
    this.#l1 = undefined
    // The counts are reverted first, so that the transactions can be executed again if this throws.
    this.#session.revert(to.journal)
  }

  async diff(since?: BlockCheckpoint) {
    return this.#session.diff(since?.journal ?? 0)
  }

  close(): void {
    this.#session.close()
  }

  #sceneOf(transaction: Transaction): TraceScene {
    const { from, to, value, input, gasLimit } = transaction
    const scene = { from, to, value, input, gasLimit, authorities: authoritiesOf(transaction) }
    return { ...scene, state: this.#session, rules: this.rules, coinbase: this.env.coinbase }
  }

  #gasPool(): GasPool {
    const limit = this.attributes.gasLimit
    const left = limit - this.#blobGasUsed
    return {
      gas: limit - this.gasUsed,
      daFootprint: this.rules.hasDaFootprint ? { left, limit } : undefined,
      blobGas: (this.rules.blobs?.max ?? 0n) * GAS_PER_BLOB - this.#blobGasUsed,
    }
  }

  #rollup(transaction: Transaction): RollupFees | undefined {
    if (this.rules.l1Fee === 'none' || !isSigned(transaction)) return undefined
    this.#l1 ??= readL1Parameters(this.#session, this.rules)
    return { data: rollupData(transaction.raw), parameters: this.#l1 }
  }

  #add(
    transaction: Transaction,
    applied: Applied,
    rollup: RollupFees | undefined,
  ): ExecutedTransaction {
    this.gasUsed += applied.gasUsed
    this.#blobGasUsed += dataGasOf(transaction, rollup, this.rules)
    this.logCount += applied.logs.length
    const executed = withReceipt(transaction, this.#receiptOf(transaction, applied, rollup))
    this.executed.push(executed)
    return executed
  }

  /** Captures values that later transactions change, because the receipt is made on demand. */
  #receiptOf(
    transaction: Transaction,
    applied: Applied,
    rollup: RollupFees | undefined,
  ): () => Receipt {
    const { rules, env, gasUsed: cumulativeGasUsed } = this
    const root = this.#rootAfter?.(this.#session.diff(0))
    const parameters = rules.l1Fee === 'none' ? undefined : this.#receiptParameters(transaction)
    const refund = this.#refunds.get(this.executed.length)
    const gasRefund = refundInReceipt(transaction, rules, refund)
    const about = { rules, env, cumulativeGasUsed, gasRefund, root, parameters, data: rollup?.data }
    return () => makeReceipt(transaction, applied, about)
  }

  /**
   * Receipts take fee parameters from the calldata of the block's first transaction. Charges take
   * them from storage.
   */
  #receiptParameters(transaction: Transaction): L1FeeParameters {
    const first = this.executed[0]?.transaction ?? transaction
    if (this.#attributes?.of !== first)
      this.#attributes = { of: first, l1: decodeL1Attributes(first.input)?.attributes }
    return this.#attributes.l1 ?? this.#l1 ?? readL1Parameters(this.#session, this.rules)
  }
}

/** Checks the rules of a fork's first block: deposits only, and the fork's own first deposit. */
function forkFault(
  transaction: Transaction,
  { isDepositsOnly, timestamp }: BlockAttributes,
  { fork }: Rules,
): InvalidTransaction | undefined {
  if (transaction.type !== 0x7e) return isDepositsOnly === true ? invalid.depositsOnly() : undefined
  if (isDepositsOnly === undefined) return undefined
  const started = forkOfDeposit(transaction.hash)
  if (started === undefined || (isDepositsOnly && started === fork)) return undefined
  return invalid.unscheduledFork(started, timestamp)
}

/** Emits an empty call frame, so that every tracer has a result. */
function traceNothing(
  { from, to, value, gasLimit, input }: PostExecTransaction,
  tracer: Observer | undefined,
): void {
  tracer?.sink.enter?.('CALL', from, to, value, gasLimit, input)
  tracer?.sink.exit?.(undefined, 0n, NO_BYTES)
}

function authoritiesOf(transaction: Transaction): Bytes[] {
  if (transaction.type !== 4) return []
  return transaction.authorizationList.map(recoverAuthority).filter((found) => found !== undefined)
}

/** A block being executed, and the header it gets. */

import { EMPTY_REQUESTS } from '../../chainspec/genesis.ts'
import { decodeL1Attributes } from '../../chainspec/l1-attributes.ts'
import {
  daFootprint,
  type L1FeeParameters,
  receiptL1Fee,
  rollupData,
} from '../../chainspec/l1-fee.ts'
import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Limits, Session } from '../../evm/engine.ts'
import { recoverAuthority } from '../../primitives/authorization.ts'
import type { BlockTail } from '../../primitives/block-codec.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { EMPTY_OMMERS, EMPTY_ROOT } from '../../primitives/keccak.ts'
import { orderedTrie } from '../../primitives/ordered-root.ts'
import type { Receipt } from '../../primitives/receipt.ts'
import { bloomOf, encodeReceipt, orBloom } from '../../primitives/receipt-codec.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import { createAddress } from '../../primitives/transaction-codec.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import { MissingError } from '../../state/reader.ts'
import type { Observer, TraceScene } from '../../tracers/types.ts'
import { blobBaseFee } from '../transaction/blob-fee.ts'
import { type RollupFees, readL1Parameters } from '../transaction/fees.ts'
import { isGasless } from '../transaction/gasless.ts'
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
import { blobGasOf, GAS_PER_BLOB, type Room } from '../transaction/validation.ts'
import { withFallback } from './fallback.ts'
import { finishBlock } from './finish.ts'

export const openBlock: OpenBlock = ({ engine, chain, reader, attributes, rootAfter }) => {
  const rules = chain.rulesAt(attributes.number, attributes.timestamp)
  const env = blockEnv(attributes, rules)
  const about = { rules, env, rootAfter }
  return withFallback(
    engine,
    (one) => new Block(attributes, about, one.openSession(reader, env, rules.evm)),
  )
}

/** What contracts read of a block. */
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

/** The inverse of buildHeader, for what execution reads. */
export const attributesOfHeader = (header: Header): BlockAttributes => ({
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
})

type RootAfter = Parameters<OpenBlock>[0]['rootAfter']

class Block implements BlockExecution {
  readonly attributes: BlockAttributes
  readonly env: BlockEnv
  readonly rules: Rules
  readonly executed: ExecutedTransaction[] = []
  gasUsed = 0n
  logCount = 0
  readonly #session: Session
  readonly #rootAfter: RootAfter
  /** They grow with the block, when roots are asked for: a flashblock's hash only what came with it, what is undone before is never hashed. */
  readonly #transactionTrie = orderedTrie()
  readonly #receiptTrie = orderedTrie()
  /** Transactions that are in them. */
  #hashed = 0
  #blobGasUsed = 0n
  #sums: BlockSums | undefined
  /** As L1Block's storage says, from the first transaction that pays. */
  #l1: L1FeeParameters | undefined
  /** As the calldata of the block's first transaction says. */
  #attributes: { readonly of: Transaction; readonly l1: L1FeeParameters | undefined } | undefined

  constructor(
    attributes: BlockAttributes,
    about: { readonly rules: Rules; readonly env: BlockEnv; readonly rootAfter: RootAfter },
    session: Session,
  ) {
    const { rules, env, rootAfter } = about
    this.attributes = attributes
    this.#rootAfter = rules.hasReceiptStatus ? undefined : rootAfter
    this.rules = rules
    this.env = env
    this.#session = session
  }

  async begin(): Promise<void> {
    await beforeTransactions(this.#session, this.attributes, this.rules)
  }

  async execute(transaction: Transaction, limits?: Limits, tracer?: Observer) {
    const gasless = await isGasless(this.#session, transaction, this.rules)
    const rollup = this.#rollup(transaction)
    tracer?.start?.(this.#sceneOf(transaction))
    if (tracer !== undefined) this.#session.setTrace(tracer.sink)
    const result = await applyTransaction(transaction, {
      session: this.#session,
      env: this.env,
      rules: this.rules,
      room: this.#room(),
      limits,
      rollup,
      isGasless: gasless,
    })
    if (tracer !== undefined) this.#session.setTrace(undefined)
    if (result.status === 'missing') throw new MissingError(...result.missing)
    if (result.status !== 'executed') return result
    tracer?.end?.(result.gasUsed)
    return { status: 'executed' as const, executed: this.#add(transaction, result, rollup) }
  }

  async finish(tail: BlockTail): Promise<Bytes | undefined> {
    const logs = this.executed.flatMap(({ receipt }) => receipt.logs)
    const { attributes, rules } = this
    return finishBlock(this.#session, tail, { attributes, rules, logs })
  }

  sums(): BlockSums {
    for (const { transaction, receipt } of this.executed.slice(this.#hashed)) {
      this.#transactionTrie.append(transaction.raw)
      this.#receiptTrie.append(encodeReceipt(receipt))
    }
    this.#hashed = this.executed.length
    this.#sums ??= {
      gasUsed: this.gasUsed,
      blobGasUsed: this.#blobGasUsed,
      logsBloom: this.executed.reduce<Bytes>(
        (bloom, { receipt }) => orBloom(bloom, receipt.logsBloom),
        new Uint8Array(256),
      ),
      receiptsRoot: this.#receiptTrie.root(),
      transactionsRoot: this.#transactionTrie.root(),
    }
    return this.#sums
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
    this.#transactionTrie.truncate(to.transactions)
    this.#receiptTrie.truncate(to.transactions)
    this.#hashed = Math.min(this.#hashed, to.transactions)
    this.gasUsed = to.gasUsed
    this.logCount = to.logCount
    this.#blobGasUsed = to.blobGasUsed
    this.#sums = undefined
    this.#l1 = undefined
    // What it throws leaves the transactions that count: they can be executed again.
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

  #room(): Room {
    const limit = this.attributes.gasLimit
    const left = limit - this.#blobGasUsed
    return {
      gas: limit - this.gasUsed,
      daFootprint: this.rules.hasDaFootprint ? { left, limit } : undefined,
      blobGas: (this.rules.blobs?.max ?? 0n) * GAS_PER_BLOB - this.#blobGasUsed,
    }
  }

  #rollup(transaction: Transaction): RollupFees | undefined {
    if (this.rules.l1Fee === 'none' || transaction.type === 0x7e) return undefined
    this.#l1 ??= readL1Parameters(this.#session, this.rules)
    return { data: rollupData(transaction.raw), parameters: this.#l1 }
  }

  #add(
    transaction: Transaction,
    applied: Applied,
    rollup: RollupFees | undefined,
  ): ExecutedTransaction {
    this.gasUsed += applied.gasUsed
    if (rollup !== undefined)
      this.#blobGasUsed += daFootprint(rollup.data, rollup.parameters, this.rules)
    else if (transaction.type !== 0x7e) this.#blobGasUsed += blobGasOf(transaction)
    this.logCount += applied.logs.length
    const executed = withReceipt(transaction, this.#receiptOf(transaction, applied, rollup))
    this.executed.push(executed)
    this.#sums = undefined
    return executed
  }

  /** Takes from the block what will be different later. */
  #receiptOf(
    transaction: Transaction,
    { isSuccess, gasUsed, logs, effectiveGasPrice, depositNonce }: Applied,
    rollup: RollupFees | undefined,
  ): () => Receipt {
    const cumulativeGasUsed = this.gasUsed
    const root = this.#rootAfter?.(this.#session.diff(0))
    const { type } = transaction
    const isDeposit = type === 0x7e
    const { rules, env } = this
    const parameters = rules.l1Fee === 'none' ? undefined : this.#receiptParameters(transaction)
    const nonce = isDeposit ? depositNonce! : transaction.nonce
    const version = rules.depositReceiptVersion
    return () => {
      const data = rollup?.data ?? (parameters && rollupData(transaction.raw))
      const l1 = parameters && receiptL1Fee({ data: data!, isDeposit }, parameters, rules)
      return {
        type,
        status: isSuccess ? 1 : 0,
        ...(root === undefined ? {} : { root }),
        cumulativeGasUsed,
        gasUsed,
        logsBloom: bloomOf(logs),
        logs,
        contractAddress:
          transaction.to === undefined ? createAddress(transaction.from, nonce) : undefined,
        effectiveGasPrice,
        ...(isDeposit ? { depositNonce: nonce } : {}),
        ...(isDeposit && version !== undefined ? { depositReceiptVersion: version } : {}),
        ...(l1 === undefined ? {} : { l1 }),
        ...(transaction.type === 3
          ? { blobGasUsed: blobGasOf(transaction), blobGasPrice: env.blobBaseFee }
          : {}),
      }
    }
  }

  /** Receipts take them from the calldata of the block's first transaction; what was charged came from storage. */
  #receiptParameters(transaction: Transaction): L1FeeParameters {
    const first = this.executed[0]?.transaction ?? transaction
    if (this.#attributes?.of !== first)
      this.#attributes = { of: first, l1: decodeL1Attributes(first.input)?.attributes }
    return this.#attributes.l1 ?? this.#l1 ?? readL1Parameters(this.#session, this.rules)
  }
}

/** The receipt is made when somebody reads it: a replay, and what is executed ahead in vain, have none. */
function withReceipt(transaction: Transaction, make: () => Receipt): ExecutedTransaction {
  let made: Receipt | undefined
  return {
    transaction,
    get receipt() {
      made ??= make()
      return made
    },
  }
}

function authoritiesOf(transaction: Transaction): Bytes[] {
  if (transaction.type !== 4) return []
  return transaction.authorizationList.map(recoverAuthority).filter((found) => found !== undefined)
}

/**
 * eth_simulateV1: runs blocks of calls on top of a block and discards their changes
 * (execution-apis; go-ethereum: ethapi/simulate.go).
 */
import { nextBaseFee } from '../../chainspec/base-fee.ts'
import type { ChainSpec, Rules } from '../../chainspec/types.ts'
import type { Engine, Limits, Session } from '../../evm/engine.ts'
import { revertReason } from '../../evm/revert-reason.ts'
import { encodeWithdrawal, type Withdrawal } from '../../primitives/block-codec.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { type Header, hashHeader } from '../../primitives/header.ts'
import { orderedRoot } from '../../primitives/ordered-root.ts'
import type { Receipt } from '../../primitives/receipt.ts'
import { bloomOf, encodeReceipt, orBloom } from '../../primitives/receipt-codec.ts'
import type { SignedTransaction } from '../../primitives/transaction.ts'
import { ZERO_20, ZERO_32 } from '../../primitives/words.ts'
import type { StateDiff } from '../../state/diff.ts'
import { overlayReader } from '../../state/overlay.ts'
import { MissingError, type StateReader } from '../../state/reader.ts'
import { blockEnv, buildHeader } from '../block/block.ts'
import { finishBlock } from '../block/finish.ts'
import { nextExcessBlobGas } from '../block/header-rules.ts'
import { beforeTransactions } from '../transaction/system-call.ts'
import type { BlockAttributes } from '../transaction/types.ts'
import { blobGasOf } from '../transaction/validation.ts'
import { applyOverrides, movedPrecompiles, overrideHashes } from './overrides.ts'
import { simulatedTransaction, simulationMessage } from './simulate-call.ts'
import {
  type BlockToSimulate,
  type NumberedBlock,
  numberBlocks,
  SimulationError,
} from './simulate-chain.ts'
import { LogCollector, type SimulatedLog } from './simulate-logs.ts'
import { runMessage } from './simulated-message.ts'

export type SimulateOptions = {
  readonly engine: Engine
  readonly chain: ChainSpec
  readonly base: Header
  readonly baseHash: Bytes
  /** The state after the base. */
  readonly reader: StateReader
  readonly blocks: readonly BlockToSimulate[]
  readonly traceTransfers: boolean
  /** Whether nonces, base fees and funds are checked as in a block. */
  readonly validation: boolean
  /** Maximum gas of all calls together. */
  readonly gasCap: bigint
  /** One deadline covers the whole request. */
  readonly limits: Limits
  /**
   * Computes roots after one more block's changes. undefined if the base has no trie; roots are
   * then zero.
   */
  readonly rootsAfter:
    | ((diff: StateDiff) => { readonly stateRoot: Bytes; readonly withdrawalsRoot: Bytes })
    | undefined
}
export type SimulatedCallResult = {
  readonly isSuccess: boolean
  readonly output: Bytes
  readonly logs: readonly SimulatedLog[]
  readonly gasUsed: bigint
  /** Gas before refunds. */
  readonly maxUsedGas: bigint
  readonly error:
    | { readonly why: 'reverted' | 'halted'; readonly message: string; readonly data?: Bytes }
    | undefined
}
export type SimulatedBlock = {
  readonly header: Header
  readonly hash: Bytes
  readonly transactions: readonly SignedTransaction[]
  readonly withdrawals: readonly Withdrawal[] | undefined
  readonly calls: readonly SimulatedCallResult[]
}

/** The deadline passed, or a frame grew too large. */
export class SimulationStopped extends Error {
  override name = 'SimulationStopped'
}

/**
 * Simulates blocks of calls.
 * @throws {SimulationError} {SimulationStopped} {ViewError} {MissingError} {RequestsError}
 */
export async function simulateBlocks(options: SimulateOptions): Promise<readonly SimulatedBlock[]> {
  const { base, baseHash, blocks, chain } = options
  const numbered = numberBlocks(base, blocks, BigInt(chain.blockTime))
  const simulated: SimulatedBlock[] = []
  const hashes: (readonly [bigint, Bytes])[] = [[base.number, baseHash]]
  const budget = { gas: options.gasCap }
  let parent = { header: base, hash: baseHash }
  let { reader } = options
  for (const block of numbered) {
    const run = new BlockRun(options, {
      block,
      parent,
      reader: overrideHashes(reader, hashes),
      budget,
    })
    const { diff, finish } = await run.execute().finally(() => run.close())
    reader = overlayReader(diff, reader)
    const made = finish(options.rootsAfter?.(diff))
    simulated.push(made)
    hashes.push([made.header.number, made.hash])
    parent = made
  }
  return simulated
}

type Parent = { readonly header: Header; readonly hash: Bytes }

class BlockRun {
  readonly #options: SimulateOptions
  readonly #block: NumberedBlock
  readonly #attributes: BlockAttributes
  readonly #rules: Rules
  readonly #session: Session
  readonly #logs: LogCollector
  readonly #budget: { gas: bigint }
  readonly #env: ReturnType<typeof blockEnv>
  readonly #transactions: SignedTransaction[] = []
  readonly #receipts: Receipt[] = []
  readonly #calls: SimulatedCallResult[] = []
  #gasUsed = 0n
  #blobGasUsed = 0n

  constructor(
    options: SimulateOptions,
    about: {
      readonly block: NumberedBlock
      readonly parent: Parent
      readonly reader: StateReader
      readonly budget: { gas: bigint }
    },
  ) {
    const { engine, chain, validation } = options
    const { block, parent, reader, budget } = about
    this.#options = options
    this.#block = block
    this.#budget = budget
    const rules = chain.rulesAt(block.number, block.timestamp)
    this.#rules = rules
    this.#attributes = attributesOf({ block, parent, rules, chain, validation })
    const env = blockEnv(this.#attributes, rules)
    const { blobBaseFee = env.blobBaseFee } = block.blockOverrides ?? {}
    this.#env = { ...env, blobBaseFee }
    const { stateOverrides = [] } = block
    const overridden = movedPrecompiles(stateOverrides, () => engine.precompiles(rules.evm))
    if ('refusal' in overridden) throw new SimulationError('input', overridden.refusal)
    const evm =
      overridden.moved.length === 0 ? rules.evm : { ...rules.evm, moved: overridden.moved }
    this.#session = engine.openSession(reader, this.#env, evm)
    this.#logs = new LogCollector(options.traceTransfers)
  }

  close(): void {
    this.#session.close()
  }

  async execute() {
    const session = this.#session
    applyOverrides(session, this.#block.stateOverrides ?? [])
    await beforeTransactions(session, this.#attributes, this.#rules)
    session.setTrace(this.#logs.sink)
    for (const call of this.#block.calls) await this.#call(call)
    session.setTrace(undefined)
    const withdrawals = this.#block.blockOverrides?.withdrawals ?? []
    const logs = this.#receipts.flatMap(({ logs: own }) => own)
    const about = { attributes: this.#attributes, rules: this.#rules, logs }
    const requestsHash = await finishBlock(session, { ommers: [], withdrawals }, about)
    const finish = (roots: { stateRoot: Bytes; withdrawalsRoot: Bytes } | undefined) =>
      this.#assemble({ roots, withdrawals, requestsHash })
    return { diff: session.diff(0), finish }
  }

  async #call(call: NumberedBlock['calls'][number]): Promise<void> {
    const session = this.#session
    const { chain, validation, limits } = this.#options
    const from = call.from ?? ZERO_20
    const nonce = call.nonce ?? session.account(from).nonce
    const remaining = this.#attributes.gasLimit - this.#gasUsed
    const wanted = call.gas ?? remaining
    if (wanted > remaining)
      throw new SimulationError(
        'block gas',
        `block gas limit reached: remaining: ${remaining}, required: ${wanted}`,
      )
    const gas = wanted < this.#budget.gas ? wanted : this.#budget.gas
    const message = simulationMessage({ ...call, gas }, this.#env, chain)
    session.startTransaction()
    const done = await runMessage(message, {
      session,
      // A call that pays nothing sees a base fee of 0, unless it is validated like a block's
      // transaction.
      env: !validation && message.gasPrice === 0n ? { ...this.#env, baseFee: 0n } : this.#env,
      rules: this.#rules,
      limits,
      ...(validation ? { validation: { nonce } } : {}),
    })
    if (done.status === 'missing') throw new MissingError(...done.missing)
    if (done.status === 'stopped') throw new SimulationStopped(done.why)
    if (done.status === 'refused')
      throw new SimulationError(done.why, `err: ${done.message} (supplied gas ${gas})`)
    session.endTransaction()
    const transaction = simulatedTransaction(call, { message, nonce, chainId: chain.chainId })
    const { outcome, gasUsed, peakGas } = done
    this.#budget.gas -= gasUsed
    this.#gasUsed += gasUsed
    this.#blobGasUsed += blobGasOf(transaction)
    const isSuccess = outcome.status === 'success'
    const logs = this.#logs.take()
    this.#transactions.push(transaction)
    this.#calls.push({
      isSuccess,
      output: outcome.status === 'success' ? outcome.output : NO_BYTES,
      logs: isSuccess ? logs : [],
      gasUsed,
      maxUsedGas: peakGas,
      error: errorOf(outcome, gas < wanted),
    })
    this.#receipts.push(this.#receipt(transaction, { isSuccess, gasUsed, logs: done.logs }))
  }

  #receipt(
    transaction: SignedTransaction,
    done: Pick<Receipt, 'gasUsed' | 'logs'> & { readonly isSuccess: boolean },
  ): Receipt {
    return {
      type: transaction.type,
      status: done.isSuccess ? 1 : 0,
      cumulativeGasUsed: this.#gasUsed,
      gasUsed: done.gasUsed,
      logsBloom: bloomOf(done.logs),
      logs: done.logs,
      contractAddress: undefined,
      effectiveGasPrice: 0n,
    }
  }

  #assemble(made: {
    readonly roots: { readonly stateRoot: Bytes; readonly withdrawalsRoot: Bytes } | undefined
    readonly withdrawals: readonly Withdrawal[]
    readonly requestsHash: Bytes | undefined
  }): SimulatedBlock {
    const { roots, withdrawals, requestsHash } = made
    const isEthereum = !this.#rules.isOptimism
    const hasWithdrawals = this.#rules.header.withdrawals !== 'none'
    const header = buildHeader({
      rules: this.#rules,
      attributes: this.#attributes,
      sums: {
        gasUsed: this.#gasUsed,
        blobGasUsed: this.#blobGasUsed,
        logsBloom: this.#receipts.reduce<Bytes>(
          (bloom, { logsBloom }) => orBloom(bloom, logsBloom),
          new Uint8Array(256),
        ),
        receiptsRoot: orderedRoot(this.#receipts.map(encodeReceipt)),
        transactionsRoot: orderedRoot(this.#transactions.map(({ raw }) => raw)),
      },
      stateRoot: roots?.stateRoot ?? ZERO_32,
      withdrawalsRoot: roots?.withdrawalsRoot ?? ZERO_32,
      tail: {
        ...(isEthereum && hasWithdrawals
          ? { withdrawalsRoot: orderedRoot(withdrawals.map(encodeWithdrawal)) }
          : {}),
        ...(requestsHash === undefined ? {} : { requestsHash }),
      },
    })
    return {
      header,
      hash: hashHeader(header),
      transactions: this.#transactions,
      withdrawals: hasWithdrawals ? withdrawals : undefined,
      calls: this.#calls,
    }
  }
}

type Ran = Extract<Awaited<ReturnType<typeof runMessage>>, { status: 'ran' }>

function errorOf(outcome: Ran['outcome'], isCapped: boolean): SimulatedCallResult['error'] {
  if (outcome.status === 'success') return undefined
  if (outcome.status === 'revert') {
    const reason = revertReason(outcome.output)
    const message = reason === undefined ? 'execution reverted' : `execution reverted: ${reason}`
    return { why: 'reverted', message, data: outcome.output }
  }
  const capped = isCapped ? " (gas limit was capped by the RPC server's global gas cap)" : ''
  return { why: 'halted', message: `${outcome.reason}${capped}` }
}

function attributesOf(of: {
  readonly block: NumberedBlock
  readonly parent: Parent
  readonly rules: Rules
  readonly chain: ChainSpec
  readonly validation: boolean
}): BlockAttributes {
  const { block, parent, rules, chain, validation } = of
  const { number, timestamp, blockOverrides: overrides = {} } = block
  const { header } = parent
  const { isOptimism } = rules
  return {
    parentHash: parent.hash,
    parentBeaconBlockRoot: rules.header.beaconRoot ? (overrides.beaconRoot ?? ZERO_32) : undefined,
    coinbase: overrides.feeRecipient ?? header.coinbase,
    prevRandao: overrides.prevRandao ?? ZERO_32,
    number,
    gasLimit: overrides.gasLimit ?? header.gasLimit,
    timestamp,
    // On an OP chain `extraData` has the parameters of the next base fee.
    extraData: isOptimism ? header.extraData : NO_BYTES,
    baseFee: overrides.baseFeePerGas ?? (validation ? nextBaseFee(chain, header, timestamp) : 0n),
    difficulty: overrides.difficulty ?? (rules.isMerged ? 0n : header.difficulty),
    ...(rules.blobs === undefined || header.excessBlobGas === undefined
      ? { excessBlobGas: 0n }
      : { excessBlobGas: nextExcessBlobGas(rules, header) }),
  }
}

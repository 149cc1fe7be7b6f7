/**
 * A payload under construction: a block execution that is cut into flashblocks, without a clock.
 */
import type { UpstreamBlock } from '../../chain/types.ts'
import { MESSAGE_PASSER } from '../../chainspec/genesis.ts'
import { buildHeader } from '../../execution/block/block.ts'
import type {
  BlockAttributes,
  BlockCheckpoint,
  BlockExecution,
  ExecutedTransaction,
} from '../../execution/transaction/types.ts'
import { type Outcomes, subblockOf } from '../../flashblocks/subblock.ts'
import type { Flashblock, FlashblockBase } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { type Header, hashHeader } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { decodeTransaction } from '../../primitives/transaction-codec.ts'
import { bigintToBytes, concatBytes, equalBytes, ZERO_32 } from '../../primitives/words.ts'
import type { StateDiff } from '../../state/diff.ts'
import type { Roots } from './types.ts'

export interface Payload {
  readonly id: string
  readonly execution: BlockExecution
  /** Index of the newest flashblock; -1: there is none. */
  readonly index: number
  /** Transactions executed since the newest flashblock, which are in no packet yet. */
  readonly uncut: readonly ExecutedTransaction[]
  /** Gas used in flashblocks. */
  readonly cutGasUsed: bigint
  cut(targetIndex: number): Promise<Flashblock>
  /**
   * Returns the results of the newest flashblock's transactions. The call must directly follow
   * `cut`.
   */
  outcomes(): Promise<Outcomes>
  /** Index of the newest flashblock above 0 that has transactions; undefined: there is none. */
  newestFilled(): number | undefined
  /**
   * Takes back flashblock `index` (above 0), later ones and uncut transactions. Returns the
   * transactions.
   */
  uncutFrom(index: number): readonly ExecutedTransaction[]
  /** Executes an earlier flashblock again, and returns how the result differs from its packet. */
  replay(flashblock: Flashblock): Promise<string | undefined>
  upstreamBlock(): UpstreamBlock
  /** Ends the execution; call it once. The executed transactions remain readable. */
  close(): void
}

export type PayloadOptions = {
  readonly id: string
  /** An open execution before its `start`. The payload closes it, also when it cannot be opened. */
  readonly execution: BlockExecution
  /** Storage root of the message passer at the parent. */
  readonly withdrawalsRoot: Bytes | undefined
  /** True: flashblocks in the feed have no roots and no hash. */
  readonly areSubblocks?: boolean
  /** Computes the roots of a diff over the parent; undefined: they are not ready. */
  roots(diff: StateDiff): Promise<Roots | undefined>
}

export async function openPayload(options: PayloadOptions): Promise<Payload> {
  const { id, execution, areSubblocks = false } = options
  let index = -1
  let count = 0
  let since: BlockCheckpoint | undefined
  /** undefined: the newest flashblock does not state this root. */
  let withdrawalsRoot: Bytes | undefined = options.withdrawalsRoot ?? ZERO_32
  const ends: End[] = []
  await start(execution)

  const advance = () => {
    index++
    count = execution.executed.length
    since = execution.checkpoint()
    ends.push({ count, since, withdrawalsRoot })
  }
  const headerWith = (stateRoot: Bytes = ZERO_32) =>
    headerOf(execution, { stateRoot, withdrawalsRoot: withdrawalsRoot ?? ZERO_32 })
  const isRootDue = async () =>
    index < 0 || withdrawalsRoot === undefined || touchesMessagePasser(await execution.diff(since))

  return {
    id,
    execution,
    get index() {
      return index
    },
    get uncut() {
      return execution.executed.slice(count)
    },
    get cutGasUsed() {
      return since?.gasUsed ?? 0n
    },
    async cut(targetIndex) {
      const areDue = !areSubblocks && (await isRootDue())
      const roots = areDue ? await options.roots(await execution.diff()) : undefined
      withdrawalsRoot = areSubblocks ? undefined : (roots?.withdrawalsRoot ?? withdrawalsRoot)
      // Above index 0 the state root is left to the end of the block, as X Layer's builder does.
      const header = headerWith(index < 0 ? roots?.stateRoot : undefined)
      const delta = deltaOf(execution, header, count)
      advance()
      const cut = flashblockOf(execution, { payloadId: id, index, targetIndex, delta })
      return areSubblocks ? subblockOf(cut) : cut
    },
    outcomes: () => outcomesAfter(execution, ends[index - 1]),
    newestFilled: () => newestFilled(ends),
    uncutFrom(from) {
      const end = ends[from - 1]
      if (end === undefined) throw new RangeError(`no flashblock ${from - 1} to go back to`)
      const taken = execution.executed.slice(end.count)
      execution.revert(end.since)
      ends.length = from
      index = from - 1
      ;({ count, since, withdrawalsRoot } = end)
      return taken
    },
    async replay(flashblock) {
      const problem = await executeAll(execution, flashblock)
      if (problem !== undefined) return problem
      withdrawalsRoot = flashblock.delta.withdrawalsRoot
      const header = headerWith(flashblock.delta.stateRoot)
      advance()
      return headerProblem(header, flashblock)
    },
    upstreamBlock: () => upstreamBlockOf(id, execution),
    close: () => execution.close(),
  }
}

/**
 * Returns the results of everything after this end of a flashblock; undefined: of the whole block.
 */
async function outcomesAfter(execution: BlockExecution, end: End | undefined): Promise<Outcomes> {
  const executed = execution.executed.slice(end?.count ?? 0)
  const diff = await execution.diff(end?.since)
  return {
    receipts: executed.map(({ transaction: { hash }, receipt }) => ({ hash, receipt })),
    balances: diff.map(({ address, after }) => ({ address, balance: after?.balance ?? 0n })),
  }
}

/** State after the flashblock of an index. */
type End = {
  readonly count: number
  readonly since: BlockCheckpoint
  readonly withdrawalsRoot: Bytes | undefined
}

function newestFilled(ends: readonly End[]): number | undefined {
  const at = ends.findLastIndex(({ count }, index) => index > 0 && count > ends[index - 1]!.count)
  return at < 0 ? undefined : at
}

const flashblockOf = (
  { attributes }: BlockExecution,
  cut: Pick<Flashblock, 'payloadId' | 'index' | 'targetIndex' | 'delta'>,
): Flashblock => ({
  ...cut,
  type: 'flashblock',
  base: cut.index === 0 ? baseOf(attributes) : undefined,
  blockNumber: attributes.number,
})

function deltaOf(execution: BlockExecution, header: Header, from: number): Flashblock['delta'] {
  const { stateRoot, receiptsRoot, logsBloom, gasUsed, withdrawalsRoot } = header
  return {
    receiptsRoot,
    logsBloom,
    gasUsed,
    withdrawalsRoot,
    stateRoot: equalBytes(stateRoot, ZERO_32) ? undefined : stateRoot,
    blockHash: hashHeader(header),
    transactions: execution.executed.slice(from).map(({ transaction }) => transaction.raw),
    blobGasUsed: execution.rules.hasDaFootprint ? execution.sums().blobGasUsed : undefined,
  }
}

const headerOf = (
  execution: BlockExecution,
  roots: { readonly stateRoot: Bytes; readonly withdrawalsRoot: Bytes },
) => {
  const { rules, attributes } = execution
  return buildHeader({ rules, attributes, sums: execution.sums(), ...roots })
}

/** Starts an execution, and closes it on an error. */
async function start(execution: BlockExecution): Promise<void> {
  try {
    await execution.start()
  } catch (error) {
    execution.close()
    throw error
  }
}

/** Names the first header field that differs from the packet. */
function headerProblem(header: Header, { index, delta }: Flashblock): string | undefined {
  const blobGasUsed = delta.blobGasUsed === undefined ? undefined : (header.blobGasUsed ?? 0n)
  const compared: readonly (readonly [
    string,
    Bytes | bigint | undefined,
    typeof blobGasUsed | Bytes,
  ])[] = [
    ['gas', header.gasUsed, delta.gasUsed],
    ['receipts root', header.receiptsRoot, delta.receiptsRoot],
    ['logs bloom', header.logsBloom, delta.logsBloom],
    ['blob gas', blobGasUsed, delta.blobGasUsed],
    ['block hash', delta.blockHash && hashHeader(header), delta.blockHash],
  ]
  const text = (value: Bytes | bigint | undefined) =>
    typeof value === 'object' ? bytesToHex(value) : `${value}`
  const wrong = compared.find(([, ours, theirs]) => text(ours) !== text(theirs))
  if (wrong === undefined) return undefined
  const [what, ours, theirs] = wrong
  return `index ${index} gives ${what} ${text(ours)}, its packet says ${text(theirs)}`
}

/** Executes all transactions, and describes the first failure. */
async function executeAll(
  execution: BlockExecution,
  { index, delta }: Flashblock,
): Promise<string | undefined> {
  for (const raw of delta.transactions) {
    const done = await execution.execute(decodeTransaction(raw))
    if (done.status === 'executed') continue
    const why = done.status === 'invalid' ? `: ${done.reason.message}` : ''
    return `transaction ${bytesToHex(keccak256(raw))} of index ${index} does not execute${why}`
  }
  return undefined
}

/**
 * Returns version byte 3 and seven bytes derived from parent, timestamp and randomness. The same
 * block always gets the same id.
 */
export function payloadIdOf({ parentHash, timestamp, prevRandao }: BlockAttributes): string {
  const digest = keccak256(concatBytes(parentHash, bigintToBytes(timestamp, 8), prevRandao))
  return bytesToHex(concatBytes(Uint8Array.of(3), digest.subarray(0, 7)))
}

const touchesMessagePasser = (diff: StateDiff) =>
  diff.some(({ address, slots }) => slots.length > 0 && bytesToHex(address) === MESSAGE_PASSER)

const baseOf = (attributes: BlockAttributes): FlashblockBase => ({
  parentBeaconBlockRoot: attributes.parentBeaconBlockRoot ?? ZERO_32,
  parentHash: attributes.parentHash,
  feeRecipient: attributes.coinbase,
  prevRandao: attributes.prevRandao,
  blockNumber: attributes.number,
  gasLimit: attributes.gasLimit,
  timestamp: attributes.timestamp,
  extraData: attributes.extraData,
  baseFeePerGas: attributes.baseFee,
})

function upstreamBlockOf(payloadId: string, execution: BlockExecution): UpstreamBlock {
  const { attributes } = execution
  const { gasUsed, receiptsRoot, logsBloom, blobGasUsed } = execution.sums()
  return {
    payloadId,
    parentHash: attributes.parentHash,
    parentBeaconBlockRoot: attributes.parentBeaconBlockRoot ?? ZERO_32,
    coinbase: attributes.coinbase,
    prevRandao: attributes.prevRandao,
    number: Number(attributes.number),
    gasLimit: attributes.gasLimit,
    timestamp: attributes.timestamp,
    extraData: attributes.extraData,
    baseFee: attributes.baseFee,
    transactions: execution.executed.map(({ transaction }) => transaction.raw),
    gasUsed,
    receiptsRoot,
    logsBloom,
    blobGasUsed: execution.rules.header.blobs ? blobGasUsed : undefined,
    stateRoot: undefined,
  }
}

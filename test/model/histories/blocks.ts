/**
 * Invented blocks: each flashblock changes a small world and brings some transactions. They have
 * the form that the parts of the writer take.
 */
import { envOf } from '../../../engine/chain/block.ts'
import type { UpstreamBlock } from '../../../engine/chain/types.ts'
import type { ChainSpec, Rules } from '../../../engine/chainspec/types.ts'
import type { BlockEnv } from '../../../engine/evm/engine.ts'
import type { SpeculativeExecution } from '../../../engine/execution/block/speculative.ts'
import type {
  BlockAttributes,
  BlockSums,
  ExecutedTransaction,
} from '../../../engine/execution/transaction/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Header } from '../../../engine/primitives/header.ts'
import { bloomOf } from '../../../engine/primitives/receipt-codec.ts'
import { bigintToBytes, ZERO_20, ZERO_32 } from '../../../engine/primitives/words.ts'
import {
  diffOf,
  EMPTY_WORLD,
  executed,
  receiptsDigest,
  transactionsDigest,
  type World,
} from '../../fixtures/view-blocks.ts'
import { type Chain, lastOf, locationOf, type Node, worldOf } from './truth.ts'

export type Random = (below: number) => number

/** A block during its execution, as far as the writer reads it. */
export class MadeUpExecution implements SpeculativeExecution {
  readonly attributes: BlockAttributes
  readonly rules: Rules
  readonly env: BlockEnv
  readonly executed: ExecutedTransaction[] = []
  readonly #node: Node
  #changes = 0

  constructor(chain: ChainSpec, node: Node, salt: number) {
    const parent = node.parent!.final!
    this.#node = node
    this.attributes = {
      parentHash: parent.hash,
      parentBeaconBlockRoot: ZERO_32,
      coinbase: ZERO_20,
      prevRandao: bigintToBytes(BigInt(salt), 32),
      number: BigInt(node.number),
      gasLimit: 50_000_000n,
      timestamp: BigInt(node.number),
      extraData: new Uint8Array(0),
      baseFee: 7n,
    }
    this.rules = chain.rulesAt(this.attributes.number, this.attributes.timestamp)
    this.env = envOf(parent.header, chain)
  }

  /**
   * Adds one flashblock. A change of state also changes the sums, so equal headers have equal
   * states.
   */
  add(transactions: readonly ExecutedTransaction[], isChanged: boolean): void {
    this.executed.push(...transactions)
    if (isChanged) this.#changes++
  }
  /** Goes back to the newest flashblock of the node, because the memory was full. */
  takeBack(isChanged: boolean): void {
    this.executed.length = this.#node.prefixes.at(-1)?.executed.length ?? 0
    if (isChanged) this.#changes--
  }
  get gasUsed(): bigint {
    return BigInt(this.executed.length * 1000 + this.#changes)
  }
  get logCount(): number {
    return this.executed.reduce((sum, { receipt }) => sum + receipt.logs.length, 0)
  }
  close(): void {}
  sums(): BlockSums {
    const receipts = this.executed.map(({ receipt }) => receipt)
    return {
      gasUsed: this.gasUsed,
      blobGasUsed: 0n,
      logsBloom: bloomOf(receipts.flatMap(({ logs }) => logs)),
      receiptsRoot: receiptsDigest(receipts),
      transactionsRoot: transactionsDigest(this.executed.map((each) => each.transaction.hash)),
    }
  }
  async diff() {
    const before = worldOf(this.#node.parent!)
    return diffOf(before, worldOf(this.#node), before)
  }
  readonly speculated = 0
  async start(): Promise<void> {}
  execute = never
  refund = never
  finish = never
  trySpeculatively = never
  take = never
  join = never
  state = never
  undoSpeculation(): void {}
  checkpoint = never
  revert = never
}
const never = (): never => {
  throw new Error('made-up blocks execute nothing')
}

/**
 * Picks transactions. Those of a dropped block come again, in another order and with other
 * receipts; the others are new.
 */
export function pickTransactions(
  chain: Chain,
  { top, count, random }: { readonly top: Node; readonly count: number; readonly random: Random },
): ExecutedTransaction[] {
  const picked: ExecutedTransaction[] = []
  while (picked.length < count) {
    const old = chain.transactions.at(-1 - random(Math.min(40, chain.transactions.length + 1)))
    const isFree =
      old !== undefined &&
      random(2) === 0 &&
      locationOf(top, undefined, old.transaction.hash) === undefined &&
      !picked.some(({ transaction }) => transaction === old.transaction)
    if (isFree) picked.push({ ...old, receipt: receiptWith(random(4)) })
    else picked.push(freshTransaction(chain, random))
  }
  return picked
}
function freshTransaction(chain: Chain, random: Random): ExecutedTransaction {
  const size = random(12) === 0 ? random(3000) : random(200)
  const fresh = executed(chain.transactions.length + 1, size, random(4))
  chain.transactions.push(fresh)
  return fresh
}
const receiptWith = (logs: number) => executed(1_000_000 + logs, 0, logs).receipt

/** One flashblock's change of the world, under the name that is counted. */
export type Change = {
  readonly world: World
  readonly what: 'wiped' | 'created' | 'code' | 'slots' | 'nothing'
  readonly account: number
}

/**
 * Removes an account with its slots, creates it again, or gives it code or other values. It is
 * mostly the same account, and its values often occurred before.
 */
export function changeWorld(from: World, random: Random): Change {
  const account = random(5) < 3 ? 0 : 1 + random(from.length - 1)
  const was = from[account]!
  const set = (is: World[number], what: Change['what']): Change => ({
    world: from.map((each, at) => (at === account ? is : each)),
    what,
    account,
  })
  const value = random(3) === 0 ? 1 + random(3) : 1 + random(0xffff)
  const slots = was.slots.map((old) => {
    if (random(2) === 0) return old
    return random(3) === 0 ? random(3) : random(0xffff)
  })
  const roll = random(20)
  if (roll < 2) return { world: from, what: 'nothing', account }
  if (was.value === 0) return set({ value, code: random(3), slots }, 'created')
  if (roll < 6) return set(EMPTY_WORLD[account]!, 'wiped')
  if (roll < 9) return set({ value, code: random(4), slots }, 'code')
  return set({ ...was, value, slots }, 'slots')
}

/** Builds the upstream block that decides this node. */
export function upstreamBlockOf(
  node: Node,
  header: Header,
  stateRoot: Bytes,
  withdrawalsRoot: Bytes,
): UpstreamBlock {
  return {
    payloadId: PAYLOAD_ID,
    parentHash: header.parentHash,
    parentBeaconBlockRoot: header.parentBeaconBlockRoot ?? ZERO_32,
    coinbase: header.coinbase,
    prevRandao: header.mixHash,
    number: node.number,
    gasLimit: header.gasLimit,
    timestamp: header.timestamp,
    extraData: header.extraData,
    baseFee: header.baseFeePerGas ?? 0n,
    transactions: lastOf(node).executed.map(({ transaction }) => transaction.raw),
    gasUsed: header.gasUsed,
    receiptsRoot: header.receiptsRoot,
    logsBloom: header.logsBloom,
    stateRoot,
    withdrawalsRoot,
  }
}
export const PAYLOAD_ID = '0x0102030405060708'

/** What a node can be asked whatever its state is: made of its newest blocks. */
import { quantity } from '../../../engine/primitives/hex.ts'
import type { Asked } from '../shared/asking.ts'

export type Workload = {
  readonly name: string
  /** One message each; several questions are a batch. */
  readonly questions: readonly (readonly Asked[])[]
  /** It takes long: fewer at a time. */
  readonly isDear?: true
  /** They are put together to batches, once it is known which of them are answered. */
  readonly isBatched?: true
}

/** As `eth_getBlockByNumber` gives it, with transactions. */
export type FoundBlock = {
  readonly number: string
  readonly hash: string
  readonly transactions: readonly {
    readonly hash: string
    readonly type: string
    readonly from: string
    readonly to: string | null
    readonly input: string
    readonly value: string
  }[]
}

/** Of a workload: more are no other work, and each answer is kept to be compared with. */
export const MOST_QUESTIONS = 200
const IN_BATCH = 50
const FIRST_SLOT = '0x0'

/** Those that the blocks have something for. @param blocks oldest first */
export function workloadsOf(blocks: readonly FoundBlock[]): readonly Workload[] {
  const head = blocks.at(-1)!.number
  const transactions = blocks.flatMap((block) => block.transactions)
  const addresses = [
    ...new Set(transactions.flatMap(({ from, to }) => (to === null ? [from] : [from, to]))),
  ]
  const calls = callsOf(blocks)
  const balances = of(addresses, (address) => ask('eth_getBalance', address, head))
  const called = of(calls, ({ call, number }) => ask('eth_call', call, number))
  const all: readonly Workload[] = [
    { name: 'eth_chainId', questions: [ask('eth_chainId')] },
    { name: 'eth_getBalance', questions: balances },
    {
      name: 'eth_getTransactionCount',
      questions: of(addresses, (address) => ask('eth_getTransactionCount', address, head)),
    },
    {
      name: 'eth_getStorageAt',
      questions: of(addresses, (address) => ask('eth_getStorageAt', address, FIRST_SLOT, head)),
    },
    ...ofBlocks(blocks),
    { name: 'eth_call of what was sent', questions: called },
    {
      name: 'eth_estimateGas of what was sent',
      questions: of(calls, ({ call, number }) => ask('eth_estimateGas', call, number)),
      isDear: true,
    },
    { name: `batch of ${IN_BATCH}`, questions: [...balances, ...called], isBatched: true },
    {
      name: 'debug_traceTransaction, callTracer',
      questions: of(transactions, ({ hash }) =>
        ask('debug_traceTransaction', hash, { tracer: 'callTracer' }),
      ),
      isDear: true,
    },
  ]
  return all.filter(({ questions }) => questions.length > 0)
}

const ask = (method: string, ...params: readonly unknown[]) => [{ method, params }]
const of = <T>(items: readonly T[], question: (item: T) => readonly Asked[]) =>
  items.slice(-MOST_QUESTIONS).map(question)

/** Of blocks, and what is in them. */
function ofBlocks(blocks: readonly FoundBlock[]): readonly Workload[] {
  const head = blocks.at(-1)!.number
  const transactions = blocks.flatMap((block) => block.transactions)
  return [
    {
      name: 'eth_getBlockByNumber',
      questions: of(blocks, ({ number }) => ask('eth_getBlockByNumber', number, false)),
    },
    {
      name: 'eth_getBlockByHash, with transactions',
      questions: of(blocks, ({ hash }) => ask('eth_getBlockByHash', hash, true)),
    },
    {
      name: 'eth_getTransactionByHash',
      questions: of(transactions, ({ hash }) => ask('eth_getTransactionByHash', hash)),
    },
    {
      name: 'eth_getTransactionReceipt',
      questions: of(transactions, ({ hash }) => ask('eth_getTransactionReceipt', hash)),
    },
    {
      name: 'eth_getBlockReceipts',
      questions: of(blocks, ({ number }) => ask('eth_getBlockReceipts', number)),
    },
    {
      name: 'eth_getLogs of a block',
      questions: of(blocks, ({ hash: blockHash }) => ask('eth_getLogs', { blockHash })),
    },
    {
      name: `eth_getLogs of ${blocks.length} blocks`,
      questions: [ask('eth_getLogs', { fromBlock: blocks[0]!.number, toBlock: head })],
      isDear: true,
    },
    {
      name: 'eth_feeHistory',
      questions: of(blocks, ({ number }) => ask('eth_feeHistory', '0x4', number, [10, 90])),
    },
  ]
}

/** On the state before their block, as far as that is what they ran on: those that revert there are answered with an error, and left out. */
function callsOf(blocks: readonly FoundBlock[]) {
  return blocks.flatMap(({ number, transactions }) =>
    transactions
      // What nobody signed is no call that anybody could make.
      .filter(({ type }) => type !== '0x7e' && type !== '0x7d')
      .map(({ from, to, input, value }) => ({
        call: { from, ...(to === null ? {} : { to }), input, value },
        number: quantity(Math.max(0, Number(number) - 1)),
      })),
  )
}

/** Every question has its turn, and reads stand between calls. */
export function batchesOf(questions: readonly (readonly Asked[])[]): readonly (readonly Asked[])[] {
  if (questions.length === 0) return []
  const count = Math.ceil(questions.length / IN_BATCH)
  return Array.from({ length: count }, (_, batch) =>
    Array.from(
      { length: IN_BATCH },
      (_, at) => questions[(batch + at * count) % questions.length]!,
    ).flat(),
  )
}

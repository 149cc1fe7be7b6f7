/** Workloads that suit any node, made from its newest blocks. */
import { quantity } from '../../../engine/primitives/hex.ts'
import type { RpcCall } from '../shared/rpc-client.ts'

export type Workload = {
  readonly name: string
  /** Each entry is one message; an entry with several calls is a batch. */
  readonly questions: readonly (readonly RpcCall[])[]
  /** Slow requests run on fewer connections. */
  readonly isDear?: true
  /** Requests are grouped into batches when it is known which of them are answered. */
  readonly isBatched?: true
}

/** A block as `eth_getBlockByNumber` returns it, with transactions. */
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

/**
 * Maximum for one workload. More requests would be the same work, and each response is retained for
 * comparison.
 */
export const MAX_QUESTIONS = 200
const IN_BATCH = 50
const FIRST_SLOT = '0x0'

/** Makes the workloads for which the blocks have data. @param blocks oldest first */
export function workloadsOf(blocks: readonly FoundBlock[]): readonly Workload[] {
  const head = blocks.at(-1)!.number
  const transactions = blocks.flatMap((block) => block.transactions)
  const addresses = [
    ...new Set(transactions.flatMap(({ from, to }) => (to === null ? [from] : [from, to]))),
  ]
  const calls = callsOf(blocks)
  const balances = of(addresses, (address) => request('eth_getBalance', address, head))
  const called = of(calls, ({ call, number }) => request('eth_call', call, number))
  const all: readonly Workload[] = [
    { name: 'eth_chainId', questions: [request('eth_chainId')] },
    { name: 'eth_getBalance', questions: balances },
    {
      name: 'eth_getTransactionCount',
      questions: of(addresses, (address) => request('eth_getTransactionCount', address, head)),
    },
    {
      name: 'eth_getStorageAt',
      questions: of(addresses, (address) => request('eth_getStorageAt', address, FIRST_SLOT, head)),
    },
    ...ofBlocks(blocks),
    { name: 'eth_call of sent transactions', questions: called },
    {
      name: 'eth_estimateGas of sent transactions',
      questions: of(calls, ({ call, number }) => request('eth_estimateGas', call, number)),
      isDear: true,
    },
    { name: `batch of ${IN_BATCH}`, questions: [...balances, ...called], isBatched: true },
    {
      name: 'debug_traceTransaction, callTracer',
      questions: of(transactions, ({ hash }) =>
        request('debug_traceTransaction', hash, { tracer: 'callTracer' }),
      ),
      isDear: true,
    },
  ]
  return all.filter(({ questions }) => questions.length > 0)
}

const request = (method: string, ...params: readonly unknown[]) => [{ method, params }]
const of = <T>(items: readonly T[], question: (item: T) => readonly RpcCall[]) =>
  items.slice(-MAX_QUESTIONS).map(question)

function ofBlocks(blocks: readonly FoundBlock[]): readonly Workload[] {
  const head = blocks.at(-1)!.number
  const transactions = blocks.flatMap((block) => block.transactions)
  return [
    {
      name: 'eth_getBlockByNumber',
      questions: of(blocks, ({ number }) => request('eth_getBlockByNumber', number, false)),
    },
    {
      name: 'eth_getBlockByHash, with transactions',
      questions: of(blocks, ({ hash }) => request('eth_getBlockByHash', hash, true)),
    },
    {
      name: 'eth_getTransactionByHash',
      questions: of(transactions, ({ hash }) => request('eth_getTransactionByHash', hash)),
    },
    {
      name: 'eth_getTransactionReceipt',
      questions: of(transactions, ({ hash }) => request('eth_getTransactionReceipt', hash)),
    },
    {
      name: 'eth_getBlockReceipts',
      questions: of(blocks, ({ number }) => request('eth_getBlockReceipts', number)),
    },
    {
      name: 'eth_getLogs of a block',
      questions: of(blocks, ({ hash: blockHash }) => request('eth_getLogs', { blockHash })),
    },
    {
      name: `eth_getLogs of ${blocks.length} blocks`,
      questions: [request('eth_getLogs', { fromBlock: blocks[0]!.number, toBlock: head })],
      isDear: true,
    },
    {
      name: 'eth_feeHistory',
      questions: of(blocks, ({ number }) => request('eth_feeHistory', '0x4', number, [10, 90])),
    },
  ]
}

/**
 * Makes each transaction a call on the state before its block.
 * A call that reverts there gets an error and is left out of the measurement.
 */
function callsOf(blocks: readonly FoundBlock[]) {
  return blocks.flatMap(({ number, transactions }) =>
    transactions
      // A deposit has no signature, so no client could send it as a call.
      .filter(({ type }) => type !== '0x7e' && type !== '0x7d')
      .map(({ from, to, input, value }) => ({
        call: { from, ...(to === null ? {} : { to }), input, value },
        number: quantity(Math.max(0, Number(number) - 1)),
      })),
  )
}

/** Spreads the requests over batches so that reads alternate with calls. */
export function batchesOf(
  questions: readonly (readonly RpcCall[])[],
): readonly (readonly RpcCall[])[] {
  if (questions.length === 0) return []
  const count = Math.ceil(questions.length / IN_BATCH)
  return Array.from({ length: count }, (_, batch) =>
    Array.from(
      { length: IN_BATCH },
      (_, at) => questions[(batch + at * count) % questions.length]!,
    ).flat(),
  )
}

/** What two nodes are asked of one block: what has one answer, whenever it is asked. */
import { quantity } from '../../../engine/primitives/hex.ts'

export type Question = { readonly method: string; readonly params: readonly unknown[] }

/** As `eth_getBlockByNumber` gives it, with transactions. */
export type AskedBlock = {
  readonly number: string
  readonly hash: string
  readonly transactions: readonly AskedTransaction[]
}
type AskedTransaction = {
  readonly hash: string
  readonly type: string
  readonly from: string
  readonly to: string | null
  readonly input: string
  readonly value: string
}

/** Of the chain. */
export const CHAIN_QUESTIONS: readonly Question[] = [
  { method: 'eth_chainId', params: [] },
  { method: 'net_version', params: [] },
  { method: 'eth_getBlockByNumber', params: ['0x0', true] },
]

/** @param most transactions, and addresses, that are asked for */
export function* questionsOf(block: AskedBlock, most: number): Generator<Question, void> {
  const { number, hash } = block
  for (const isFull of [true, false]) {
    yield { method: 'eth_getBlockByNumber', params: [number, isFull] }
    yield { method: 'eth_getBlockByHash', params: [hash, isFull] }
  }
  yield { method: 'eth_getBlockTransactionCountByNumber', params: [number] }
  yield { method: 'eth_getBlockTransactionCountByHash', params: [hash] }
  yield { method: 'eth_getUncleCountByBlockNumber', params: [number] }
  yield { method: 'eth_getBlockReceipts', params: [number] }
  yield { method: 'eth_getLogs', params: [{ fromBlock: number, toBlock: number }] }
  yield { method: 'eth_getLogs', params: [{ blockHash: hash }] }
  yield { method: 'eth_feeHistory', params: ['0x2', number, [10, 90]] }
  yield { method: 'debug_traceBlockByNumber', params: [number, { tracer: 'callTracer' }] }
  const asked = block.transactions.slice(0, most)
  for (const [index, one] of asked.entries()) yield* ofTransaction(block, one, index)
  const addresses = new Set(block.transactions.flatMap(({ from, to }) => [from, to ?? from]))
  for (const address of [...addresses].slice(0, most)) yield* ofAddress(address, number)
}

function* ofTransaction(
  { number, hash: blockHash }: AskedBlock,
  { hash, type, from, to, input, value }: AskedTransaction,
  index: number,
): Generator<Question, void> {
  yield { method: 'eth_getTransactionByHash', params: [hash] }
  yield { method: 'eth_getTransactionReceipt', params: [hash] }
  yield { method: 'eth_getTransactionByBlockNumberAndIndex', params: [number, quantity(index)] }
  yield { method: 'eth_getTransactionByBlockHashAndIndex', params: [blockHash, quantity(index)] }
  yield { method: 'debug_traceTransaction', params: [hash, { tracer: 'callTracer' }] }
  yield { method: 'debug_traceTransaction', params: [hash, { tracer: 'prestateTracer' }] }
  // What nobody signed is no call that anybody could make.
  if (type === '0x7e' || type === '0x7d') return
  const call = { from, ...(to === null ? {} : { to }), input, value }
  yield { method: 'eth_call', params: [call, number] }
  yield { method: 'eth_estimateGas', params: [call, number] }
  yield { method: 'eth_createAccessList', params: [call, number] }
}

function* ofAddress(address: string, number: string): Generator<Question, void> {
  yield { method: 'eth_getBalance', params: [address, number] }
  yield { method: 'eth_getTransactionCount', params: [address, number] }
  yield { method: 'eth_getCode', params: [address, number] }
  yield { method: 'eth_getStorageAt', params: [address, '0x0', number] }
  yield { method: 'eth_getProof', params: [address, [FIRST_SLOT], number] }
}
const FIRST_SLOT = `0x${'00'.repeat(32)}`

/** Requests about one block whose response is the same at any time. */
import { quantity } from '../../../engine/primitives/hex.ts'

export type Question = { readonly method: string; readonly params: readonly unknown[] }

/** A block as `eth_getBlockByNumber` returns it, with transactions. */
export type RequestedBlock = {
  readonly number: string
  readonly hash: string
  readonly transactions: readonly RequestedTransaction[]
}
type RequestedTransaction = {
  readonly hash: string
  readonly type: string
  readonly from: string
  readonly to: string | null
  readonly input: string
  readonly value: string
}

export const CHAIN_QUESTIONS: readonly Question[] = [
  { method: 'eth_chainId', params: [] },
  { method: 'net_version', params: [] },
  { method: 'eth_getBlockByNumber', params: ['0x0', true] },
]

/** @param max maximum number of transactions, and of addresses, for which requests are made */
export function* questionsOf(block: RequestedBlock, max: number): Generator<Question, void> {
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
  const requested = block.transactions.slice(0, max)
  for (const [index, one] of requested.entries()) yield* ofTransaction(block, one, index)
  const addresses = new Set(block.transactions.flatMap(({ from, to }) => [from, to ?? from]))
  for (const address of [...addresses].slice(0, max)) yield* ofAddress(address, number)
}

function* ofTransaction(
  { number, hash: blockHash }: RequestedBlock,
  { hash, type, from, to, input, value }: RequestedTransaction,
  index: number,
): Generator<Question, void> {
  yield { method: 'eth_getTransactionByHash', params: [hash] }
  yield { method: 'eth_getTransactionReceipt', params: [hash] }
  yield { method: 'eth_getTransactionByBlockNumberAndIndex', params: [number, quantity(index)] }
  yield { method: 'eth_getTransactionByBlockHashAndIndex', params: [blockHash, quantity(index)] }
  yield { method: 'debug_traceTransaction', params: [hash, { tracer: 'callTracer' }] }
  yield { method: 'debug_traceTransaction', params: [hash, { tracer: 'prestateTracer' }] }
  // A deposit has no signature, so no client could send it as a call.
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

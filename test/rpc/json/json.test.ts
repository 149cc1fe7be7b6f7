import { describe, expect, test } from 'vitest'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { decodeTransaction, makePostExec } from '../../../engine/primitives/transaction-codec.ts'
import { readReceipts } from '../../../engine/sources/lazy/receipt-json.ts'
import { encodeTransactionJson } from '../../../engine/sources/upstream/transaction-json.ts'
import { CONTRACT, deposit, execute, SENDER, TOPIC, transfer } from '../../fixtures/executed.ts'
import { fourBlocks } from '../../fixtures/four-blocks.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'

type Json = Readonly<Record<string, unknown>>
const STANDARD = { endpoint: 'standard' } as const
const { memory, blocks, transactions } = fourBlocks()
const rpc = testRpc({ memory })
const hashOf = (at: number) => bytesToHex(blocks[at]!.hash)
const txHash = (at: number) => bytesToHex(transactions[at]!.hash)
const keys = (value: unknown) => Object.keys(value as Json).toSorted((a, b) => (a < b ? -1 : 1))
const result = async (method: string, params: readonly unknown[], standard = false) =>
  (await rpc.request(method, params, standard ? STANDARD : {})).result
const sender = bytesToHex(SENDER)

describe('the JSON of responses', () => {
  const HEADER = [
    'baseFeePerGas',
    'blobGasUsed',
    'difficulty',
    'excessBlobGas',
    'extraData',
    'gasLimit',
    'gasUsed',
    'hash',
    'logsBloom',
    'miner',
    'mixHash',
    'nonce',
    'number',
    'parentBeaconBlockRoot',
    'parentHash',
    'receiptsRoot',
    'requestsHash',
    'sha3Uncles',
    'stateRoot',
    'timestamp',
    'transactionsRoot',
    'withdrawalsRoot',
  ]
  const sorted = (...names: string[]) => names.toSorted((a, b) => (a < b ? -1 : 1))
  const LOCATED = [
    'blockHash',
    'blockNumber',
    'blockTimestamp',
    'from',
    'gas',
    'gasPrice',
    'hash',
    'input',
    'nonce',
    'to',
    'transactionIndex',
    'value',
    'type',
    'v',
    'r',
    's',
  ]
  const FEES = ['maxFeePerGas', 'maxPriorityFeePerGas']
  const LOG = [
    'address',
    'topics',
    'data',
    'blockHash',
    'blockNumber',
    'blockTimestamp',
    'transactionHash',
    'transactionIndex',
    'logIndex',
    'removed',
  ]

  test('has all fields of a block, with equal transactions in each method', async () => {
    const block = (await result('eth_getBlockByNumber', ['pending', false])) as Json
    expect(keys(block)).toEqual(sorted(...HEADER, 'size', 'transactions', 'uncles', 'withdrawals'))
    expect(block).toMatchObject({
      number: '0x3',
      hash: hashOf(3),
      transactions: [txHash(2)],
      uncles: [],
      withdrawals: [],
    })
    const full = (await result('eth_getBlockByNumber', ['0x1', true])) as Json
    const fullTransaction = (full['transactions'] as Json[])[1]
    expect(fullTransaction).toEqual(
      await result('eth_getTransactionByBlockNumberAndIndex', ['0x1', '0x1']),
    )
    expect(fullTransaction).toEqual(
      await result('eth_getTransactionbyBlockNumberAndIndex', ['0x1', '0x1'], true),
    )
    expect(fullTransaction).toEqual(
      await result('eth_getTransactionByBlockHashAndIndex', [hashOf(1), '0x1']),
    )
    expect(fullTransaction).toEqual(await result('eth_getTransactionByHash', [txHash(0)]))
  })
  test('has all fields of a header', async () => {
    const header = await result('eth_getHeaderByNumber', ['latest'])
    expect(keys(header)).toEqual(sorted(...HEADER))
    expect(header).toEqual(await result('eth_getHeaderByHash', [hashOf(2)]))
  })
  test('has the fields of each transaction type', async () => {
    const base = { chainId: 196n, gasPrice: 1_500_000_000n }
    const authorization = { chainId: 196n, address: CONTRACT, nonce: 1n, yParity: 1n, r: 2n, s: 3n }
    const all = [
      transfer(0n, { ...base, type: 0 }),
      transfer(0n, { ...base, type: 0, chainId: undefined }),
      transfer(0n, { ...base, type: 1, accessList: [{ address: CONTRACT, storageKeys: [TOPIC] }] }),
      transfer(0n),
      transfer(0n, { type: 4, authorizationList: [authorization] }),
      deposit(),
    ]
    const memory = memoryChain()
    memory.publish({ canonical: memory.make(memory.genesis, { executed: execute(all) }) })
    const other = testRpc({ memory })
    const block = (await other.request('eth_getBlockByNumber', ['latest', true])).result as Json
    const answer = block['transactions'] as Json[]
    const typed = [...LOCATED, 'chainId', 'accessList', 'yParity']
    expect(answer.map(keys)).toEqual([
      sorted(...LOCATED, 'chainId'),
      sorted(...LOCATED),
      sorted(...typed),
      sorted(...typed, ...FEES),
      sorted(...typed, ...FEES, 'authorizationList'),
      sorted(...LOCATED, 'sourceHash', 'mint', 'depositReceiptVersion'),
    ])
    expect(answer[3]).toMatchObject({
      gasPrice: '0x3b9aca07',
      type: '0x2',
      transactionIndex: '0x3',
    })
    expect(answer[5]).toMatchObject({
      gasPrice: '0x0',
      nonce: '0x3',
      mint: '0x9',
      depositReceiptVersion: '0x1',
      v: '0x0',
      type: '0x7e',
    })
  })
  test('has the fields of an OP receipt, alone and in its block', async () => {
    const receipt = (await result('eth_getTransactionReceipt', [txHash(0)])) as Json
    const RECEIPT = [
      'type',
      'status',
      'cumulativeGasUsed',
      'logs',
      'logsBloom',
      'transactionHash',
      'transactionIndex',
      'blockHash',
      'blockNumber',
      'gasUsed',
      'effectiveGasPrice',
      'from',
      'to',
      'contractAddress',
      'l1GasPrice',
      'l1GasUsed',
      'l1Fee',
      'l1BaseFeeScalar',
      'l1BlobBaseFee',
      'l1BlobBaseFeeScalar',
      'daFootprintGasScalar',
      'blobGasUsed',
    ]
    expect(keys(receipt)).toEqual(sorted(...RECEIPT))
    expect(receipt).toMatchObject({
      contractAddress: null,
      transactionIndex: '0x1',
      blobGasUsed: '0x9c40',
    })
    const logs = receipt['logs'] as Json[]
    expect(logs.map(keys)).toEqual([sorted(...LOG), sorted(...LOG)])
    expect(logs.map((one) => one['logIndex'])).toEqual(['0x0', '0x1'])
    const all = (await result('eth_getBlockReceipts', [hashOf(1)])) as Json[]
    expect(all[1]).toEqual(receipt)
    expect(keys(all[0])).toEqual(sorted(...RECEIPT, 'depositNonce', 'depositReceiptVersion'))
  })
  test('has operator fees only on chains that charge them', async () => {
    const executed = execute([transfer(0n)])
    const [{ transaction, receipt }] = executed as [(typeof executed)[0]]
    const l1 = { ...receipt.l1!, operatorFeeScalar: 0n, operatorFeeConstant: 8n }
    const memory = memoryChain()
    memory.publish({
      canonical: memory.make(memory.genesis, {
        executed: [{ transaction, receipt: { ...receipt, l1 } }],
      }),
    })
    const [answer] = (await testRpc({ memory }).request('eth_getBlockReceipts', ['latest']))
      .result as [Json]
    expect(answer).toMatchObject({ operatorFeeScalar: '0x0', operatorFeeConstant: '0x8' })
  })
  test('has post-exec transactions and the refunds in receipts', async () => {
    const memory = memoryChain()
    const postExec = makePostExec(1n, [{ index: 0n, gasRefund: 4_000n }])
    const list = [transfer(0n), transfer(1n), deposit(), postExec]
    const nothing = { l1: undefined, gasUsed: 0n, effectiveGasPrice: 0n, blobGasUsed: 0n }
    const more: readonly object[] = [{ gasRefund: 4_000n }, { gasRefund: 0n }, {}, nothing]
    const executed = execute(list).map(({ transaction, receipt }, at) => {
      return { transaction, receipt: { ...receipt, ...more[at] } }
    })
    memory.publish({ canonical: memory.make(memory.genesis, { executed }) })
    const own = testRpc({ memory })
    const query = async (method: string, ...params: readonly unknown[]) =>
      (await own.request(method, params)).result
    const hash = bytesToHex(postExec.hash)
    const zero = `0x${'00'.repeat(20)}`
    const answer = (await query('eth_getTransactionByHash', hash)) as Json
    const location = ['blockHash', 'blockNumber', 'blockTimestamp', 'transactionIndex']
    expect(keys(answer)).toEqual(
      sorted(...location, 'type', 'hash', 'from', 'gas', 'value', 'input'),
    )
    expect(answer).toMatchObject({
      type: '0x7d',
      hash,
      from: zero,
      gas: '0x0',
      value: '0x0',
      transactionIndex: '0x3',
      input: bytesToHex(postExec.raw.subarray(1)),
    })
    const block = (await query('eth_getBlockByNumber', '0x1', true)) as Json
    expect((block['transactions'] as Json[])[3]).toEqual(answer)
    expect(await query('eth_getRawTransactionByHash', hash)).toBe(bytesToHex(postExec.raw))
    // A follower can read an upstream's response of this form.
    expect(encodeTransactionJson(answer)).toEqual(postExec.raw)
    const receipts = (await query('eth_getBlockReceipts', '0x1')) as Json[]
    expect(receipts.map((one) => one['opGasRefund'])).toEqual(['0xfa0', null, undefined, undefined])
    expect(receipts[3]).toMatchObject({ type: '0x7d', gasUsed: '0x0', blobGasUsed: '0x0' })
    expect(readReceipts(receipts).map(({ gasRefund }) => gasRefund)).toEqual([
      ...[4_000n, 0n, undefined, undefined],
    ])
    // The receipts of a block taken from an upstream equal those of an executed block.
    const l1 = { l1GasPrice: '0x1', l1GasUsed: '0x2', l1Fee: '0x3' }
    for (const more of [{}, l1]) {
      const [last] = readReceipts([{ ...receipts[3], ...more }])
      expect([last!.type, last!.blobGasUsed, last!.l1]).toEqual([0x7d, 0n, undefined])
    }
  })
  test('has no block fields for a pooled transaction', async () => {
    const own = testRpc({ memory: fourBlocks().memory })
    const waiting = transfer(3n)
    const raw = bytesToHex(waiting.raw)
    expect((await own.request('eth_sendRawTransaction', [raw])).result).toBe(
      bytesToHex(waiting.hash),
    )
    const answer = (await own.request('eth_getTransactionByHash', [bytesToHex(waiting.hash)]))
      .result as Json
    expect(keys(answer)).toEqual(sorted(...LOCATED, ...FEES, 'chainId', 'accessList', 'yParity'))
    expect(answer).toMatchObject({
      blockHash: null,
      blockNumber: null,
      blockTimestamp: null,
      transactionIndex: null,
      gasPrice: '0xb2d05e00',
    })
    expect(
      (await own.request('eth_getRawTransactionByHash', [bytesToHex(waiting.hash)])).result,
    ).toBe(raw)
    expect(
      (await own.request('eth_getTransactionReceipt', [bytesToHex(waiting.hash)])).result,
    ).toBe(null)
    expect((await own.request('eth_getTransactionCount', [sender, 'pending'])).result).toBe('0x4')
    expect((await own.request('eth_getTransactionCount', [sender, 'latest'])).result).toBe('0x2')
    const repeated = await own.request('eth_sendRawTransaction', [raw])
    expect(repeated.error).toEqual({ code: -32000, message: 'already known' })
  })
  test('has the fee history', async () => {
    const history = (await result('eth_feeHistory', [4, 'pending', [0, 50, 100]])) as Json
    expect(history).toMatchObject({
      oldestBlock: '0x0',
      reward: [
        ['0x0', '0x0', '0x0'],
        ['0x0', '0x0', '0x7'],
        ['0x7', '0x7', '0x7'],
        ['0x7', '0x7', '0x7'],
      ],
      gasUsedRatio: [0, 0.0014, 0.0007, 0.0007],
      baseFeePerBlobGas: ['0x1', '0x1', '0x1', '0x1', '0x1'],
      blobGasUsedRatio: [0, 0, 0, 0],
    })
    expect(history['baseFeePerGas']).toHaveLength(5)
    expect(await result('eth_feeHistory', ['0x1', 'latest'])).not.toHaveProperty('reward')
    const longest = (await result('eth_feeHistory', [1e9, 'latest'])) as Json
    expect(longest['gasUsedRatio']).toHaveLength(3)
  })
  test('has raw envelopes that decode to the same transaction', async () => {
    const raw = (await result('eth_getRawTransactionByHash', [txHash(2)])) as string
    expect(bytesToHex(decodeTransaction(hexToBytes(raw)).hash)).toBe(txHash(2))
  })
})

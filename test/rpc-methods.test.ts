import { describe, expect, test } from 'vitest'
import { bytesToHex, hexToBytes } from '../engine/primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../engine/primitives/keccak.ts'
import { decodeTransaction } from '../engine/primitives/transaction-codec.ts'
import {
  CONTRACT,
  deposit,
  execute,
  filled,
  log,
  SENDER,
  TOPIC,
  transfer,
} from './fixtures/executed.ts'
import { memoryChain } from './fixtures/memory-chain.ts'
import { testRpc } from './fixtures/rpc.ts'

type Json = Readonly<Record<string, unknown>>
const STANDARD = { endpoint: 'standard' } as const
const CODE = Uint8Array.of(0x60, 0x01)

/** Blocks 0 and 1 canonical, 2 complete, 3 pending at flashblock 2. */
function chain() {
  const account = (balance: bigint, nonce: bigint) => ({ balance, nonce, codeHash: EMPTY_HASH })
  const memory = memoryChain([
    { address: SENDER, before: undefined, after: account(1_000n, 0n), slots: [], code: undefined },
    {
      address: CONTRACT,
      before: undefined,
      after: { ...account(0n, 1n), codeHash: keccak256(CODE) },
      slots: [{ key: filled(32, 0), before: filled(32, 0), after: filled(32, 0xee) }],
      code: CODE,
    },
  ])
  const paid = (nonce: bigint) => [
    {
      address: SENDER,
      before: account(1_000n, 0n),
      after: account(1_000n - nonce, nonce),
      slots: [],
      code: undefined,
    },
  ]
  const transactions = [transfer(0n), transfer(1n), transfer(2n)]
  const one = memory.make(memory.genesis, {
    executed: execute([deposit(), transactions[0]!], [[], [log(), log([TOPIC, TOPIC])]]),
    diff: paid(1n),
  })
  const two = memory.make(one, { executed: execute([transactions[1]!], [[log()]]), diff: paid(2n) })
  const three = memory.make(two, {
    executed: execute([transactions[2]!], [[log()]]),
    diff: paid(3n),
    index: 2,
  })
  memory.publish({ canonical: one, complete: two, pending: three })
  return {
    rpc: testRpc({ memory }),
    memory,
    blocks: [memory.genesis, one, two, three],
    transactions,
  }
}
const { rpc, blocks, transactions } = chain()
const hashOf = (at: number) => bytesToHex(blocks[at]!.hash)
const txHash = (at: number) => bytesToHex(transactions[at]!.hash)
const keys = (value: unknown) => Object.keys(value as Json).toSorted((a, b) => (a < b ? -1 : 1))
const result = async (method: string, params: readonly unknown[], standard = false) =>
  (await rpc.ask(method, params, standard ? STANDARD : {})).result
const sender = bytesToHex(SENDER)
const contract = bytesToHex(CONTRACT)

describe('what the endpoints show', () => {
  const cases: [method: string, params: unknown[], flashblocks: unknown, standard: unknown][] = [
    ['eth_chainId', [], '0xc4', '0xc4'],
    ['net_version', [], '196', '196'],
    ['web3_clientVersion', [], 'flashnode/v0.0.0', 'flashnode/v0.0.0'],
    ['web3_sha3', ['0x'], bytesToHex(EMPTY_HASH), bytesToHex(EMPTY_HASH)],
    ['eth_syncing', [], false, false],
    ['net_listening', [], true, true],
    ['net_peerCount', [], '0x0', '0x0'],
    ['eth_protocolVersion', [], '0x0', '0x0'],
    ['eth_getCompilers', [], [], []],
    ['eth_flashblocksEnabled', [], true, false],
    ['eth_blobBaseFee', [], '0x1', '0x1'],
    ['eth_blockNumber', [], '0x2', '0x1'],
    ['eth_blockNumber', ['pending'], '0x3', '0x1'],
    ['eth_blockNumber', ['earliest'], '0x0', '0x0'],
    ['eth_blockNumber', ['safe'], '0x1', '0x1'],
    ['eth_getTransactionCount', [sender], '0x2', '0x1'],
    ['eth_getTransactionCount', [sender, 'latest'], '0x2', '0x1'],
    ['eth_getTransactionCount', [sender, 'pending'], '0x3', '0x1'],
    ['eth_getTransactionCount', [sender, '0x0'], '0x0', '0x0'],
    ['eth_getTransactionCount', [sender, hashOf(1)], '0x1', '0x1'],
    ['eth_getBalance', [sender, 'pending'], '0x3e5', '0x3e7'],
    ['eth_getBalance', [sender, { blockHash: hashOf(0) }], '0x3e8', '0x3e8'],
    ['eth_getBalance', [`0x${'99'.repeat(20)}`], '0x0', '0x0'],
    ['eth_getCode', [contract], bytesToHex(CODE), bytesToHex(CODE)],
    ['eth_getCode', [sender, 'latest'], '0x', '0x'],
    [
      'eth_getStorageAt',
      [contract, '0x0', 'pending'],
      `0x${'ee'.repeat(32)}`,
      `0x${'ee'.repeat(32)}`,
    ],
    ['eth_getStorageAt', [contract, '0x'], `0x${'ee'.repeat(32)}`, `0x${'ee'.repeat(32)}`],
    ['eth_getStorageAt', [contract, '1'], `0x${'00'.repeat(32)}`, `0x${'00'.repeat(32)}`],
    ['eth_getBlockTransactionCountByNumber', ['pending'], '0x1', '0x2'],
    ['eth_getBlockTransactionCountByNumber', ['0x1'], '0x2', '0x2'],
    ['eth_getBlockTransactionCountByNumber', ['0x9'], null, null],
    ['eth_getBlockTransactionCountByHash', [hashOf(3)], '0x1', null],
    ['eth_getUncleCountByBlockNumber', ['latest'], '0x0', '0x0'],
    ['eth_getUncleCountByBlockHash', [`0x${'11'.repeat(32)}`], null, null],
    ['eth_getUncleByBlockNumberAndIndex', ['latest', '0x0'], null, null],
    ['eth_getUncleByBlockHashAndIndex', [hashOf(1), '0x0'], null, null],
    ['eth_getBlockByNumber', ['0x4', false], null, null],
    ['eth_getBlockByHash', [hashOf(3), false], expect.objectContaining({ number: '0x3' }), null],
    ['eth_getBlockReceipts', ['0x0'], [], []],
    ['eth_getBlockReceipts', ['0x9'], null, null],
    [
      'eth_getTransactionReceipt',
      [txHash(2)],
      expect.objectContaining({ blockNumber: '0x3' }),
      null,
    ],
    [
      'eth_getTransactionByHash',
      [txHash(1)],
      expect.objectContaining({ blockNumber: '0x2' }),
      null,
    ],
    ['eth_getTransactionByBlockNumberAndIndex', ['0x1', '0x2'], null, null],
    [
      'eth_getRawTransactionByHash',
      [txHash(0)],
      bytesToHex(transactions[0]!.raw),
      bytesToHex(transactions[0]!.raw),
    ],
    ['eth_getRawTransactionByHash', [`0x${'11'.repeat(32)}`], null, null],
    [
      'eth_getRawTransactionByBlockNumberAndIndex',
      ['0x1', '0x1'],
      bytesToHex(transactions[0]!.raw),
      bytesToHex(transactions[0]!.raw),
    ],
    [
      'eth_getRawTransactionByBlockHashAndIndex',
      [hashOf(2), '0x0'],
      bytesToHex(transactions[1]!.raw),
      null,
    ],
    ['eth_gasPrice', [], '0x3baa0c40', '0x3baa0c40'],
    ['eth_maxPriorityFeePerGas', [], '0xf4240', '0xf4240'],
    ['txpool_content', [], { pending: {}, queued: {} }, { pending: {}, queued: {} }],
    ['txpool_status', [], { pending: '0x0', queued: '0x0' }, { pending: '0x0', queued: '0x0' }],
  ]
  test.each(cases)('%s %j', async (method, params, flashblocks, standard) => {
    expect(await result(method, params)).toEqual(flashblocks)
    expect(await result(method, params, true)).toEqual(standard)
    expect(rpc.bugs).toEqual([])
    expect(rpc.memory.leases).toBe(0)
  })
  const errors: [method: string, params: unknown[], code: number, message: string][] = [
    ['eth_getBalance', [], -32602, 'missing value for required argument 0'],
    ['eth_getBalance', [sender, 'latest', 1], -32602, 'too many arguments, want at most 2'],
    ['eth_getBalance', [sender, '0xffffff'], -32000, 'header not found'],
    ['eth_getBalance', [sender, `0x${'11'.repeat(32)}`], -32000, 'header for hash not found'],
    ['eth_getBlockByNumber', ['latest'], -32602, 'missing value for required argument 1'],
    ['eth_getStorageAt', [contract, '0xzz'], -32602, 'invalid hex in storage key: "0xzz"'],
    [
      'eth_getStorageAt',
      [contract, `0x${'0'.repeat(66)}`],
      -32602,
      `storage key too long (want at most 32 bytes): "0x${'0'.repeat(66)}"`,
    ],
    ['eth_feeHistory', ['0x1', '0x9'], -32000, 'request beyond head block: requested 9, head 3'],
    [
      'eth_feeHistory',
      ['0x1', 'latest', [2, 1]],
      -32602,
      'invalid reward percentile: #0:2 >= #1:1',
    ],
    ['eth_subscribe', ['newHeads'], -32601, 'notifications not supported'],
    ['eth_unsubscribe', ['0x1'], -32000, 'subscription not found'],
    ['eth_getFilterChanges', ['zz'], -32000, 'filter not found'],
  ]
  test.each(errors)('%s %j is refused', async (method, params, code, message) => {
    expect((await rpc.ask(method, params)).error).toEqual({ code, message })
  })
})

describe('shapes', () => {
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
  const PLACED = [
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

  test('a block', async () => {
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
    const whole = (full['transactions'] as Json[])[1]
    expect(whole).toEqual(await result('eth_getTransactionByBlockNumberAndIndex', ['0x1', '0x1']))
    expect(whole).toEqual(
      await result('eth_getTransactionbyBlockNumberAndIndex', ['0x1', '0x1'], true),
    )
    expect(whole).toEqual(await result('eth_getTransactionByBlockHashAndIndex', [hashOf(1), '0x1']))
    expect(whole).toEqual(await result('eth_getTransactionByHash', [txHash(0)]))
  })
  test('a header', async () => {
    const header = await result('eth_getHeaderByNumber', ['latest'])
    expect(keys(header)).toEqual(sorted(...HEADER))
    expect(header).toEqual(await result('eth_getHeaderByHash', [hashOf(2)]))
  })
  test('transactions of each type', async () => {
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
    const block = (await other.ask('eth_getBlockByNumber', ['latest', true])).result as Json
    const shown = block['transactions'] as Json[]
    const typed = [...PLACED, 'chainId', 'accessList', 'yParity']
    expect(shown.map(keys)).toEqual([
      sorted(...PLACED, 'chainId'),
      sorted(...PLACED),
      sorted(...typed),
      sorted(...typed, ...FEES),
      sorted(...typed, ...FEES, 'authorizationList'),
      sorted(...PLACED, 'sourceHash', 'mint', 'depositReceiptVersion'),
    ])
    expect(shown[3]).toMatchObject({ gasPrice: '0x3b9aca07', type: '0x2', transactionIndex: '0x3' })
    expect(shown[5]).toMatchObject({
      gasPrice: '0x0',
      nonce: '0x3',
      mint: '0x9',
      depositReceiptVersion: '0x1',
      v: '0x0',
      type: '0x7e',
    })
  })
  test('a receipt of an OP chain, alone and in its block', async () => {
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
  test('operator fees only where there are some', async () => {
    const executed = execute([transfer(0n)])
    const [{ transaction, receipt }] = executed as [(typeof executed)[0]]
    const l1 = { ...receipt.l1!, operatorFeeScalar: 0n, operatorFeeConstant: 8n }
    const memory = memoryChain()
    memory.publish({
      canonical: memory.make(memory.genesis, {
        executed: [{ transaction, receipt: { ...receipt, l1 } }],
      }),
    })
    const [shown] = (await testRpc({ memory }).ask('eth_getBlockReceipts', ['latest'])).result as [
      Json,
    ]
    expect(shown).toMatchObject({ operatorFeeScalar: '0x0', operatorFeeConstant: '0x8' })
  })
  test('a transaction that waits has no place', async () => {
    const { rpc: own } = chain()
    const waiting = transfer(3n)
    const raw = bytesToHex(waiting.raw)
    expect((await own.ask('eth_sendRawTransaction', [raw])).result).toBe(bytesToHex(waiting.hash))
    const shown = (await own.ask('eth_getTransactionByHash', [bytesToHex(waiting.hash)]))
      .result as Json
    expect(keys(shown)).toEqual(sorted(...PLACED, ...FEES, 'chainId', 'accessList', 'yParity'))
    expect(shown).toMatchObject({
      blockHash: null,
      blockNumber: null,
      blockTimestamp: null,
      transactionIndex: null,
      gasPrice: '0xb2d05e00',
    })
    expect((await own.ask('eth_getRawTransactionByHash', [bytesToHex(waiting.hash)])).result).toBe(
      raw,
    )
    expect((await own.ask('eth_getTransactionReceipt', [bytesToHex(waiting.hash)])).result).toBe(
      null,
    )
    expect((await own.ask('eth_getTransactionCount', [sender, 'pending'])).result).toBe('0x4')
    expect((await own.ask('eth_getTransactionCount', [sender, 'latest'])).result).toBe('0x2')
    const again = await own.ask('eth_sendRawTransaction', [raw])
    expect(again.error).toEqual({ code: -32000, message: 'already known' })
  })
  test('fee history', async () => {
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
  test('raw envelopes decode to what is shown', async () => {
    const raw = (await result('eth_getRawTransactionByHash', [txHash(2)])) as string
    expect(bytesToHex(decodeTransaction(hexToBytes(raw)).hash)).toBe(txHash(2))
  })
})

describe('logs', () => {
  const places = async (filter: Json, standard = false) =>
    ((await result('eth_getLogs', [filter], standard)) as Json[]).map(
      (one) => `${one['blockNumber']}/${one['logIndex']}`,
    )
  const cases: [name: string, filter: Json, flashblocks: string[], standard: string[]][] = [
    ['left out: latest to pending', {}, ['0x2/0x0', '0x3/0x0'], ['0x1/0x0', '0x1/0x1']],
    [
      'from the first block',
      { fromBlock: 'earliest' },
      ['0x1/0x0', '0x1/0x1', '0x2/0x0', '0x3/0x0'],
      ['0x1/0x0', '0x1/0x1'],
    ],
    [
      'to latest',
      { fromBlock: '0x0', toBlock: 'latest' },
      ['0x1/0x0', '0x1/0x1', '0x2/0x0'],
      ['0x1/0x0', '0x1/0x1'],
    ],
    [
      'pending alone',
      { fromBlock: 'pending', toBlock: 'pending' },
      ['0x3/0x0'],
      ['0x1/0x0', '0x1/0x1'],
    ],
    ['pending by number', { fromBlock: 'pending', toBlock: '0x3' }, ['0x3/0x0'], []],
    [
      'by address',
      { fromBlock: '0x0', address: contract },
      ['0x1/0x0', '0x1/0x1', '0x2/0x0', '0x3/0x0'],
      ['0x1/0x0', '0x1/0x1'],
    ],
    ['by another address', { fromBlock: '0x0', address: [sender] }, [], []],
    [
      'by second topic',
      { fromBlock: '0x0', topics: [null, bytesToHex(TOPIC)] },
      ['0x1/0x1'],
      ['0x1/0x1'],
    ],
    ['by block hash', { blockHash: hashOf(1) }, ['0x1/0x0', '0x1/0x1'], ['0x1/0x0', '0x1/0x1']],
  ]
  test.each(cases.filter(([name]) => name !== 'pending by number'))(
    '%s',
    async (_name, filter, flashblocks, standard) => {
      expect(await places(filter)).toEqual(flashblocks)
      expect(await places(filter, true)).toEqual(standard)
    },
  )
  test('from pending to below it: none', async () => {
    expect(await places({ fromBlock: 'pending', toBlock: 'latest' })).toEqual([])
    expect(await places({ fromBlock: 'pending', toBlock: '0x1' })).toEqual([])
    expect(await places({ fromBlock: 'pending', toBlock: '0x3' })).toEqual(['0x3/0x0'])
  })
  const refused: [name: string, filter: Json, code: number, message: string][] = [
    [
      'beyond the head',
      { fromBlock: '0x0', toBlock: '0x4' },
      -32602,
      'block range extends beyond current head block: requested 4, head 3',
    ],
    [
      'from beyond the head',
      { fromBlock: '0x9', toBlock: '0xffffffff' },
      -32602,
      'block range extends beyond current head block: requested 9, head 3',
    ],
    ['backwards', { fromBlock: '0x2', toBlock: '0x1' }, -32602, 'invalid block range params'],
    ['an unknown hash', { blockHash: `0x${'11'.repeat(32)}` }, -32000, 'unknown block'],
  ]
  test.each(refused)('%s', async (_name, filter, code, message) => {
    expect((await rpc.ask('eth_getLogs', [filter])).error).toEqual({ code, message })
  })
  test('too wide a range: a smaller one is suggested, and it works', async () => {
    const { memory } = chain()
    const narrow = testRpc({ memory, limits: { logsBlocks: 2, logsBlocksFiltered: 3 } })
    const wide = await narrow.ask('eth_getLogs', [{ fromBlock: '0x0' }])
    expect(wide.error).toMatchObject({
      code: -32005,
      data: { limit: 2, suggestedRange: { fromBlock: '0x0', toBlock: '0x1' } },
    })
    const { suggestedRange: suggested } = wide.error!.data as { suggestedRange: Json }
    expect((await narrow.ask('eth_getLogs', [suggested])).result).toHaveLength(2)
    const filtered = await narrow.ask('eth_getLogs', [{ fromBlock: '0x0', address: contract }])
    expect(filtered.error).toMatchObject({ data: { limit: 3, suggestedRange: { toBlock: '0x2' } } })
  })
  test('too many logs: the blocks that fit are suggested; one block is answered whole', async () => {
    const { memory } = chain()
    const few = testRpc({ memory, limits: { logsResults: 2 } })
    const many = await few.ask('eth_getLogs', [{ fromBlock: '0x0' }])
    expect(many.error).toMatchObject({
      code: -32005,
      data: { limit: 2, suggestedRange: { fromBlock: '0x0', toBlock: '0x1' } },
    })
    const one = testRpc({ memory, limits: { logsResults: 1 } })
    expect(
      (await one.ask('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x1' }])).result,
    ).toHaveLength(2)
  })
})

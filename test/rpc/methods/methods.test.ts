import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import { CONTRACT, SENDER, TOPIC } from '../../fixtures/executed.ts'
import { CODE, fourBlocks } from '../../fixtures/four-blocks.ts'
import { testRpc } from '../../fixtures/rpc.ts'

type Json = Readonly<Record<string, unknown>>
const STANDARD = { endpoint: 'standard' } as const
const { memory, blocks, transactions } = fourBlocks()
const rpc = testRpc({ memory })
const hashOf = (at: number) => bytesToHex(blocks[at]!.hash)
const txHash = (at: number) => bytesToHex(transactions[at]!.hash)
const result = async (method: string, params: readonly unknown[], standard = false) =>
  (await rpc.request(method, params, standard ? STANDARD : {})).result
const sender = bytesToHex(SENDER)
const contract = bytesToHex(CONTRACT)

describe('the flashblocks and standard endpoints', () => {
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
  test.each(cases)(
    'give their results for %s %j',
    async (method, params, flashblocks, standard) => {
      expect(await result(method, params)).toEqual(flashblocks)
      expect(await result(method, params, true)).toEqual(standard)
      expect(rpc.bugs).toEqual([])
      expect(rpc.memory.leaks()).toBe(0)
    },
  )
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
    ...(
      [
        [[2, 1], '#0:2.000000 >= #1:1.000000'],
        [[25.5, 25.5], '#0:25.500000 >= #1:25.500000'],
        [[10, 50, 50, 90], '#1:50.000000 >= #2:50.000000'],
        [[100, 100], '#0:100.000000 >= #1:100.000000'],
        [[101], '101.000000'],
        [[10, -1], '-1.000000'],
        [[50, 100.1], '100.100000'],
      ] as const
    ).map(([percentiles, which]): (typeof errors)[number] => [
      'eth_feeHistory',
      ['0x1', 'pending', percentiles],
      -32000,
      `invalid reward percentile: ${which}`,
    ]),
    ['eth_subscribe', ['newHeads'], -32601, 'notifications not supported'],
    ['eth_unsubscribe', ['0x1'], -32000, 'subscription not found'],
    ['eth_getFilterChanges', ['zz'], -32000, 'filter not found'],
  ]
  test.each(['latest', 'pending', '0x1'])(
    'give rewards in a fee history of %s only for requested percentiles',
    async (newest) => {
      for (const percentiles of [[], null, undefined])
        expect(await result('eth_feeHistory', ['0x2', newest, percentiles])).not.toHaveProperty(
          'reward',
        )
      const { reward } = (await result('eth_feeHistory', ['0x2', newest, [0, 100]])) as Json
      expect(reward).toHaveLength(2)
    },
  )
  test.each([2, '2', '0x2', '0x02', '0X2'])(
    'give a fee history of two blocks for the count %j',
    async (count) => {
      const { gasUsedRatio } = (await result('eth_feeHistory', [count, 'latest'])) as Json
      expect(gasUsedRatio).toHaveLength(2)
    },
  )
  test.each(errors)('refuse %s %j', async (method, params, code, message) => {
    expect((await rpc.request(method, params)).error).toEqual({ code, message })
  })
})

describe('eth_getLogs', () => {
  const locations = async (filter: Json, standard = false) =>
    ((await result('eth_getLogs', [filter], standard)) as Json[]).map(
      (one) => `${one['blockNumber']}/${one['logIndex']}`,
    )
  const cases: [name: string, filter: Json, flashblocks: string[], standard: string[]][] = [
    ['without blocks, from latest to pending', {}, ['0x2/0x0', '0x3/0x0'], ['0x1/0x0', '0x1/0x1']],
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
    'gives the logs of its range: %s',
    async (_name, filter, flashblocks, standard) => {
      expect(await locations(filter)).toEqual(flashblocks)
      expect(await locations(filter, true)).toEqual(standard)
    },
  )
  test('from pending on gives pending logs only', async () => {
    expect(await locations({ fromBlock: 'pending', toBlock: 'latest' })).toEqual([])
    expect(await locations({ fromBlock: 'pending', toBlock: '0x1' })).toEqual([])
    expect(await locations({ fromBlock: 'pending', toBlock: '0x3' })).toEqual(['0x3/0x0'])
  })
  const refused: [name: string, filter: Json, code: number, message: string][] = [
    [
      'an end above the head',
      { fromBlock: '0x0', toBlock: '0x4' },
      -32602,
      'block range extends beyond current head block: requested 4, head 3',
    ],
    [
      'a start above the head',
      { fromBlock: '0x9', toBlock: '0xffffffff' },
      -32602,
      'block range extends beyond current head block: requested 9, head 3',
    ],
    [
      'a start above its end',
      { fromBlock: '0x2', toBlock: '0x1' },
      -32602,
      'invalid block range params',
    ],
    ['an unknown hash', { blockHash: `0x${'11'.repeat(32)}` }, -32000, 'unknown block'],
  ]
  test.each(refused)('is refused with its reason: %s', async (_name, filter, code, message) => {
    expect((await rpc.request('eth_getLogs', [filter])).error).toEqual({ code, message })
  })
  test('over too many blocks is refused with a smaller range that works', async () => {
    const narrow = testRpc({ memory, limits: { logsBlocks: 2, logsBlocksFiltered: 3 } })
    const wide = await narrow.request('eth_getLogs', [{ fromBlock: '0x0' }])
    expect(wide.error).toMatchObject({
      code: -32005,
      data: { limit: 2, suggestedRange: { fromBlock: '0x0', toBlock: '0x1' } },
    })
    const { suggestedRange: suggested } = wide.error!.data as { suggestedRange: Json }
    expect((await narrow.request('eth_getLogs', [suggested])).result).toHaveLength(2)
    const filtered = await narrow.request('eth_getLogs', [{ fromBlock: '0x0', address: contract }])
    expect(filtered.error).toMatchObject({ data: { limit: 3, suggestedRange: { toBlock: '0x2' } } })
  })
  test('above the response size is refused with the range of the blocks before', async () => {
    const few = testRpc({ memory, limits: { responseBytes: 1700 } })
    const many = await few.request('eth_getLogs', [{ fromBlock: '0x0' }])
    expect(many.error).toMatchObject({
      code: -32005,
      message: 'query exceeds max response bytes 1700, retry with the range 0-1',
      data: { limit: 1700, suggestedRange: { fromBlock: '0x0', toBlock: '0x1' } },
    })
  })
  test('that reads too many receipts is refused with a smaller range', async () => {
    const few = testRpc({ memory, limits: { logsReads: 1 } })
    const many = await few.request('eth_getLogs', [{ fromBlock: '0x0' }])
    expect(many.error).toMatchObject({
      code: -32005,
      message: expect.stringContaining('query exceeds max receipts 1, retry with the range 0-'),
      data: { limit: 1, suggestedRange: { fromBlock: '0x0', toBlock: '0x1' } },
    })
    const { suggestedRange: suggested } = many.error!.data as { suggestedRange: Json }
    expect((await few.request('eth_getLogs', [suggested])).result).toHaveLength(2)
  })
  test('with too many logs is refused with a smaller range, except for one block', async () => {
    const few = testRpc({ memory, limits: { logsResults: 2 } })
    const many = await few.request('eth_getLogs', [{ fromBlock: '0x0' }])
    expect(many.error).toMatchObject({
      code: -32005,
      data: { limit: 2, suggestedRange: { fromBlock: '0x0', toBlock: '0x1' } },
    })
    const one = testRpc({ memory, limits: { logsResults: 1 } })
    expect(
      (await one.request('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x1' }])).result,
    ).toHaveLength(2)
  })
})

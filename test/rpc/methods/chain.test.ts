/** The methods run over the writer's publications: real blocks, real views, real execution. */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { other, owner, PROBE, PROBE_ADDRESS, probeChain } from '../../fixtures/probe-chain.ts'
import { type Reply, testRpc } from '../../fixtures/rpc.ts'

type Json = Readonly<Record<string, unknown>>
const ENDLESS = '0x5b5f56'
const { world, blocks, source } = await probeChain()
const rpc = testRpc({ source })

const result = async (method: string, ...params: unknown[]) => {
  const reply = await rpc.request(method, params)
  if (reply.error !== undefined) throw new Error(JSON.stringify(reply.error))
  expect(rpc.bugs).toEqual([])
  return reply.result
}
const failure = async (method: string, ...params: unknown[]) =>
  (await rpc.request(method, params)).error
const words = (output: unknown) =>
  [0, 1, 2].map((at) => BigInt(`0x${(output as string).slice(2 + 64 * at, 66 + 64 * at)}`))

describe('blocks and receipts', () => {
  test('are read at the three heads, and X-Flashblock names the view', async () => {
    expect(world.heads()).toMatchObject({
      canonical: [1, expect.any(String)],
      complete: [2, expect.any(String)],
      pending: [3, 1],
    })
    expect(await result('eth_blockNumber')).toBe('0x2')
    expect(await result('eth_blockNumber', 'pending')).toBe('0x3')
    expect((await rpc.request('eth_blockNumber', [], { endpoint: 'standard' })).result).toBe('0x1')
    const { headers } = await rpc.send('{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}')
    expect(headers['X-Flashblock']).toBe('3:1:0x0000000000000003')
  })
  test('include the pending block under its partial hash', async () => {
    const pending = (await result('eth_getBlockByNumber', 'pending', true)) as Json
    expect(pending).toMatchObject({
      number: '0x3',
      stateRoot: `0x${'00'.repeat(32)}`,
      hash: bytesToHex(blocks[2]!.flashblocks[1]!.delta.blockHash!),
      parentHash: bytesToHex(blocks[1]!.hash),
    })
    expect(await result('eth_getBlockByHash', pending['hash'], true)).toEqual(pending)
    const [first, second] = pending['transactions'] as [Json, Json]
    expect(first).toMatchObject({ type: '0x7e', depositReceiptVersion: '0x1', gasPrice: '0x0' })
    expect(second).toMatchObject({
      nonce: '0x3',
      blockHash: pending['hash'],
      transactionIndex: '0x1',
    })
    const earlier = bytesToHex(blocks[2]!.flashblocks[0]!.delta.blockHash!)
    expect(await result('eth_getBlockTransactionCountByHash', earlier)).toBe('0x1')
    expect(
      (await rpc.request('eth_getBlockByHash', [earlier, false], { endpoint: 'standard' })).result,
    ).toBe(null)
  })
  test('have the RLP size of the block', async () => {
    const block = (await result('eth_getBlockByNumber', '0x2', true)) as Json
    const raws = await Promise.all(
      (block['transactions'] as Json[]).map((one) =>
        result('eth_getRawTransactionByHash', one['hash']),
      ),
    )
    expect(raws).toEqual(blocks[1]!.upstreamBlock.transactions.map(bytesToHex))
    expect(Number(block['size'])).toBeGreaterThan(raws.join('').length / 2)
  })
  test('have OP fields in receipts, alone and in their block', async () => {
    const receipts = (await result('eth_getBlockReceipts', 'latest')) as Json[]
    expect(receipts.map((one) => one['transactionIndex'])).toEqual(['0x0', '0x1', '0x2', '0x3'])
    for (const receipt of receipts)
      expect(await result('eth_getTransactionReceipt', receipt['transactionHash'])).toEqual(receipt)
    expect(receipts[0]).toMatchObject({
      depositNonce: expect.any(String),
      depositReceiptVersion: '0x1',
      l1Fee: '0x0',
    })
    expect(receipts[1]).toMatchObject({
      status: '0x1',
      l1GasUsed: expect.any(String),
      to: PROBE_ADDRESS,
    })
    expect((receipts[2]!['logs'] as Json[])[0]).toMatchObject({
      logIndex: '0x1',
      address: PROBE_ADDRESS,
    })
    const [, created] = (await result('eth_getBlockReceipts', '0x1')) as [Json, Json]
    expect(created['contractAddress']).toBe(PROBE_ADDRESS)
  })
  test('have each log once over canonical and pending blocks', async () => {
    const logs = (await result('eth_getLogs', {
      fromBlock: '0x0',
      toBlock: 'pending',
      address: PROBE_ADDRESS,
    })) as Json[]
    expect(logs.map((one) => `${one['blockNumber']}/${one['logIndex']}`)).toEqual([
      '0x2/0x0',
      '0x2/0x1',
      '0x3/0x0',
    ])
    expect(await result('eth_getLogs', { blockHash: logs[2]!['blockHash'] })).toEqual([logs[2]])
    const canonical = await rpc.request('eth_getLogs', [{ fromBlock: '0x0' }], {
      endpoint: 'standard',
    })
    expect(canonical.result).toEqual([])
  })
  test('have the state and nonces of each head', async () => {
    const nonces = ['0x0', '0x1', '0x2', 'latest', 'pending'].map((at) =>
      result('eth_getTransactionCount', owner.address, at),
    )
    expect(await Promise.all(nonces)).toEqual(['0x0', '0x1', '0x3', '0x3', '0x4'])
    expect(await result('eth_getCode', PROBE_ADDRESS, '0x1')).toBe(`0x${PROBE}`)
    expect(await result('eth_getCode', PROBE_ADDRESS, '0x0')).toBe('0x')
  })
  test('agree with each other in a batch, which reads one view', async () => {
    const items = [
      ['eth_blockNumber', ['pending']],
      ['eth_getBlockByNumber', ['pending', false]],
      [
        'eth_call',
        [
          { to: PROBE_ADDRESS, gasPrice: '0x77359400', from: owner.address, gas: '0x30d40' },
          'pending',
        ],
      ],
      ['eth_getBlockReceipts', ['pending']],
      ['eth_getLogs', [{ fromBlock: 'pending', toBlock: 'pending' }]],
    ] as const
    const body = items.map(([method, params], id) => ({ jsonrpc: '2.0', id, method, params }))
    const replies = JSON.parse((await rpc.send(JSON.stringify(body))).text!) as Reply[]
    const [number, block, output, receipts, logs] = replies.map((one) => one.result) as [
      string,
      Json,
      string,
      Json[],
      Json[],
    ]
    expect(words(output)[0]).toBe(BigInt(number))
    expect(block['number']).toBe(number)
    expect(receipts.map((one) => one['transactionHash'])).toEqual(block['transactions'])
    expect(logs).toHaveLength(1)
    const pinned = rpc.poolCalls.slice(-2).map(({ snapshot }) => snapshot)
    expect(pinned).toEqual([world.reader.newestSnapshot(), world.reader.newestSnapshot()])
  })
})

describe('eth_call', () => {
  const priced = { to: PROBE_ADDRESS, from: owner.address, gasPrice: '0x77359400', gas: '0x30d40' }
  test.each(['pending', 'latest', '0x1', 'hash'])('runs in the given block (%s)', async (tag) => {
    const block = (await result(
      'eth_getBlockByNumber',
      tag === 'hash' ? 'pending' : tag,
      false,
    )) as Json
    const at = tag === 'hash' ? { blockHash: block['hash'] } : tag
    const environment = [block['number'], block['timestamp'], block['baseFeePerGas']]
    expect(words(await result('eth_call', priced, at))).toEqual(
      environment.map((one) => BigInt(one as string)),
    )
  })
  test('without a gas price reads a base fee of 0', async () => {
    expect(words(await result('eth_call', { to: PROBE_ADDRESS }, 'pending'))[2]).toBe(0n)
  })
  test('without fields creates a contract from empty code', async () => {
    expect(await result('eth_call', {})).toBe('0x')
    expect(await result('eth_call', null, 'latest')).toBe('0x')
  })
  const text = (message: string) =>
    `0x08c379a0${'20'.padStart(64, '0')}${message.length.toString(16).padStart(64, '0')}${Buffer.from(message).toString('hex').padEnd(64, '0')}`
  const panic = (code: string) => `0x4e487b71${code.padStart(64, '0')}`
  test.each([
    ['a reason', text('no way'), 'execution reverted: no way'],
    ['a panic', panic('12'), 'execution reverted: division or modulo by zero'],
    ['a custom error', '0xa8b21345', 'execution reverted'],
  ])('returns the error of a revert with %s', async (_name, data, message) => {
    expect(await failure('eth_call', { to: PROBE_ADDRESS, data })).toEqual({
      code: 3,
      message,
      data,
    })
    expect(await failure('eth_estimateGas', { to: PROBE_ADDRESS, input: data })).toMatchObject({
      code: 3,
      message,
      data,
    })
  })
  test.each([
    ['an invalid opcode', [{ data: '0xfe' }], -32000, 'invalid opcode: INVALID'],
    ['an empty stack', [{ data: '0x01' }], -32000, 'stack underflow (0 <=> 2)'],
    [
      'both kinds of gas price',
      [{ to: PROBE_ADDRESS, gasPrice: '0x1', maxFeePerGas: '0x1' }],
      -32000,
      'both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified',
    ],
    ['a future block', [{ to: PROBE_ADDRESS }, '0xffffff'], -32000, 'header not found'],
    [
      'both kinds of state override',
      [{ to: PROBE_ADDRESS }, 'latest', { [PROBE_ADDRESS]: { state: {}, stateDiff: {} } }],
      -32000,
      /has both 'state' and 'stateDiff'/,
    ],
    [
      'another chain',
      [{ to: PROBE_ADDRESS, chainId: '0x1' }],
      -32000,
      "chainId does not match node's (have=1, want=196)",
    ],
  ])('with %s is refused', async (_name, params, code, message) => {
    const error = await failure('eth_call', ...params)
    expect(error?.code).toBe(code)
    expect(error?.message).toMatch(message)
  })
  test('applies overrides of state and block', async () => {
    const code = { [other.address]: { code: `0x${PROBE}` } }
    const seen = await result('eth_call', { to: other.address }, 'latest', code, {
      number: '0x1234',
      time: '0x99',
    })
    expect(words(seen).slice(0, 2)).toEqual([0x1234n, 0x99n])
    expect(
      await result('eth_call', { data: '0x455f5260205ff3' }, 'latest', {}, { gasLimit: '0x77' }),
    ).toBe(`0x${'77'.padStart(64, '0')}`)
  })
  test('ends an endless loop at the timeout, or when its gas is used up', async () => {
    const short = testRpc({ source, limits: { callMs: 50 } })
    const started = performance.now()
    const late = await short.request('eth_call', [{ data: ENDLESS }])
    expect(late.error?.code).toBe(-32002)
    expect(performance.now() - started).toBeLessThan(2_000)
    expect(await failure('eth_call', { data: ENDLESS, gas: '0x186a0' })).toEqual({
      code: -32000,
      message: 'out of gas',
    })
  })
  test('runs equal calls on one view once, at the same time or later', async () => {
    const own = testRpc({ source })
    const request = () => own.request('eth_call', [{ to: PROBE_ADDRESS }, 'pending'])
    const replies = await Promise.all([request(), request(), request()])
    replies.push(await request())
    expect(new Set(replies.map((one) => one.result)).size).toBe(1)
    expect(own.poolCalls).toHaveLength(1)
    expect(own.stats().cache).toMatchObject({ hits: 1, items: 1 })
    const standard = await own.request('eth_call', [{ to: PROBE_ADDRESS }, 'pending'], {
      endpoint: 'standard',
    })
    expect(words(standard.result)[0]).toBe(1n)
    expect(own.poolCalls).toHaveLength(2)
  })
  test('with invalid parameters is not sent to the pool', async () => {
    const own = testRpc({ source })
    expect((await own.request('eth_call', [{ to: '0x12' }])).error?.code).toBe(-32602)
    expect(own.poolCalls).toEqual([])
  })
  test('is cancelled with its client, but an equal call of another client is not', async () => {
    const own = testRpc({ source })
    const gone = new AbortController()
    const params = [{ to: PROBE_ADDRESS }, 'latest']
    const first = own.request('eth_call', params, { signal: gone.signal })
    const second = own.request('eth_call', params)
    gone.abort()
    await first
    expect(words((await second).result)[0]).toBe(2n)
  })
})

describe('eth_estimateGas', () => {
  test('gives the gas of a transfer, a call and a deployment', async () => {
    expect(
      await result('eth_estimateGas', { from: owner.address, to: other.address, value: '0x1' }),
    ).toBe('0x5208')
    const gas = Number(await result('eth_estimateGas', { to: PROBE_ADDRESS }, 'pending'))
    expect(gas).toBeGreaterThan(21_000)
    expect(gas).toBeLessThan(30_000)
  })
  test('is refused when the allowed gas is too low', async () => {
    expect((await failure('eth_estimateGas', { to: PROBE_ADDRESS, gas: '0x5208' }))?.message).toBe(
      'gas required exceeds allowance (21000)',
    )
  })
})

describe('a call without a block parameter', () => {
  const to = `0x${'77'.repeat(20)}`
  const running = (code: string) => ({ [to]: { code } })
  // The first code runs SLOAD of the block's number; the second one reverts in every block but
  // number 3.
  const [LOADS_NUMBER, ONLY_IN_3] = ['0x43545000', '0x43600314600a575f5ffd5b00']
  const slots = (reply: Reply) =>
    (reply.result as { accessList: { storageKeys: string[] }[] }).accessList.flatMap(
      ({ storageKeys }) => storageKeys.map(BigInt),
    )

  test('runs in the pending block in eth_createAccessList', async () => {
    const params = [{ to }, null, running(LOADS_NUMBER)]
    expect(slots(await rpc.request('eth_createAccessList', params))).toEqual([3n])
    const standard = await rpc.request('eth_createAccessList', params, { endpoint: 'standard' })
    expect(slots(standard)).toEqual([1n])
  })
  test('runs in the pending block in eth_estimateGas, in latest in eth_call', async () => {
    const params = [{ to }, null, running(ONLY_IN_3)]
    expect(BigInt((await result('eth_estimateGas', ...params)) as string)).toBeGreaterThan(21_000n)
    expect(await failure('eth_call', ...params)).toMatchObject({ code: 3 })
    const standard = await rpc.request('eth_estimateGas', params, { endpoint: 'standard' })
    expect(standard.error).toMatchObject({ code: 3 })
    expect(await failure('eth_estimateGas', { to }, 'latest', running(ONLY_IN_3))).toMatchObject({
      code: 3,
    })
  })
})

describe('overrides', () => {
  const message = { to: `0x${'77'.repeat(20)}` }
  const root = `0x${'11'.repeat(32)}`
  const withdrawals: readonly object[] = []
  const state = (fields: object) => ({ [PROBE_ADDRESS]: fields })
  /** These methods take overrides of the state and of the block. */
  const requesters: [method: string, params: (so: unknown, bo: unknown) => unknown[]][] = [
    ['eth_call', (so, bo) => [message, 'latest', so, bo]],
    ['eth_estimateGas', (so, bo) => [message, 'latest', so, bo]],
    [
      'debug_traceCall',
      (so, bo) => [message, 'latest', { stateOverrides: so, blockOverrides: bo }],
    ],
    [
      'eth_simulateV1',
      (so, bo) => [
        { blockStateCalls: [{ stateOverrides: so, blockOverrides: bo, calls: [message] }] },
      ],
    ],
  ]
  test.each(requesters)('with unknown fields are refused by name in %s', async (method, params) => {
    const refusal = async (so: unknown, bo: unknown) => failure(method, ...params(so, bo))
    expect(await refusal(state({ balanse: '0x1' }), undefined)).toMatchObject({
      code: -32602,
      message: expect.stringMatching(
        /: unknown field "balanse", expected one of nonce, code, balance, state, stateDiff, movePrecompileToAddress$/,
      ),
    })
    expect(await refusal(undefined, { gaslimit: '0x1' })).toMatchObject({
      code: -32602,
      message: expect.stringMatching(/: unknown field "gaslimit", expected one of number, /),
    })
    expect(await refusal(undefined, { beaconRoot: null, withdrawals: null })).toBe(undefined)
  })
  test.each(requesters.slice(0, 3))(
    'in %s refuse beaconRoot and withdrawals',
    async (method, params) => {
      for (const [name, value] of Object.entries({ beaconRoot: root, withdrawals }))
        expect(await failure(method, ...params(undefined, { [name]: value }))).toEqual({
          code: -32000,
          message: `block override "${name}" is not supported for this RPC method`,
        })
    },
  )
  test('of eth_createAccessList are those of the state only', async () => {
    const params = [message, 'latest', state({ storage: {} })]
    expect(await failure('eth_createAccessList', ...params)).toMatchObject({ code: -32602 })
  })
  test('of eth_simulateV1 include beaconRoot and withdrawals, but no block hashes', async () => {
    const simulate = (blockOverrides: object) =>
      failure('eth_simulateV1', { blockStateCalls: [{ blockOverrides }] })
    expect(await simulate({ beaconRoot: root, withdrawals })).toBe(undefined)
    expect(await simulate({ blockHash: { '0x1': root } })).toMatchObject({
      code: -32602,
      message: expect.stringContaining('unknown field "blockHash"'),
    })
  })
  test('may come with a transaction object that has further fields', async () => {
    const more = { ...message, type: '0x2', v: '0x0', hash: root, chainId: '0xc4' }
    expect(await failure('eth_call', more, 'latest')).toBe(undefined)
  })
})

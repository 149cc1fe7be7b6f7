/** Each endpoint serves certain methods, which describe themselves. */
import { describe, expect, test } from 'vitest'
import { methods, methodsOf } from '../../../rpc/methods/index.ts'
import { testRpc } from '../../fixtures/rpc.ts'

/** The service documents this list for the standard endpoint. */
const LISTED =
  `web3_clientVersion web3_sha3 net_version eth_protocolVersion eth_syncing eth_gasPrice eth_blockNumber
eth_chainId eth_getBalance eth_getStorageAt eth_getTransactionCount eth_getBlockTransactionCountByNumber
eth_getBlockTransactionCountByHash eth_getCode eth_sign eth_sendTransaction eth_sendRawTransaction eth_call eth_estimateGas
eth_getBlockByNumber eth_getBlockByHash eth_getTransactionByHash eth_getTransactionByBlockHashAndIndex
eth_getTransactionReceipt eth_newFilter eth_newBlockFilter eth_uninstallFilter eth_getFilterChanges eth_getLogs
eth_getFilterLogs eth_getTransactionbyBlockNumberAndIndex eth_getCompilers eth_getUncleCountByBlockHash
eth_getUncleCountByBlockNumber eth_getUncleByBlockHashAndIndex eth_getUncleByBlockNumberAndIndex eth_subscribe
eth_unsubscribe txpool_content debug_traceBlockByHash debug_traceBlockByNumber debug_traceTransaction`.split(
    /\s+/,
  )
/** The service's flashblocks endpoint has these methods in addition. */
const FLASHBLOCKS = [
  'eth_getBlockReceipts',
  'eth_getRawTransactionByHash',
  'eth_getTransactionByBlockNumberAndIndex',
]
const names = (endpoint: 'standard' | 'flashblocks', set: 'all' | 'standard') => [
  ...methodsOf(endpoint, set).keys(),
]
const sorted = (list: readonly string[]) => list.toSorted((a, b) => (a < b ? -1 : 1))

describe('--methods standard', () => {
  test('serves exactly the methods of the list', () => {
    expect(names('standard', 'standard')).toEqual(sorted(LISTED))
    expect(names('flashblocks', 'standard')).toEqual(sorted([...LISTED, ...FLASHBLOCKS]))
  })
  test('refuses other methods as not available', async () => {
    const rpc = testRpc({ set: 'standard' })
    const reply = await rpc.request('eth_feeHistory', ['0x1', 'latest'])
    expect(reply.error).toEqual({
      code: -32601,
      message: 'the method eth_feeHistory does not exist/is not available',
    })
  })
})

describe('every method', () => {
  test('has its own name in the table', () => {
    for (const [name, method] of methods) expect(method.name).toBe(name)
  })
  test('of the standard endpoint is on the flashblocks endpoint too', () => {
    for (const name of names('standard', 'all')) expect(names('flashblocks', 'all')).toContain(name)
  })
  test('has no required parameter after an optional one', () => {
    for (const { params } of methods.values()) {
      const required = params.map((one) => one.required)
      expect(required.lastIndexOf(true)).toBeLessThan(
        required.includes(false) ? required.indexOf(false) : required.length,
      )
    }
  })
  test('is in rpc.discover, which is cached for each block', async () => {
    const rpc = testRpc()
    const before = rpc.stats().cache.hits
    const [first, second] = [await rpc.request('rpc.discover'), await rpc.request('rpc.discover')]
    expect(second.result).toEqual(first.result)
    expect(rpc.stats().cache.hits).toBe(before + 1)
  })
  test('is in rpc.discover of its endpoint, with the schemas of its parameters', async () => {
    const rpc = testRpc()
    type Described = {
      name: string
      summary: string
      params: { name: string; required: boolean; schema: object }[]
    }
    const { result } = await rpc.request('rpc.discover')
    const document = result as { openrpc: string; methods: Described[] }
    expect(document.openrpc).toMatch(/^1\./)
    expect(document.methods.map(({ name }) => name)).toEqual([
      ...methodsOf('flashblocks', 'all').keys(),
    ])
    const call = document.methods.find(({ name }) => name === 'eth_call')!
    expect(call.params.map(({ name, required }) => [name, required])).toEqual([
      ['Transaction', true],
      ['Block', false],
      ['State overrides', false],
      ['Block overrides', false],
    ])
    for (const { summary, params } of document.methods) {
      expect(summary).toMatch(/\.$/)
      for (const { schema } of params) expect(Object.keys(schema).length).toBeGreaterThan(0)
    }
  })
  test('has its namespace in rpc_modules', async () => {
    const { result } = await testRpc().request('rpc_modules')
    expect(result).toMatchObject({ eth: '1.0', net: '1.0', web3: '1.0', rpc: '1.0', txpool: '1.0' })
  })
})

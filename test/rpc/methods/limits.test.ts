/** The limits of parameters are the configured ones, not the defaults. */
import { describe, expect, test } from 'vitest'
import { RpcError } from '../../../rpc/core/errors.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { testRpc } from '../../fixtures/rpc.ts'

const address = (at: number) => `0x${at.toString(16).padStart(40, '0')}`
const word = (at: number) => `0x${at.toString(16).padStart(64, '0')}`
const many = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))
const keyed = <T>(count: number, key: (at: number) => string, value: T) =>
  Object.fromEntries(many(count, (at) => [key(at), value]))

const cases: readonly [
  limit: keyof Limits,
  what: string,
  method: string,
  params: (count: number) => readonly unknown[],
][] = [
  ['storageSlots', 'keys', 'eth_getProof', (count) => [address(1), many(count, word), 'latest']],
  [
    'storageSlots',
    'slots',
    'eth_getStorageValues',
    (count) => [{ [address(1)]: many(count, word) }, 'latest'],
  ],
  [
    'storageSlots',
    'contracts',
    'eth_getStorageValues',
    (count) => [keyed(count, address, []), 'latest'],
  ],
  [
    'simulatedCalls',
    'calls',
    'eth_simulateV1',
    (count) => [{ blockStateCalls: [{ calls: many(count, () => ({})) }] }],
  ],
  ['logsAddresses', 'addresses', 'eth_getLogs', (count) => [{ address: many(count, address) }]],
  ['logsTopics', 'alternatives', 'eth_getLogs', (count) => [{ topics: [many(count, word)] }]],
  [
    'feeHistoryPercentiles',
    'percentiles',
    'eth_feeHistory',
    (count) => ['0x1', 'latest', many(count, (at) => at / count)],
  ],
  ['overrideItems', 'accounts', 'eth_call', (count) => [{}, 'latest', keyed(count, address, {})]],
  [
    'overrideItems',
    'an account and its slots',
    'eth_call',
    (count) => [{}, 'latest', { [address(1)]: { state: keyed(count - 1, word, word(1)) } }],
  ],
]

describe.each(cases)('the limit %s for %s of %s', (limit, _what, name, params) => {
  const decode = (count: number, max: number) =>
    methods.get(name)!.decode(params(count), { ...DEFAULT_LIMITS, [limit]: max })
  test('may be below its default', () => {
    expect(() => decode(3, 3)).not.toThrow()
    expect(() => decode(4, 3)).toThrow(RpcError)
  })
  test('may be above its default', () => {
    const more = DEFAULT_LIMITS[limit] + 1
    expect(() => decode(more, more)).not.toThrow()
    expect(() => decode(more, DEFAULT_LIMITS[limit])).toThrow(RpcError)
  })
})

test.each([undefined, 'whole', 'proven', 'trusted'] as const)(
  'rpc.discover reports how complete and trusted the state is: %s',
  async (mode) => {
    const rpc = testRpc(mode === undefined ? {} : { mode })
    const { info } = (await rpc.request('rpc.discover')).result as { info: Record<string, unknown> }
    expect(info['x-state']).toBe(mode)
  },
)

test('rpc.discover reports the limits of this node', async () => {
  const said = async (limits: Partial<Limits>) =>
    JSON.stringify((await testRpc({ limits }).request('rpc.discover')).result)
  const text = await said({ storageSlots: 1_234_567, overrideItems: 7_654_321 })
  expect(text).toContain('"maxItems":1234567')
  expect(text).toContain('"maxProperties":7654321')
  expect(await said({})).toContain(`"maxItems":${DEFAULT_LIMITS.storageSlots}`)
  expect(text).not.toMatch(/"max(Items|Properties)":"/)
})

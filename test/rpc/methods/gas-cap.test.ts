/**
 * Karst limits the gas of transactions, but not of calls (EIP-7825; reth does not limit calls
 * either).
 */
import { expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { fourBlocks } from '../../fixtures/four-blocks.ts'
import { testRpc } from '../../fixtures/rpc.ts'

const dev = { genesisTimestamp: 1_700_000_000 }
const chain = chainSpec({ name: 'xlayer', dev, forkTimes: { karst: 0 } })
const { memory } = fourBlocks()
const rpc = testRpc({ memory, chain })
const ABOVE = `0x${((1n << 24n) + 1n).toString(16)}`
const to = `0x${'aa'.repeat(20)}`
/** The code returns the remaining gas: GAS, PUSH0, MSTORE, PUSH1 32, PUSH0, RETURN. */
const overrides = { [to]: { code: '0x5a5f5260205ff3' } }

const respond = async (method: string, ...params: unknown[]) => {
  const { result, error } = await rpc.request(method, params)
  if (error !== undefined) throw new Error(JSON.stringify(error))
  return result
}
const LEFT = BigInt(ABOVE) - 21_002n

test('the test chain has the gas limit of Karst', () => {
  expect(chain.rulesAt(4n, 1_700_000_004n).gas.limit).toBe(1n << 24n)
})

test('eth_call may use more gas than a transaction', async () => {
  expect(
    BigInt((await respond('eth_call', { to, gas: ABOVE }, 'latest', overrides)) as string),
  ).toBe(LEFT)
})

test.each([false, true])(
  'eth_simulateV1 may use more gas than a transaction, validation %s',
  async (validation) => {
    const call = { to, gas: ABOVE, maxFeePerGas: '0xffffffffff', from: `0x${'bb'.repeat(20)}` }
    const rich = { [call.from]: { balance: '0xffffffffffffffffffffff' } }
    const [block] = (await respond('eth_simulateV1', {
      blockStateCalls: [{ stateOverrides: { ...overrides, ...rich }, calls: [call] }],
      validation,
    })) as { readonly calls: readonly { readonly status: string; readonly returnData: string }[] }[]
    expect(block!.calls[0]!.status).toBe('0x1')
    expect(BigInt(block!.calls[0]!.returnData)).toBe(LEFT)
  },
)

test('eth_createAccessList may use more gas than a transaction', async () => {
  expect(await respond('eth_createAccessList', { to, gas: ABOVE })).toMatchObject({
    gasUsed: '0x5208',
  })
})

test('debug_traceCall may use more gas than a transaction', async () => {
  const traced = await respond('debug_traceCall', { to, gas: ABOVE }, 'latest', {
    tracer: 'callTracer',
    stateOverrides: overrides,
  })
  expect(BigInt((traced as { readonly output: string }).output)).toBe(LEFT)
})

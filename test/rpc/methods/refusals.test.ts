/**
 * A refusal has one text and one code in every method; a transaction that cannot be applied is
 * refused in the words of eth_call.
 */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { checksumAddress } from '../../../engine/primitives/keccak.ts'
import { CONTRACT, SENDER } from '../../fixtures/executed.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { worldDiff } from '../../fixtures/world.ts'

const rich = worldDiff({ 1: { balance: 10n ** 20n } })[0]!
const memory = memoryChain([{ ...rich, address: SENDER }])
memory.publish({ canonical: memory.make(memory.genesis) })
const rpc = testRpc({ memory })
const from = bytesToHex(SENDER)
const to = bytesToHex(CONTRACT)
const authorization = {
  chainId: '0x0',
  address: to,
  nonce: '0x0',
  yParity: '0x1',
  r: '0x1',
  s: '0x1',
}
const blob = `0x01${'11'.repeat(31)}`

type MethodCall = readonly [method: string, params: readonly unknown[]]
const calls = (call: object, stateOverrides: object = {}): readonly MethodCall[] => [
  ['eth_call', [call, 'latest', stateOverrides]],
  ['eth_estimateGas', [call, 'latest', stateOverrides]],
  ['eth_createAccessList', [call, 'latest', stateOverrides]],
  ['debug_traceCall', [call, 'latest', { tracer: 'noopTracer', stateOverrides }]],
  ['eth_simulateV1', [{ blockStateCalls: [{ stateOverrides, calls: [call] }] }, 'latest']],
]
async function refusals(requested: readonly MethodCall[]): Promise<readonly string[]> {
  const replies = requested.map(async ([method, params]) => {
    const { error } = await rpc.request(method, params)
    return `${error?.code} ${error?.message}`
  })
  return Promise.all(replies)
}

describe('a request with invalid parameters', () => {
  const both = { [to]: { state: {}, stateDiff: {} } }
  test.each<[object, object, string]>([
    [
      {},
      both,
      `account 0xc0C0c0c0C0C0C0C0c0c0c0c0c0c0c0C0C0c0C0C0 has both 'state' and 'stateDiff'`,
    ],
    [{}, { [to]: { movePrecompileToAddress: from } }, ' is not a precompile'],
    [
      { gasPrice: '0x1', maxFeePerGas: '0x1' },
      {},
      'both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified',
    ],
    [{ chainId: '0x1' }, {}, "chainId does not match node's (have=1, want=196)"],
  ])('is refused with one text in all methods: %j %j', async (fields, overrides, message) => {
    const [first, ...others] = await refusals(calls({ from, to, ...fields }, overrides))
    expect(first!.toLowerCase()).toContain(message.toLowerCase())
    expect(first).toMatch(/^-32000 /)
    expect(others).toEqual(others.map(() => first))
  })
})

describe('a message that cannot be applied', () => {
  const gas = '0x7530'
  const sender = '(sender 0x'
  test.each<[fields: object, message: string, ofSimulation?: number]>([
    [{ to, authorizationList: [] }, `EIP-7702 transaction with empty auth list ${sender}`],
    [
      { data: '0x00', authorizationList: [authorization] },
      `EIP-7702 transaction cannot be used to create contract ${sender}`,
    ],
    [{ to, blobVersionedHashes: [] }, 'blob transaction missing blob hashes'],
    [{ data: '0x00', blobVersionedHashes: [blob] }, 'blob transaction of type create'],
    [{ to, blobVersionedHashes: [blob, to.padEnd(66, '0')] }, 'blob 1 has invalid hash version'],
    [
      { to, maxFeePerGas: '0x1', maxPriorityFeePerGas: '0x2' },
      'max priority fee per gas higher than max fee per gas: address 0x',
    ],
    [{ to, value: '0x56bc75e2d63100001' }, 'insufficient funds for gas * price + value', -38014],
    [{ to, gas: '0x5207' }, 'intrinsic gas too low: have 20999, want 21000', -38013],
    [
      { data: `0x${'00'.repeat(49_153)}` },
      'max initcode size exceeded: code size 49153 limit 49152',
      -38025,
    ],
  ])('is refused like in eth_call (%#): %j', async (fields, words, ofSimulation = -32000) => {
    const requested = calls({ from, gas, ...fields })
    const [call, estimate, list, trace, simulation] = await refusals(requested)
    expect(call).toMatch(/^-32000 err: .* \(supplied gas \d+\)$/)
    expect(call).toContain(words)
    expect([list, trace]).toEqual([call, call])
    expect(simulation).toBe(call!.replace('-32000', `${ofSimulation}`))
    // The estimate names the gas that it tried, because more gas is what it searches for.
    if (ofSimulation === -38013) expect(estimate).toBe('undefined undefined')
    else {
      expect(estimate).toMatch(/^-32000 failed with \d+ gas: /)
      expect(estimate).toContain(words)
    }
  })
})

test('eth_simulateV1 with validation refuses the maximum nonce like eth_call', async () => {
  const stateOverrides = { [from]: { nonce: '0xffffffffffffffff' } }
  const block = { stateOverrides, calls: [{ from, to, maxFeePerGas: '0x174876e800' }] }
  const payload = { validation: true, blockStateCalls: [block] }
  expect(await refusals([['eth_simulateV1', [payload, 'latest']]])).toEqual([
    expect.stringMatching(/^-32603 err: nonce has max value: address 0x/),
  ])
})

test('a creation at the last nonce fails in each method that executes one message', async () => {
  const stateOverrides = { [from]: { nonce: '0xffffffffffffffff' } }
  const requested = calls({ from, data: '0x00' }, stateOverrides).slice(0, 3)
  const tracer = { tracer: 'callTracer', stateOverrides }
  const trace: MethodCall = ['debug_traceCall', [{ from, data: '0x00' }, 'latest', tracer]]
  const [called, estimated, listed, traced] = await Promise.all(
    [...requested, trace].map(([method, params]) => rpc.request(method, params)),
  )
  const message = 'nonce uint64 overflow'
  expect([called!.error, estimated!.error]).toEqual([
    { code: -32000, message },
    { code: -32000, message },
  ])
  expect(listed!.result).toMatchObject({ error: message })
  expect(traced!.result).toMatchObject({ type: 'CREATE', error: message })
})

describe('an invalid transaction object', () => {
  const fees = { maxFeePerGas: '0x174876e800', maxPriorityFeePerGas: '0x1' }
  test.each<[object, string]>([
    [
      { to, gasPrice: '0x174876e800', authorizationList: [authorization] },
      '-32000 both gasPrice and authorizationList specified',
    ],
    [
      { data: '0x00', ...fees, authorizationList: [authorization] },
      '-32000 authorizationList provided for contract creation, but "to" field is missing',
    ],
    [
      { to, ...fees, authorizationList: [] },
      `-32000 EIP-7702 transaction with empty auth list (sender ${checksumAddress(SENDER)})`,
    ],
    [
      { to, ...fees, blobVersionedHashes: [] },
      '-32000 need at least 1 blob for a blob transaction',
    ],
    [
      { data: '0x00', ...fees, blobVersionedHashes: [blob] },
      '-32000 missing "to" in blob transaction',
    ],
    [{ to, ...fees, blobVersionedHashes: [blob] }, '-32003 transaction type not supported'],
    [{ to, ...fees, blobs: ['0x00'] }, '-32003 transaction type not supported'],
    [{ to, ...fees, blobs: [] }, '-32003 transaction type not supported'],
    [{ to, ...fees, commitments: [] }, '-32003 transaction type not supported'],
    [{ to, ...fees, proofs: ['0x00'] }, '-32003 transaction type not supported'],
    [
      { to, maxFeePerGas: '0xa', maxPriorityFeePerGas: '0xb' },
      '-32000 maxFeePerGas (0xa) < maxPriorityFeePerGas (0xb)',
    ],
    [
      { to, ...fees, authorizationList: [{ ...authorization, yParity: '0x100' }] },
      '-32602 invalid argument 0: json: cannot unmarshal hex number > 8 bits into Go struct field TransactionArgs.authorizationList.0.yParity of type hexutil.Uint64',
    ],
    [
      { to, ...fees, maxFeePerBlobGas: '0x0' },
      '-32000 maxFeePerBlobGas, if specified, must be non-zero',
    ],
    [{ to, ...fees, maxFeePerBlobGas: '0x1' }, '-32003 transaction type not supported'],
  ])('is refused before it is estimated or signed (%#): %j', async (fields, message) => {
    const given = { from, gas: '0x30000', nonce: '0x0', ...fields }
    const requested = ['eth_fillTransaction', 'eth_signTransaction', 'eth_sendTransaction'].map(
      (method) => [method, [given]] as const,
    )
    expect(await refusals(requested)).toEqual(requested.map(() => message))
  })
})

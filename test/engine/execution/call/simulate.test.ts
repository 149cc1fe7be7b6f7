/**
 * These tests cover eth_simulateV1 beyond the vectors of execution-apis, which `npm run
 * conformance` runs: an OP chain, blocks in blocks, limits.
 */
import { describe, expect, test } from 'vitest'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { addressOfKey, authorizationHash, sign } from '../../../../engine/primitives/signature.ts'
import { LIMITS } from '../../../../rpc/core/limits.ts'
import { CONTRACT, SENDER } from '../../../fixtures/executed.ts'
import { memoryChain } from '../../../fixtures/memory-chain.ts'
import { testRpc } from '../../../fixtures/rpc.ts'
import { address, push, worldDiff } from '../../../fixtures/world.ts'

const hex = (number: number | bigint) => `0x${number.toString(16)}`
const FROM = bytesToHex(SENDER)
const TO = bytesToHex(CONTRACT)
const OTHER = bytesToHex(address(9))
const ERC_7528 = `0x${'e'.repeat(40)}`
const RICH = worldDiff({ 1: { balance: 10n ** 20n } })[0]!
const memory = memoryChain([{ ...RICH, address: SENDER }])
// The block is partial, because a chain in maps has no trie, and partial blocks need none.
const one = memory.make(memory.genesis, { index: 0 })
memory.publish({ canonical: memory.genesis, pending: one })
const rpc = testRpc({ memory })

type SimulateResult = {
  readonly number: string
  readonly timestamp: string
  readonly hash: string
  readonly parentHash: string
  readonly stateRoot: string
  readonly gasUsed: string
  readonly transactions: readonly unknown[]
  readonly calls: readonly {
    readonly status: string
    readonly returnData: string
    readonly gasUsed: string
    readonly logs: readonly Record<string, unknown>[]
    readonly error?: { readonly code: number; readonly message: string }
  }[]
}
async function simulate(blockStateCalls: readonly object[], options: object = {}, at = 'pending') {
  const { result, error } = await rpc.request('eth_simulateV1', [
    { blockStateCalls, ...options },
    at,
  ])
  return { blocks: result as readonly SimulateResult[], error }
}
/** The code returns the block's number, its time and the caller's balance. */
const WHERE = `43 5f52 42602052 3331604052 60605ff3`
const code = (text: string) => `0x${text.replaceAll(' ', '')}`

describe('simulated blocks', () => {
  test('follow each other in number, time and state, and a gap is filled', async () => {
    const { blocks } = await simulate([
      {
        stateOverrides: { [OTHER]: { code: code(WHERE) } },
        calls: [{ from: FROM, to: TO, value: '0x5' }],
      },
      { blockOverrides: { number: hex(5) }, calls: [{ from: TO, to: OTHER, value: '0x2' }] },
    ])
    expect(blocks.map(({ number }) => Number(number))).toEqual([2, 3, 4, 5])
    const times = blocks.map(({ timestamp }) => Number(timestamp))
    const start = Number(one.header.timestamp)
    expect(times).toEqual([1, 2, 3, 4].map((step) => start + step))
    for (const [index, block] of blocks.slice(1).entries())
      expect(block.parentHash).toBe(blocks[index]!.hash)
    expect(blocks[0]!.parentHash).toBe(bytesToHex(one.hash))
    const seen = blocks[3]!.calls[0]!
    const words = [0, 1, 2].map((at) =>
      BigInt(`0x${seen.returnData.slice(2 + 64 * at, 66 + 64 * at)}`),
    )
    expect(words).toEqual([5n, BigInt(times[3]!), 3n])
  })
  test('change nothing', async () => {
    await simulate([{ calls: [{ from: FROM, to: TO, value: '0x5' }] }])
    expect(await rpc.request('eth_getBalance', [TO, 'pending'])).toMatchObject({ result: '0x0' })
  })
  test.each([
    [
      'numbers',
      [{ blockOverrides: { number: hex(3) } }, { blockOverrides: { number: hex(3) } }],
      -38020,
    ],
    ['times', [{ blockOverrides: { time: hex(one.header.timestamp) } }], -38021],
    ['a block number too far ahead', [{ blockOverrides: { number: hex(1000) } }], -38026],
    ['too many blocks', Array.from({ length: 257 }, () => ({})), -38026],
    ['an empty list of blocks', [], -32602],
    ['a list of 1,001 blocks', Array.from({ length: 1_001 }, () => ({})), -38026],
    [
      'too many calls in one list',
      [{ calls: Array.from({ length: LIMITS.simulatedCalls.value + 1 }, () => ({})) }],
      -38026,
    ],
    [
      'too many calls in all lists',
      [{ calls: Array.from({ length: LIMITS.simulatedCalls.value }, () => ({})) }, { calls: [{}] }],
      -38026,
    ],
  ])('are refused for %s', async (_, blocks, code) => {
    expect((await simulate(blocks)).error).toMatchObject({ code })
  })
})

describe('simulated calls', () => {
  const poor = { from: OTHER, to: TO, value: '0x5' }
  const sent = { from: FROM, to: TO, maxFeePerGas: hex(10n ** 10n) }
  test.each([
    ['missing funds, even without validation', [poor], {}, -38014],
    ['a nonce that is too high', [{ ...sent, nonce: '0x5' }], { validation: true }, -38011],
    ['a nonce that is too low', [sent, { ...sent, nonce: '0x0' }], { validation: true }, -38010],
    [
      'a fee cap below the base fee',
      [{ from: FROM, to: TO, maxFeePerGas: '0x0' }],
      { validation: true },
      -38012,
    ],
    ['less than the intrinsic gas', [{ from: FROM, to: TO, gas: '0x5' }], {}, -38013],
    ['more gas than a block has', [{ from: FROM, gas: hex(one.header.gasLimit + 1n) }], {}, -38015],
  ])('are refused for %s', async (_, calls, options, code) => {
    expect((await simulate([{ calls }], options)).error).toMatchObject({ code })
  })
  test('above the limit are refused in the same words, in one list or in several', async () => {
    const max = LIMITS.simulatedCalls.value
    const message = `too many calls: ${max + 1} > ${max}`
    const calls = Array.from({ length: max + 1 }, () => ({}))
    expect((await simulate([{ calls }])).error).toEqual({ code: -38026, message })
    const split = [{ calls: calls.slice(1) }, { calls: [{}] }]
    expect((await simulate(split)).error).toEqual({ code: -38026, message })
  })
  test('that create at the last nonce fail and use only the intrinsic gas', async () => {
    const stateOverrides = { [OTHER]: { nonce: '0xffffffffffffffff' } }
    const { blocks } = await simulate([{ stateOverrides, calls: [{ from: OTHER, data: '0x00' }] }])
    expect(blocks[0]!.calls[0]).toMatchObject({
      status: '0x0',
      gasUsed: hex(53_000 + 4 + 2),
      error: { code: -32015, message: 'nonce uint64 overflow' },
    })
  })
  test('get increasing nonces, and any nonce is accepted without validation', async () => {
    const calls = [sent, { ...sent, nonce: '0x1' }, sent]
    const { blocks } = await simulate([{ calls }], {
      validation: true,
      returnFullTransactions: true,
    })
    expect(blocks[0]!.transactions).toMatchObject(
      ['0x0', '0x1', '0x2'].map((nonce) => ({ nonce, from: FROM, to: TO, chainId: '0xc4' })),
    )
    const free = await simulate([{ calls: [{ from: FROM, to: TO, nonce: '0x9' }] }])
    expect(free.blocks[0]!.calls[0]).toMatchObject({ status: '0x1' })
  })
  test('that fail have their error, and the next ones continue', async () => {
    const { blocks } = await simulate([
      {
        stateOverrides: {
          [OTHER]: { code: '0x5f5ffd' },
          [bytesToHex(address(8))]: { code: '0xfe' },
        },
        calls: [
          { from: FROM, to: OTHER },
          { from: FROM, to: bytesToHex(address(8)), gas: '0x186a0' },
          { from: FROM, to: TO, value: '0x1' },
        ],
      },
    ])
    expect(blocks[0]!.calls).toMatchObject([
      { status: '0x0', error: { code: 3, message: 'execution reverted' } },
      {
        status: '0x0',
        gasUsed: '0x186a0',
        error: { code: -32015, message: 'invalid opcode: INVALID' },
      },
      { status: '0x1', gasUsed: '0x5208' },
    ])
    const sum = blocks[0]!.calls.reduce((gas, { gasUsed }) => gas + Number(gasUsed), 0)
    expect(Number(blocks[0]!.gasUsed)).toBe(sum)
  })
})

describe('an empty account from an override, as the refund shows:', () => {
  const key = hexToBytes(`0x${'11'.repeat(32)}`)
  const authority = bytesToHex(addressOfKey(key))
  const fields = { chainId: 196n, address: address(7), nonce: 0n }
  const { r, s, yParity } = sign(authorizationHash(fields), key)
  const authorization = {
    chainId: '0xc4',
    address: bytesToHex(fields.address),
    nonce: '0x0',
    r: hex(r),
    s: hex(s),
    yParity: hex(yParity),
  }
  const delegating = { from: FROM, to: TO, authorizationList: [authorization] }
  const stateOverrides = { [authority]: { balance: '0x0' } }
  const touching = { from: FROM, to: authority }
  const [FULL, REFUNDED] = [46_000, 36_800]
  const cases: [title: string, blocks: readonly object[], gasUsed: number][] = [
    ['does not exist without an override', [{ calls: [delegating] }], FULL],
    ['exists in its block', [{ stateOverrides, calls: [delegating] }], REFUNDED],
    ['exists in the next blocks', [{ stateOverrides }, {}, { calls: [delegating] }], REFUNDED],
    ['exists until a call touches it', [{ stateOverrides, calls: [touching, delegating] }], FULL],
    [
      'is gone in the block after a call touched it',
      [{ stateOverrides, calls: [touching] }, { calls: [delegating] }],
      FULL,
    ],
  ]
  test.each(cases)('%s', async (_, blocks, gasUsed) => {
    const response = await simulate(blocks)
    const calls = response.blocks.flatMap(({ calls: own }) => own)
    const last = calls.at(-1)!
    expect(Number(last.gasUsed)).toBe(gasUsed)
  })
})

test('transfers are logs on request, except those of a frame that failed', async () => {
  // The code passes 3 wei to account 7, then calls itself with other input: that call pays 4 and
  // reverts.
  const inner = `5f5f5f5f6004${push(7)}5af1 5f5ffd`
  const outer = `5f5f5f5f6003${push(7)}5af1 5f5f60015f5f30 5af1 00`
  const size = code(outer).length / 2 - 1
  const body = `36 60${(size + 4).toString(16).padStart(2, '0')} 57 ${outer} 5b ${inner}`
  const request = [
    {
      stateOverrides: { [OTHER]: { code: code(body) } },
      calls: [{ from: FROM, to: OTHER, value: '0x9', gas: '0x493e0' }],
    },
  ]
  const { blocks } = await simulate(request, { traceTransfers: true })
  const topic = (of: string) => `0x${'0'.repeat(24)}${of.slice(2)}`
  expect(blocks[0]!.calls[0]!.logs).toMatchObject([
    {
      address: ERC_7528,
      data: `0x${'9'.padStart(64, '0')}`,
      topics: [{}, topic(FROM), topic(OTHER)],
      logIndex: '0x0',
    },
    {
      address: ERC_7528,
      data: `0x${'3'.padStart(64, '0')}`,
      topics: [{}, topic(OTHER), topic(bytesToHex(address(7)))],
      logIndex: '0x1',
      blockHash: blocks[0]!.hash,
    },
  ])
  expect((await simulate(request)).blocks[0]!.calls[0]!.logs).toEqual([])
})

test('a simulated block without a trie has a zero state root', async () => {
  const { blocks } = await simulate([{ calls: [{ from: FROM, to: TO }] }])
  expect(blocks[0]!.stateRoot).toBe(hex(0).padEnd(66, '0'))
})

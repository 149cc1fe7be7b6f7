/** eth_simulateV1 where the vectors of execution-apis do not look: an OP chain, blocks in blocks, limits; the vectors are run by `npm run conformance`. */
import { describe, expect, test } from 'vitest'
import { authorizationHash } from '../../../../engine/primitives/authorization.ts'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { addressOfKey, sign } from '../../../../engine/primitives/signature.ts'
import { LIMITS } from '../../../../rpc/seam/limits.ts'
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
// A partial block: a chain in maps has no trie, and one of these is asked for none.
const one = memory.make(memory.genesis, { index: 0 })
memory.publish({ canonical: memory.genesis, pending: one })
const rpc = testRpc({ memory })

type Answer = {
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
  const { result, error } = await rpc.ask('eth_simulateV1', [{ blockStateCalls, ...options }, at])
  return { blocks: result as readonly Answer[], error }
}
/** Answers the block's number, its time and the balance of the caller. */
const WHERE = `43 5f52 42602052 3331604052 60605ff3`
const code = (text: string) => `0x${text.replaceAll(' ', '')}`

describe('blocks', () => {
  test('follow each other in number, time and state; a gap is filled', async () => {
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
  test('nothing of it stays', async () => {
    await simulate([{ calls: [{ from: FROM, to: TO, value: '0x5' }] }])
    expect(await rpc.ask('eth_getBalance', [TO, 'pending'])).toMatchObject({ result: '0x0' })
  })
  test.each([
    [
      'numbers',
      [{ blockOverrides: { number: hex(3) } }, { blockOverrides: { number: hex(3) } }],
      -38020,
    ],
    ['times', [{ blockOverrides: { time: hex(one.header.timestamp) } }], -38021],
    ['a block too far', [{ blockOverrides: { number: hex(1000) } }], -38026],
    ['too many blocks', Array.from({ length: 257 }, () => ({})), -38026],
    ['no block', [], -32602],
    ['a list of blocks that none is so long', Array.from({ length: 1_001 }, () => ({})), -38026],
    [
      'too many calls in one list',
      [{ calls: Array.from({ length: LIMITS.simulatedCalls.value + 1 }, () => ({})) }],
      -38026,
    ],
    [
      'too many calls',
      [{ calls: Array.from({ length: LIMITS.simulatedCalls.value }, () => ({})) }, { calls: [{}] }],
      -38026,
    ],
  ])('refused: %s', async (_, blocks, code) => {
    expect((await simulate(blocks)).error).toMatchObject({ code })
  })
})

describe('calls', () => {
  const poor = { from: OTHER, to: TO, value: '0x5' }
  const sent = { from: FROM, to: TO, maxFeePerGas: hex(10n ** 10n) }
  test.each([
    ['funds, always', [poor], {}, -38014],
    ['nonce too high', [{ ...sent, nonce: '0x5' }], { validation: true }, -38011],
    ['nonce too low', [sent, { ...sent, nonce: '0x0' }], { validation: true }, -38010],
    ['base fee', [{ from: FROM, to: TO, maxFeePerGas: '0x0' }], { validation: true }, -38012],
    ['intrinsic gas', [{ from: FROM, to: TO, gas: '0x5' }], {}, -38013],
    ['the gas of a block', [{ from: FROM, gas: hex(one.header.gasLimit + 1n) }], {}, -38015],
  ])('refused: %s', async (_, calls, options, code) => {
    expect((await simulate([{ calls }], options)).error).toMatchObject({ code })
  })
  test('one long list and several short ones are refused in the same words', async () => {
    const most = LIMITS.simulatedCalls.value
    const message = `too many calls: ${most + 1} > ${most}`
    const calls = Array.from({ length: most + 1 }, () => ({}))
    expect((await simulate([{ calls }])).error).toEqual({ code: -38026, message })
    const split = [{ calls: calls.slice(1) }, { calls: [{}] }]
    expect((await simulate(split)).error).toEqual({ code: -38026, message })
  })
  test('a creation at the last nonce fails, and uses no more than it costs to begin', async () => {
    const stateOverrides = { [OTHER]: { nonce: '0xffffffffffffffff' } }
    const { blocks } = await simulate([{ stateOverrides, calls: [{ from: OTHER, data: '0x00' }] }])
    expect(blocks[0]!.calls[0]).toMatchObject({
      status: '0x0',
      gasUsed: hex(53_000 + 4 + 2),
      error: { code: -32015, message: 'nonce uint64 overflow' },
    })
  })
  test('nonces go up by themselves and are free without validation', async () => {
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
  test('one that fails has its error, and the next goes on', async () => {
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

describe('an empty account that an override made', () => {
  const key = hexToBytes(`0x${'11'.repeat(32)}`)
  const authority = bytesToHex(addressOfKey(key))
  const fields = { chainId: 196n, address: address(7), nonce: 0n }
  const { r, s, yParity } = sign(authorizationHash(fields), key)
  const authorization = {
    ...{ chainId: '0xc4', address: bytesToHex(fields.address), nonce: '0x0' },
    ...{ r: hex(r), s: hex(s), yParity: hex(yParity) },
  }
  const delegating = { from: FROM, to: TO, authorizationList: [authorization] }
  const stateOverrides = { [authority]: { balance: '0x0' } }
  const touching = { from: FROM, to: authority }
  const [WHOLE, REFUNDED] = [46_000, 36_800]
  const cases: [title: string, blocks: readonly object[], gasUsed: number][] = [
    ['none', [{ calls: [delegating] }], WHOLE],
    ['is there in its block', [{ stateOverrides, calls: [delegating] }], REFUNDED],
    ['and in the next ones', [{ stateOverrides }, {}, { calls: [delegating] }], REFUNDED],
    ['until a call touches it', [{ stateOverrides, calls: [touching, delegating] }], WHOLE],
    ['is no more', [{ stateOverrides, calls: [touching] }, { calls: [delegating] }], WHOLE],
  ]
  test.each(cases)('%s', async (_, blocks, gasUsed) => {
    const answer = await simulate(blocks)
    const calls = answer.blocks.flatMap(({ calls: own }) => own)
    const last = calls.at(-1)!
    expect(Number(last.gasUsed)).toBe(gasUsed)
  })
})

test('transfers are logs on request, none of a frame that failed', async () => {
  // Passes 3 wei to account 7, then calls itself with other input: pays 4 and reverts.
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

test('there is no trie of a block that is not canonical to take roots from', async () => {
  const { blocks } = await simulate([{ calls: [{ from: FROM, to: TO }] }])
  expect(blocks[0]!.stateRoot).toBe(hex(0).padEnd(66, '0'))
})

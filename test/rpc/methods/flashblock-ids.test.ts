import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { drivenChain, GENESIS } from '../../fixtures/driven-chain.ts'
import { ADDRESSES } from '../../fixtures/view-blocks.ts'

const [A, B, C] = ADDRESSES.map(bytesToHex)
const SLOT = `0x${'01'.repeat(32)}`

/** These are all requests with a block parameter, for which `at` stands. */
const QUESTIONS: readonly (readonly [method: string, params: (at: unknown) => unknown[]])[] = [
  ['eth_getBlockByNumber', (at) => [at, true]],
  ['eth_getBlockByNumber', (at) => [at, false]],
  ['eth_getHeaderByNumber', (at) => [at]],
  ['eth_getBlockReceipts', (at) => [at]],
  ['eth_getBlockTransactionCountByNumber', (at) => [at]],
  ['eth_getTransactionByBlockNumberAndIndex', (at) => [at, '0x0']],
  ['eth_getRawTransactionByBlockNumberAndIndex', (at) => [at, '0x0']],
  ['eth_getUncleCountByBlockNumber', (at) => [at]],
  ['eth_blockNumber', (at) => [at]],
  ['eth_getBalance', (at) => [A, at]],
  ['eth_getBalance', (at) => [B, at]],
  ['eth_getCode', (at) => [B, at]],
  ['eth_getStorageAt', (at) => [C, SLOT, at]],
  ['eth_getStorageValues', (at) => [{ [A!]: [SLOT], [C!]: [SLOT] }, at]],
  ['eth_call', (at) => [{ to: A, data: '0x' }, at]],
  ['eth_estimateGas', (at) => [{ from: A, to: B }, at]],
  ['eth_createAccessList', (at) => [{ to: C }, at]],
  ['eth_simulateV1', (at) => [{ blockStateCalls: [{ calls: [{ to: A }] }] }, at]],
  ['debug_traceCall', (at) => [{ to: A }, at, { tracer: 'callTracer' }]],
  ['debug_getRawHeader', (at) => [at]],
  ['debug_getRawReceipts', (at) => [at]],
  ['eth_getLogs', (at) => [{ fromBlock: '0x3e9', toBlock: at }]],
]

function open() {
  const world = drivenChain()
  const request = async (at: unknown) => {
    const replies = []
    for (const [method, params] of QUESTIONS)
      replies.push(await world.rpc.request(method, params(at)))
    return replies
  }
  return { ...world, request }
}

const flashblockId = (number: number, index: number, more: object = {}) => ({
  flashblock: { number: `0x${number.toString(16)}`, index: `0x${index.toString(16)}`, ...more },
})

/** Each seed gives a transaction that has logs. */
const SEEDS = [10, 2, 7] as const

/** Makes three blocks of three flashblocks, and records the responses for `pending` after each. */
async function filled() {
  const world = open()
  const { driver, request } = world
  const seen = new Map<string, Awaited<ReturnType<typeof request>>>()
  const record = async () => {
    const { number, steps } = driver.pending
    seen.set(`${number} ${steps.length - 1}`, await request('pending'))
  }
  for (let block = 1; block <= 3; block++) {
    driver.payload(block * 36 + SEEDS[0])
    await record()
    for (let index = 1; index < 3; index++) {
      driver.flashblock(block * 36 + 12 * index + SEEDS[index]!)
      await record()
    }
    driver.seal()
    driver.advance()
  }
  return { ...world, seen }
}

describe('a block parameter with a flashblock', () => {
  test('gives the responses that pending had at that flashblock', async () => {
    const { rpc, driver, request, seen } = await filled()
    driver.payload(77)
    expect(seen.size).toBe(9)
    for (const [key, responses] of seen) {
      const [number, index] = key.split(' ').map(Number) as [number, number]
      expect([key, await request(flashblockId(number, index))]).toEqual([key, responses])
    }
    expect(new Set([...seen.values()].map((responses) => JSON.stringify(responses))).size).toBe(9)
    expect(rpc.bugs).toEqual([])
  })

  test('of a persisted block is refused with the oldest available flashblock', async () => {
    const { rpc, driver } = await filled()
    while (driver.persisted.length < 3) driver.slice(0)
    const said: unknown[] = []
    for (const [method, params] of QUESTIONS) {
      const { error } = await rpc.request(method, params(flashblockId(GENESIS + 2, 1)))
      expect([method, error?.code]).toEqual([method, -32001])
      said.push(error)
    }
    const { complete } = driver
    const oldest = { number: '0x3eb', index: '0x0', payloadId: complete.payloadId }
    for (const error of said)
      expect(error).toEqual({
        code: -32001,
        message:
          'flashblock 1 of block 1002 is not held any more; the oldest retained is 0 of block 1003',
        data: { reason: 'gone', oldest, newest: { ...oldest, index: '0x2' } },
      })
    const { result } = await rpc.request('eth_getBlockByNumber', [{ flashblock: oldest }, false])
    expect(result).toMatchObject({ hash: bytesToHex(complete.steps[0]!.hash) })
  })

  test('of another payload is refused with the current payload', async () => {
    const { rpc, driver } = await filled()
    driver.payload(1)
    const first = driver.pending
    driver.payload(2)
    const at = flashblockId(first.number, 0, { payloadId: first.payloadId })
    const { error } = await rpc.request('eth_getBalance', [A, at])
    expect(error).toMatchObject({ code: -32001, data: { reason: 'replaced' } })
    expect(error?.message).toContain(`is of payload ${driver.pending.payloadId} here`)
    const ours = flashblockId(first.number, 0, { payloadId: driver.pending.payloadId })
    expect(await rpc.request('eth_getBalance', [A, ours])).not.toHaveProperty('error')
  })

  test('that has not arrived is handled like a block that has not arrived', async () => {
    const { rpc, driver } = await filled()
    driver.payload(4)
    for (const at of [
      flashblockId(GENESIS + 4, 1),
      flashblockId(GENESIS + 3, 3),
      flashblockId(GENESIS + 9, 0),
    ]) {
      const { number, index } = at.flashblock
      expect((await rpc.request('eth_getBlockByNumber', [at, false])).result).toBeNull()
      expect((await rpc.request('eth_getBlockReceipts', [at])).result).toBeNull()
      expect((await rpc.request('eth_call', [{ to: A }, at])).error).toEqual({
        code: -32000,
        message: `header not found: this node does not have flashblock ${Number(index)} of block ${Number(number)}`,
      })
      expect((await rpc.request('eth_getLogs', [{ toBlock: at }])).error?.code).toBe(-32602)
    }
  })

  test('names a flashblock of a canonical block on the standard endpoint', async () => {
    const { rpc, driver, seen } = await filled()
    driver.payload(4)
    const standard = { endpoint: 'standard' } as const
    const request = (at: unknown) => rpc.request('eth_getBlockByNumber', [at, true], standard)
    expect(await request(flashblockId(GENESIS + 3, 1))).toEqual(seen.get(`${GENESIS + 3} 1`)![0])
    expect((await request(flashblockId(GENESIS + 4, 0))).result).toBeNull()
  })
})

describe('a method without support for flashblock parameters', () => {
  test.each([
    ['eth_newFilter', [{ toBlock: flashblockId(1003, 1) }], -32602],
    ['eth_getProof', [A, [], flashblockId(1003, 1)], -32000],
    ['eth_getBalance', [A, { flashblock: { number: 1003 } }], -32602],
  ])('refuses them: %s', async (method, params, code) => {
    const { rpc } = await filled()
    expect((await rpc.request(method, params)).error?.code).toBe(code)
  })
})

test('eth_getLogs includes both flashblocks that bound its range', async () => {
  const { rpc, driver } = await filled()
  const logs = async (filter: object) => {
    const { result, error } = await rpc.request('eth_getLogs', [filter])
    expect(error).toBeUndefined()
    return result as { transactionIndex: string; blockNumber: string }[]
  }
  const all = await logs({ fromBlock: '0x3e9', toBlock: '0x3eb' })
  const number = driver.complete.number
  const parts = []
  parts.push(await logs({ fromBlock: '0x3e9', toBlock: flashblockId(number - 1, 1) }))
  parts.push(
    await logs({ fromBlock: flashblockId(number - 1, 2), toBlock: flashblockId(number, 0) }),
  )
  parts.push(await logs({ fromBlock: flashblockId(number, 1), toBlock: flashblockId(number, 1) }))
  parts.push(await logs({ fromBlock: flashblockId(number, 2) }))
  const locationOf = ({ blockNumber, transactionIndex }: (typeof all)[number]) =>
    `${blockNumber} ${transactionIndex}`
  expect(parts.flat().map(locationOf)).toEqual(all.map(locationOf))
  expect(parts.map(({ length }) => length)).toEqual([11, 5, 2, 3])
  const backwards = { fromBlock: flashblockId(number, 2), toBlock: flashblockId(number, 1) }
  expect((await rpc.request('eth_getLogs', [backwards])).error).toMatchObject({
    message: 'invalid block range params',
  })
})

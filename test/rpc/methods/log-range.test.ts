/**
 * A log query that takes too long or finds too much gets a strictly smaller range, wherever one
 * exists.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { timedOut } from '../../../rpc/core/errors.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { eth_getLogs } from '../../../rpc/methods/log.ts'
import { lateData } from '../../../rpc/methods/shared/log-range.ts'
import { referenceEngine as engine } from '../../fixtures/engine.ts'
import { fourBlocks } from '../../fixtures/four-blocks.ts'
import { CHAIN as chain } from '../../fixtures/producer.ts'
import { testRpc } from '../../fixtures/rpc.ts'

const range = (fromBlock: number, toBlock: number) => ({
  suggestedRange: {
    fromBlock: `0x${fromBlock.toString(16)}`,
    toBlock: `0x${toBlock.toString(16)}`,
  },
})

describe('a log query that times out', () => {
  const cases: [from: number, to: number, firstLeftOut: number | undefined, expected: unknown][] = [
    [0, 3, undefined, range(0, 1)],
    [0, 3, 0, range(0, 1)],
    [0, 3, 1, range(0, 0)],
    [10, 100, 50, range(10, 29)],
    [5, 6, 6, range(5, 5)],
    [5, 6, undefined, range(5, 5)],
    [5, 5, undefined, undefined],
  ]
  test.each(cases)(
    'from %i to %i, searched up to %s, gets the expected smaller range',
    (from, to, firstLeftOut, expected) => {
      const left = firstLeftOut === undefined ? undefined : BigInt(firstLeftOut)
      expect(lateData({ fromBlock: BigInt(from), toBlock: BigInt(to) }, left)).toEqual(expected)
    },
  )

  test('gets a smaller range of at least one block, if it has more than one block', () => {
    const height = fc.bigInt({ min: 0n, max: 1_000_000n })
    fc.assert(
      fc.property(height, height, height, (fromBlock, width, done) => {
        const toBlock = fromBlock + width + 1n
        const { suggestedRange } = lateData(
          { fromBlock, toBlock },
          fromBlock + (done % (width + 2n)),
        )!
        const end = BigInt(String(suggestedRange.toBlock))
        expect(BigInt(String(suggestedRange.fromBlock))).toBe(fromBlock)
        expect(end >= fromBlock && end < toBlock).toBe(true)
      }),
    )
  })

  test('gets the range that the worker had searched', () => {
    const { memory } = fourBlocks()
    const { view } = memory.lease('flashblocks')
    let polls = 0
    const isExpired = () => polls++ === 2
    const context = { view, chain, engine, limits: DEFAULT_LIMITS, isExpired }
    expect(() => eth_getLogs.invoke(context, [{ fromBlock: '0x0', toBlock: '0x3' }])).toThrow(
      expect.objectContaining({ code: -32002, data: range(0, 0) }),
    )
  })

  const times = { elapsedMs: 10_001, limitMs: 10_000, queuedMs: 10_000 }
  const late = (data: Parameters<typeof timedOut>[0]) =>
    testRpc({
      memory: fourBlocks().memory,
      executor: () => ({ execute: async () => ({ error: timedOut(data).toObject() }) }),
    })
  const requested: [name: string, query: object, more: object | undefined][] = [
    ['a range', { fromBlock: '0x0', toBlock: '0x3' }, range(0, 1)],
    ['a range by tags', { fromBlock: 'earliest' }, range(0, 1)],
    ['one block', { fromBlock: '0x2', toBlock: '0x2' }, undefined],
    ['a block by its hash', { blockHash: `0x${'11'.repeat(32)}` }, undefined],
    ['blocks that are not there', { fromBlock: '0x8', toBlock: '0x9' }, undefined],
  ]
  test.each(requested)(
    'gets half of its range, or no range, if no worker has searched: %s',
    async (_, query, more) => {
      const { error } = await late(times).request('eth_getLogs', [query])
      expect(error).toEqual({
        code: -32002,
        message: 'request timed out',
        data: { ...times, ...more },
      })
    },
  )
  test('gets the range of the worker, when there is one', async () => {
    const { error } = await late({ ...times, ...range(0, 0) }).request('eth_getLogs', [
      { fromBlock: '0x0' },
    ])
    expect(error?.data).toEqual({ ...times, ...range(0, 0) })
  })
})

test('a block that exceeds the response size does not hide the blocks before it', async () => {
  // Block 1 has two logs.
  const rpc = testRpc({ memory: fourBlocks().memory, limits: { responseBytes: 600 } })
  const logs = (fromBlock: string, toBlock: string) =>
    rpc.request('eth_getLogs', [{ fromBlock, toBlock }])
  expect((await logs('0x0', '0x3')).error).toMatchObject({ code: -32005, data: range(0, 0) })
  expect((await logs('0x0', '0x0')).result).toEqual([])
  expect((await logs('0x1', '0x3')).error).toMatchObject({ code: -32005, data: range(1, 1) })
  expect((await logs('0x1', '0x1')).error).toMatchObject({ code: -32003 })
})

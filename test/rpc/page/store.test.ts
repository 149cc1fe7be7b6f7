/** The page's store is tested without a browser. */
import { describe, expect, test } from 'vitest'
import { boxesOf, shareAt, stepOf, ticks } from '../../../rpc/page/axis.ts'
import {
  bytes,
  clock,
  ends,
  gas,
  ms,
  percent,
  rate,
  short,
  tokens,
} from '../../../rpc/page/format.ts'
import { bars, mean, quantile, since } from '../../../rpc/page/histogram.ts'
import type {
  FlashblockAdded,
  Hello,
  Histogram,
  LiveMessage,
  PageStats,
} from '../../../rpc/page/messages.ts'
import {
  applyAll,
  EMPTY,
  MAX_ROWS,
  type Page,
  statsAgo,
  tileStateOf,
} from '../../../rpc/page/store.ts'

const hello = (run = 'a'): Hello => ({
  type: 'hello',
  version: '1',
  run,
  chainId: '196',
  chainName: 'xlayer',
  mode: 'dev',
  blockMs: 1_000,
  isInside: false,
  hasControls: true,
  now: 5_000,
})
const added = (
  number: number,
  index: number,
  more: Partial<FlashblockAdded> = {},
): FlashblockAdded => ({
  type: 'flashblock',
  number,
  index,
  payloadId: `0x${number}`,
  transactions: 2,
  gasUsed: 100 * (index + 1),
  gasLimit: 5_000,
  at: 1_000 * number + 200 * index,
  publishMs: 3,
  executeMs: 1,
  ...more,
})
const pageAfter = (...messages: readonly LiveMessage[]): Page =>
  applyAll(EMPTY, [hello(), ...messages], 4_000)
const tiles = (page: Page, number: number) =>
  page.rows
    .find((row) => row.number === number)
    ?.tiles.map(({ index, gas: used, isReplaced }) => [index, used, isReplaced])

const sealed = {
  type: 'sealed',
  number: 7,
  hash: '0x1',
  flashblocks: 1,
  transactions: 3,
  gasUsed: 2e6,
  at: 8_000,
} as const

describe('the rows of the page', () => {
  test('list flashblocks in their blocks, newest block first, each with its own gas', () => {
    const page = pageAfter(added(7, 0), added(7, 1), added(8, 0))
    expect(page.rows.map(({ number }) => number)).toEqual([8, 7])
    expect(tiles(page, 7)).toEqual([
      [0, 100, false],
      [1, 100, false],
    ])
    expect(page.clockOffset).toBe(1_000)
  })
  test('contain a repeated flashblock once', () => {
    expect(tiles(pageAfter(added(7, 0), added(7, 0)), 7)).toHaveLength(1)
  })
  test('mark a removed flashblock as replaced, beside its replacement', () => {
    const page = pageAfter(
      added(7, 0),
      { type: 'removed', number: 7, index: 0, payloadId: '0x7' },
      added(7, 0, { payloadId: '0x77' }),
    )
    expect(tiles(page, 7)).toEqual([
      [0, 100, true],
      [0, 100, false],
    ])
  })
  test('contain a payload that returns beside its replaced flashblocks', () => {
    const removed = { type: 'removed', number: 7, index: 0, payloadId: '0x7' } as const
    expect(tiles(pageAfter(added(7, 0), removed, added(7, 0)), 7)).toEqual([
      [0, 100, true],
      [0, 100, false],
    ])
  })
  test('mark a flashblock without an arrival time as late once its block is sealed', () => {
    const untimed = added(7, 0, { at: undefined })
    const tileState = ({ rows: [row] }: Page) => tileStateOf(row!, row!.tiles[0]!)
    expect(tileState(pageAfter(untimed))).toBe('shown')
    expect(tileState(pageAfter(untimed, sealed))).toBe('late')
    expect(tileState(pageAfter(untimed, added(7, 0), sealed))).toBe('shown')
    expect(tiles(pageAfter(untimed, added(7, 0)), 7)).toHaveLength(1)
  })
  test('have the seal of a block until one of its flashblocks is removed', () => {
    const page = pageAfter(added(7, 0), sealed)
    expect(page.rows[0]?.sealed?.transactions).toBe(3)
    expect(page.load).toEqual({ at: [8], transactions: [3], mgas: [2] })
    const removed = applyAll(page, [{ type: 'removed', number: 7, index: 0, payloadId: '0x7' }], 0)
    expect(removed.rows[0]?.sealed).toBeUndefined()
  })
  test('have each event at the newest block', () => {
    const happened = { type: 'happened', what: 'feed_held', at: 7_100, by: 1 } as const
    expect(pageAfter(happened).rows).toEqual([])
    expect(
      pageAfter(added(7, 0), added(8, 0), happened).rows.map(({ markers }) => markers.length),
    ).toEqual([1, 0])
  })
  test('are limited in number', () => {
    const many = Array.from({ length: 3 * MAX_ROWS }, (_, number) => added(number, 0))
    expect(pageAfter(...many).rows).toHaveLength(MAX_ROWS)
  })
  test('are cleared on a restart of the node, but not on a reconnect', () => {
    const page = pageAfter(added(7, 0), stats(1))
    expect(applyAll(page, [hello('b')], 0)).toMatchObject({ rows: [], stats: undefined })
    expect(applyAll(page, [hello('a')], 0)).toMatchObject({ rows: [], stats: { at: 1_000 } })
  })
})

const empty: Histogram = { bounds: [], counts: [], count: 0, sum: 0 }
function stats(second: number, calls = 0): PageStats {
  const method: Histogram = { bounds: [0.1], counts: [calls], count: calls, sum: 0 }
  return {
    type: 'figures',
    at: 1_000 * second,
    heads: {},
    ageMs: 0,
    status: 'ready',
    reasons: [],
    waiting: {},
    publish: empty,
    execute: empty,
    shown: empty,
    sealed: empty,
    promises: {},
    inside: {
      calls: { eth_call: method },
      errors: { eth_call: second },
      codes: {},
      boundCodes: { limited: 1, timeout: 2 },
      queuedFor: {},
      ranFor: {},
      queued: {},
      threads: {},
      front: {},
      holds: {},
      feed: {},
      refusedPoints: 0,
      mishaps: {},
      events: {},
      residentBytes: 2 ** 20,
      heaps: {},
      cpuSeconds: second / 2,
      upstreams: [],
      feeds: [],
    },
  }
}

describe('the stats of the page', () => {
  test('give rates per second', () => {
    const page = pageAfter(stats(1, 10), stats(3, 30))
    expect(page.series).toEqual({
      at: [3],
      requests: [10],
      errors: [1],
      residentMb: [1],
      cpu: [50],
    })
  })
  test('are retained for a minute, one per five seconds', () => {
    const page = pageAfter(...Array.from({ length: 200 }, (_, second) => stats(second)))
    expect(page.snapshots.map(({ at }) => at / 1_000)).toEqual([
      135, 140, 145, 150, 155, 160, 165, 170, 175, 180, 185, 190, 195,
    ])
    expect(statsAgo(page, 10)?.at).toBe(185_000)
    expect(statsAgo(pageAfter(stats(1)), 10)).toBeUndefined()
    expect(page.series.at.length).toBeLessThanOrEqual(300)
  })
})

describe('a histogram', () => {
  const now: Histogram = { bounds: [0.01, 0.02, 0.1], counts: [10, 30, 30], count: 40, sum: 1.2 }
  test('gives a quantile between the bounds of its bucket', () => {
    expect(quantile(now, 0.5)).toBeCloseTo(15)
    expect(quantile(now, 0.25)).toBeCloseTo(10)
    expect(quantile(now, 0.99)).toBe(Number.POSITIVE_INFINITY)
    expect(quantile(empty, 0.5)).toBeUndefined()
    expect(mean(now)).toBeCloseTo(30)
  })
  test('gives the counts between two samples', () => {
    const before: Histogram = { bounds: [0.01, 0.02, 0.1], counts: [4, 8, 8], count: 8, sum: 0.2 }
    expect(bars(since(now, before)).map(({ count }) => count)).toEqual([6, 16, 0, 10])
    expect(since(before, now)).toBe(before)
    expect(since(now, undefined)).toBe(now)
  })
})

describe('the time axis of a row', () => {
  const [row] = pageAfter(added(7, 0), added(7, 1), added(7, 3)).rows
  const scale = { blockMs: 1_000, step: 200 }
  test('has a hole for a missing flashblock', () => {
    const found = boxesOf(row!, scale).map(({ left, width }) => [left * 1_120, width * 1_120])
    expect(found.map(([left]) => Math.round(left!))).toEqual([0, 200, 600])
    expect(found.every(([, width]) => width! <= 200)).toBe(true)
  })
  test('has gas as a share of what a flashblock may use', () => {
    expect(boxesOf(row!, scale)[0]?.load).toBeCloseTo(0.1)
  })
  test('takes its step from the flashblocks so far', () => {
    expect(stepOf([row!], 1_000)).toBe(400)
    expect(stepOf([], 1_000)).toBe(200)
  })
  test('has no position for a time outside its block', () => {
    expect(shareAt(row!, 7_560, 1_000)).toBeCloseTo(0.5)
    expect(shareAt(row!, 9_000, 1_000)).toBeUndefined()
  })
  test('has a line every 200 ms', () =>
    expect(ticks(1_000)).toEqual([0, 200, 400, 600, 800, 1_000]))
})

test.each<[string, string]>([
  [ms(3.24), '3.2 ms'],
  [ms(1_234), '1.23 s'],
  [ms(undefined), '–'],
  [short(12_345), '12.3 k'],
  [short(999), '999'],
  [gas(420_000), '420 k gas'],
  [gas(2_500_000), '2.50 Mgas'],
  [bytes(2 ** 20 * 1_536), '1.50 GB'],
  [percent(1), '100 %'],
  [percent(0.9987), '99.87 %'],
  [rate(0.25), '0.3'],
  [ends(`0x${'ab'.repeat(32)}`), '0xababab…ababab'],
  [tokens(1_500_000_000_000_000_000n), '1.5'],
  [tokens(10_000n * 10n ** 18n), '10,000'],
  [clock(new Date(2026, 0, 2, 3, 4, 5, 6).getTime()), '03:04:05.006'],
])('a number is written as %s', (text, expected) => expect(text).toBe(expected))

/** The txpool: order, replacement, limits, offers and returns. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { keyOf } from '../../../engine/txpool/types.ts'
import {
  addressOfSender,
  at,
  best,
  CHAIN_ID,
  keyOfSender,
  names,
  PlainHead,
  settled,
  testPool,
  transfer,
  want,
} from '../../fixtures/txpool.ts'

const FREE = { maxFeePerGas: 0n, maxPriorityFeePerGas: 0n }

describe('a replacement', () => {
  const cases: [fee: bigint, tip: bigint, isAccepted: boolean][] = [
    [1_100n, 110n, true],
    [1_099n, 110n, false],
    [1_100n, 109n, false],
    [5_000n, 100n, false],
    [5_000n, 5_000n, true],
  ]
  test.each(cases)(
    'of 1000/100 by %d/%d is accepted: %s',
    (maxFeePerGas, maxPriorityFeePerGas, isAccepted) => {
      const { pool, head } = testPool()
      const old = transfer(0, 0, { maxFeePerGas: 1_000n, maxPriorityFeePerGas: 100n })
      const other = transfer(0, 0, { maxFeePerGas, maxPriorityFeePerGas })
      pool.submit(old.raw, at(head))
      const result = pool.submit(other.raw, at(head))
      if (isAccepted) expect(result).toEqual({ hash: other.hash })
      else
        expect(result).toEqual({
          error: {
            code: 'replacementUnderpriced',
            why: 'input',
            message: 'replacement transaction underpriced',
          },
        })
      expect(names(best(pool, want()))).toEqual(names([isAccepted ? other : old]))
      expect(pool.counts()).toEqual({ pending: 1, queued: 0 })
    },
  )

  /** The minimum is the floor of 110 % and strictly more, like in go-ethereum's legacypool. */
  const rounded: [old: readonly [bigint, bigint], now: readonly [bigint, bigint], is: boolean][] = [
    [[100_000_000_000n, 15n], [110_000_000_000n, 16n], true],
    [[100_000_000_005n, 15n], [110_000_000_005n, 16n], true],
    [[100_000_000_005n, 15n], [110_000_000_004n, 16n], false],
    [[100_000_000_000n, 15n], [110_000_000_000n, 15n], false],
    [[19n, 19n], [20n, 20n], true],
    [[19n, 19n], [20n, 19n], false],
    [[9n, 9n], [10n, 10n], true],
    [[10n, 0n], [11n, 0n], false],
    [[10n, 0n], [11n, 1n], true],
  ]
  test.each(rounded)('of %o by %o is accepted: %s', (old, now, isAccepted) => {
    const { pool, head } = testPool()
    const fees = ([maxFeePerGas, maxPriorityFeePerGas]: readonly [bigint, bigint]) => ({
      maxFeePerGas,
      maxPriorityFeePerGas,
    })
    pool.submit(transfer(0, 0, fees(old)).raw, at(head))
    const other = transfer(0, 0, fees(now))
    const result = pool.submit(other.raw, at(head))
    expect(result).toEqual(
      isAccepted
        ? { hash: other.hash }
        : {
            error: {
              code: 'replacementUnderpriced',
              why: 'input',
              message: 'replacement transaction underpriced',
            },
          },
    )
  })

  test('of a legacy transaction has a price that is rounded down as well', () => {
    const { pool, head } = testPool()
    const legacy = (gasPrice: bigint, value: bigint) =>
      signTransaction(
        {
          type: 0,
          chainId: CHAIN_ID,
          nonce: 0n,
          to: addressOfSender(1),
          value,
          gasLimit: 21_000n,
          input: new Uint8Array(0),
          gasPrice,
        },
        keyOfSender(0),
      )
    pool.submit(legacy(1_005n, 1n).raw, at(head))
    expect(pool.submit(legacy(1_104n, 2n).raw, at(head))).toHaveProperty('error')
    expect(pool.submit(legacy(1_105n, 2n).raw, at(head))).toHaveProperty('hash')
  })

  test('of a zero fee by a zero fee is refused', () => {
    const { pool, head } = testPool()
    pool.submit(transfer(0, 0, FREE).raw, at(head), { isListed: true })
    const resubmitted = transfer(0, 0, { ...FREE, value: 2n })
    expect(pool.submit(resubmitted.raw, at(head))).toHaveProperty('error')
  })
})

describe('the txpool', () => {
  test('offers the best tip first, then the oldest, with nonces in order', () => {
    const { pool, head } = testPool()
    const low = transfer(0, 0, { maxPriorityFeePerGas: 1n })
    const lowNext = transfer(0, 1, { maxPriorityFeePerGas: 900n })
    const tieFirst = transfer(1, 0, { maxPriorityFeePerGas: 5n })
    const tieSecond = transfer(2, 0, { maxPriorityFeePerGas: 5n })
    const capped = transfer(3, 0, { maxFeePerGas: 12n, maxPriorityFeePerGas: 12n })
    const gap = transfer(4, 1, { maxPriorityFeePerGas: 999n })
    const belowBaseFee = transfer(5, 0, { maxFeePerGas: 9n, maxPriorityFeePerGas: 9n })
    for (const { raw } of [lowNext, low, tieFirst, tieSecond, capped, gap, belowBaseFee])
      expect(pool.submit(raw, at(head))).toHaveProperty('hash')
    expect(names(best(pool, want()))).toEqual(names([tieFirst, tieSecond, capped, low, lowNext]))
    expect(pool.counts()).toEqual({ pending: 6, queued: 1 })
  })

  test('offers within gas and count, without the later nonces of what does not fit', () => {
    const { pool, head } = testPool()
    const large = transfer(0, 0, { gasLimit: 100_000n, maxPriorityFeePerGas: 9n })
    const afterLarge = transfer(0, 1, { maxPriorityFeePerGas: 9n })
    const small = [1, 2, 3].map((sender) => transfer(sender, 0))
    for (const { raw } of [large, afterLarge, ...small]) pool.submit(raw, at(head))
    expect(names(best(pool, want({ gas: 63_000n, count: 2 })))).toEqual(names(small.slice(0, 2)))
  })

  test('offers zero fees only when the whitelist contract is there', () => {
    const { pool, head } = testPool()
    const listed = { isListed: true }
    expect(pool.submit(transfer(0, 0, FREE).raw, at(head), listed)).toHaveProperty('hash')
    expect(best(pool, want())).toEqual([])
    head.isGaslessLive = true
    head.balances.set(keyOf(addressOfSender(1)), 1n)
    expect(pool.submit(transfer(1, 0, FREE).raw, at(head), listed)).toHaveProperty('hash')
    expect(names(best(pool, want()))).toEqual(names([transfer(1, 0, FREE)]))
  })

  test('keeps back unwanted gasless transactions and those behind them', () => {
    const { pool, head } = testPool()
    head.isGaslessLive = true
    const [free, later, paying] = [transfer(0, 0, FREE), transfer(0, 1), transfer(1, 0)]
    for (const { raw } of [free, later, paying]) pool.submit(raw, at(head), { isListed: true })
    const offered = pool.best(want({ isGaslessWanted: false }))
    expect(names(offered.transactions)).toEqual(names([paying]))
    expect(offered.hasMore).toBe(false)
    expect(names(best(pool, want()))).toEqual(names([free, later]))
  })

  test('requires the whitelist for a free call without other faults', () => {
    const { pool, head } = testPool()
    const free = transfer(0, 0, FREE)
    expect(pool.submit(free.raw, at(head))).toEqual({ unlisted: free })
    expect(pool.get(free.hash)).toBeUndefined()
    const poor = transfer(0, 0, { ...FREE, value: 10n ** 30n })
    expect(pool.submit(poor.raw, at(head))).toHaveProperty('error')
    expect(pool.submit(transfer(0, 0).raw, at(head))).toHaveProperty('hash')
    expect(
      pool.submit(transfer(1, 0, { ...FREE, to: undefined }).raw, at(head)),
    ).not.toHaveProperty('unlisted')
  })

  test('notifies listeners of each transaction once, when no nonce is missing', () => {
    const { pool, head } = testPool()
    const received: string[] = []
    const stop = pool.onPending((hash) => received.push(keyOf(hash)))
    const [a, b, c, d] = [0, 1, 2, 3].map((nonce) => transfer(0, nonce))
    pool.submit(c!.raw, at(head))
    pool.submit(b!.raw, at(head))
    expect(received).toEqual([])
    pool.submit(a!.raw, at(head))
    expect(received).toEqual(names([a!, b!, c!]))
    stop()
    pool.submit(d!.raw, at(head))
    expect(received).toHaveLength(3)
  })

  test('notifies them once of a transaction that was in a flashblock before', () => {
    const { pool, head } = testPool()
    const received: string[] = []
    pool.onPending((hash) => received.push(keyOf(hash)))
    const [a, b, c] = [transfer(0, 0), transfer(0, 1), transfer(1, 0)]
    pool.include(a, 7)
    head.nonces.set(keyOf(a.from), 1n)
    const taken = { isProven: true, isListed: true, isTaken: true }
    expect(pool.submit(a.raw, at(head))).toHaveProperty('error')
    // No listener learns that the transaction was sent here.
    expect(received).toEqual([])
    pool.submit(a.raw, at(head), taken)
    pool.submit(a.raw, at(head), taken)
    expect(received).toEqual(names([a]))
    // The transaction was reported when it waited, or before its flashblock was read.
    pool.submit(b.raw, at(head), taken)
    pool.include(b, 7)
    head.nonces.set(keyOf(a.from), 2n)
    pool.submit(b.raw, at(head), taken)
    pool.submit(c.raw, at(head), taken)
    expect(received).toEqual(names([a, b, c]))
  })
})

describe('the limits of the txpool', () => {
  test('bound a sender in total and behind a missing nonce', () => {
    const { pool, head } = testPool({ perSender: 3, queuedPerSender: 1 })
    expect(pool.submit(transfer(0, 5).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(0, 6).raw, at(head))).toEqual({
      error: {
        code: 'accountLimit',
        why: 'input',
        message: 'account limit exceeded: pooled 1 txs',
      },
    })
    expect(pool.submit(transfer(0, 0).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(0, 1).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(0, 2).raw, at(head))).toEqual({
      error: {
        code: 'accountLimit',
        why: 'input',
        message: 'account limit exceeded: pooled 3 txs',
      },
    })
  })

  test('drop far-future nonces first, and then the cheapest', () => {
    const { pool, head } = testPool({ total: 3 })
    const far = transfer(0, 50, { maxPriorityFeePerGas: 500n })
    const closer = transfer(1, 2, { maxPriorityFeePerGas: 500n })
    const cheap = transfer(2, 0, { maxPriorityFeePerGas: 2n })
    for (const { raw } of [far, closer, cheap]) pool.submit(raw, at(head))
    expect(pool.submit(transfer(3, 9).raw, at(head))).toHaveProperty('hash')
    expect(pool.get(far.hash)).toBeUndefined()
    expect(pool.submit(transfer(4, 90).raw, at(head))).toEqual({
      error: { code: 'full', why: 'rejected', message: 'txpool is full' },
    })
    expect(pool.submit(transfer(4, 0).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(5, 0, { maxPriorityFeePerGas: 3n }).raw, at(head))).toHaveProperty(
      'hash',
    )
    expect([closer.hash, cheap.hash].map((hash) => pool.get(hash) !== undefined)).toEqual([
      false,
      true,
    ])
    expect(pool.submit(transfer(6, 0, { maxPriorityFeePerGas: 1n }).raw, at(head))).toEqual({
      error: { code: 'underpriced', why: 'input', message: 'transaction underpriced' },
    })
    expect(pool.submit(transfer(6, 0, { maxPriorityFeePerGas: 8n }).raw, at(head))).toHaveProperty(
      'hash',
    )
    expect(pool.counts()).toEqual({ pending: 3, queued: 0 })
  })

  test('bound the bytes', () => {
    const { pool, head } = testPool({ totalBytes: 400 })
    for (let sender = 0; sender < 9; sender++)
      pool.submit(transfer(sender, 0, { maxPriorityFeePerGas: BigInt(sender + 1) }).raw, at(head))
    expect(pool.stats().bytes).toBeLessThanOrEqual(400)
    expect(pool.get(transfer(8, 0, { maxPriorityFeePerGas: 9n }).hash)).toBeDefined()
  })

  test('bound the age', () => {
    const { pool, head, clock } = testPool({ expiryMs: 1_000 })
    pool.submit(transfer(0, 0).raw, at(head))
    clock.ms = 600
    pool.submit(transfer(1, 0).raw, at(head))
    clock.ms = 1_100
    pool.settle(settled({ number: 1, index: 0 }, 1))
    expect([0, 1].map((sender) => pool.get(transfer(sender, 0).hash) !== undefined)).toEqual([
      false,
      true,
    ])
  })
})

describe('a selected transaction', () => {
  test('is selected again only after its flashblock was published without it', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(0, 1)]
    pool.submit(a.raw, at(head))
    expect(names(best(pool, want({ target: { number: 5, index: 2 } })))).toEqual(names([a]))
    pool.submit(b.raw, at(head))
    expect(names(best(pool, want({ target: { number: 5, index: 3 } })))).toEqual(names([b]))
    pool.settle(settled({ number: 5, index: 1 }, 4))
    expect(best(pool, want())).toEqual([])
    pool.settle(settled({ number: 5, index: 2 }, 4))
    expect(names(best(pool, want({ target: { number: 5, index: 4 } })))).toEqual(names([a]))
    pool.settle(settled({ number: 6, index: 0 }, 4))
    expect(names(best(pool, want()))).toEqual(names([a, b]))
  })

  test('is not selected for a request that excludes it', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(0, 1)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    expect(names(best(pool, want({ excluded: [a.hash] })))).toEqual(names([b]))
  })

  test('can be selected again at once after it was given back', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(1, 0)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    expect(best(pool, want())).toHaveLength(2)
    pool.takeBack([b.hash, transfer(2, 0).hash])
    expect(names(best(pool, want()))).toEqual(names([b]))
  })

  test('cannot be replaced, because the sequencer may have executed it', () => {
    const { pool, head } = testPool()
    const old = transfer(0, 0)
    const dearer = transfer(0, 0, { maxFeePerGas: 2_000n, maxPriorityFeePerGas: 2n })
    pool.submit(old.raw, at(head))
    best(pool, want())
    expect(pool.submit(dearer.raw, at(head))).toEqual({
      error: {
        code: 'nonceTooLow',
        why: 'input',
        message: 'nonce too low: next nonce 1, tx nonce 0',
      },
    })
    pool.takeBack([old.hash])
    expect(pool.submit(dearer.raw, at(head))).toEqual({ hash: dearer.hash })
  })

  test('can be replaced after it was excluded and given back', () => {
    const { pool, head } = testPool()
    const old = transfer(0, 0)
    const dearer = transfer(0, 0, { maxFeePerGas: 2_000n, maxPriorityFeePerGas: 2n })
    pool.submit(old.raw, at(head))
    best(pool, want())
    // Another request excluded it meanwhile, and then everything is requested again.
    best(pool, want({ excluded: [old.hash] }))
    pool.takeBack([old.hash])
    expect(best(pool, want())).toHaveLength(1)
    expect(pool.submit(dearer.raw, at(head))).toEqual({ hash: dearer.hash })
    expect(pool.get(old.hash)).toBeUndefined()
  })

  const more: [name: string, options: Parameters<typeof want>[0], hasMore: boolean][] = [
    ['all', {}, false],
    ['a given number', { count: 2 }, true],
    ['those that fit the gas', { gas: 43_000n }, true],
    ['none, because all pay too little', { baseFee: 10_000n }, false],
  ]
  test.each(more)('comes with whether others are left, for %s', (_, options, hasMore) => {
    const { pool, head } = testPool()
    for (const sender of [0, 1, 2]) pool.submit(transfer(sender, 0).raw, at(head))
    expect(pool.best(want(options)).hasMore).toBe(hasMore)
  })

  test('counts as news when it can be selected, for the first time or again', () => {
    const { pool, head, news } = testPool()
    const counted = (act: () => void) => {
      const before = news.count
      act()
      return news.count - before
    }
    const submit = (nonce: number) => counted(() => pool.submit(transfer(0, nonce).raw, at(head)))
    // Nonce 1 waits for 0.
    expect([submit(1), submit(0)]).toEqual([0, 2])
    best(pool, want({ target: { number: 5, index: 2 } }))
    const settle = (index: number) => counted(() => pool.settle(settled({ number: 5, index }, 4)))
    expect([settle(1), settle(2), settle(3)]).toEqual([0, 1, 0])
  })

  test('is taken for lost after a while', () => {
    const { pool, head, clock } = testPool({ selectedMs: 100 })
    pool.submit(transfer(0, 0).raw, at(head))
    best(pool, want({ target: { number: 9, index: 0 } }))
    clock.ms = 101
    pool.settle(settled({ number: 1, index: 0 }, 1))
    expect(best(pool, want())).toHaveLength(1)
  })

  test('is dropped when rejected, unless its nonce is used at the sequencer only', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(1, 0)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    best(pool, want())
    pool.rejected([
      { hash: a.hash, reason: 'insufficient funds for gas * price + value: have 0 want 1' },
      { hash: b.hash, reason: 'nonce too low: next nonce 1, tx nonce 0' },
    ])
    expect([a, b].map(({ hash }) => pool.isExpected(hash))).toEqual([false, true])
    head.nonces.set(keyOf(addressOfSender(1)), 1n)
    pool.settle(settled({ number: 2, index: 0 }, 1, head))
    expect(pool.isExpected(b.hash)).toBe(false)
  })

  test('that is rejected for good is refused for a while, with the reason', () => {
    const { pool, head, clock } = testPool({ refused: 1, refusedMs: 100 })
    const [a, b] = [transfer(0, 0), transfer(1, 0)]
    const resubmitted = ({ raw }: { readonly raw: Uint8Array }) => pool.submit(raw, at(head))
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    pool.rejected([{ hash: a.hash, reason: 'too slow', isFinal: true }])
    const message = 'transaction was dropped: too slow'
    expect(resubmitted(a)).toEqual({ error: { code: 'dropped', why: 'rejected', message } })
    expect(pool.get(a.hash)).toBeUndefined()
    clock.ms = 100
    expect(resubmitted(a)).toEqual({ hash: a.hash })
    const all = [a, b].map(({ hash }) => ({ hash, reason: 'too slow', isFinal: true }))
    pool.rejected(all)
    // Only one rejection is remembered.
    expect([a, b].map((one) => 'error' in resubmitted(one))).toEqual([false, true])
  })

  test('is dropped when its nonce was used elsewhere', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(0, 1)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    head.nonces.set(keyOf(addressOfSender(0)), 1n)
    expect(names(best(pool, want({ head })))).toEqual(names([b]))
    expect(pool.isExpected(a.hash)).toBe(false)
  })
})

describe('an included transaction', () => {
  test('is retained until canonical is past it, and returns after a flush', () => {
    const { pool, head, journal } = testPool({ retentionBlocks: 2 })
    const [a, b, c] = [transfer(0, 0), transfer(0, 1), transfer(0, 2)]
    for (const { raw } of [a, b, c]) pool.submit(raw, at(head))
    best(pool, want({ count: 2 }))
    pool.include(a, 7)
    pool.include(b, 7)
    expect([pool.get(a.hash), pool.isExpected(a.hash)]).toEqual([undefined, true])
    expect(pool.nextNonce(addressOfSender(0), 2n)).toBe(3n)
    expect(pool.nextNonce(addressOfSender(0), 0n)).toBe(3n)
    pool.rewind({
      blockOf: (hash) => (keyOf(hash) === keyOf(a.hash) ? 7 : undefined),
      nonceOf: () => 1n,
    })
    expect(names(best(pool, want({ count: 9, head: movedTo(1n) })))).toEqual(names([b, c]))
    pool.include(b, 8)
    pool.settle(settled({ number: 8, index: 3 }, 9, movedTo(2n)))
    expect([a, b].map(({ hash }) => pool.isExpected(hash))).toEqual([true, true])
    pool.settle(settled({ number: 10, index: 3 }, 10, movedTo(2n)))
    expect([a, b].map(({ hash }) => pool.isExpected(hash))).toEqual([false, true])
    pool.rewriteJournal()
    expect(journal).toEqual([b.raw, c.raw])
  })

  test.each<[string, bigint, 'left' | 'offered']>([
    ['past its nonce', 3n, 'left'],
    ['to its nonce', 2n, 'offered'],
  ])('that this pool never saw is noticed when the nonce rises %s', (_name, nonce, then) => {
    const { pool, head } = testPool()
    const gapped = transfer(0, 2)
    pool.submit(gapped.raw, at(head))
    pool.settle(settled({ number: 8, index: 1 }, 7, movedTo(0n)))
    expect(pool.standingOf(gapped.hash)).toMatchObject({ why: 'waits' })
    const emitted: Uint8Array[] = []
    pool.onPending((hash) => emitted.push(hash))
    pool.settle(settled({ number: 9, index: 1 }, 8, movedTo(nonce)))
    if (then === 'left') {
      expect(pool.standingOf(gapped.hash)).toEqual({ why: 'replaced', by: undefined })
      expect(emitted).toEqual([])
    } else expect(emitted).toEqual([gapped.hash])
  })

  test('that this pool never saw is looked for behind some missing nonces a block', () => {
    const { pool, head } = testPool({ gapSenders: 2 })
    const gapped = [0, 1, 2].map((sender) => transfer(sender, 2))
    for (const { raw } of gapped) pool.submit(raw, at(head))
    const waiting = (canonical: number): number => {
      const pending = { number: canonical, index: 1 }
      pool.settle({ pending, canonical, nonceOf: () => 9n })
      return pool.counts().queued
    }
    expect([waiting(1), waiting(2)]).toEqual([1, 0])
  })

  test('that this pool never saw returns after a reorg as well', () => {
    const { pool } = testPool()
    pool.include(transfer(0, 0), 7)
    pool.rewind({ blockOf: () => undefined, nonceOf: () => 0n })
    expect(names(best(pool, want()))).toEqual(names([transfer(0, 0)]))
  })

  test('no longer counts as included when it was sent again and then removed', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(0, 1)]
    pool.include(b, 7)
    // The view has lost the block, and the txpool has not seen this yet.
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    expect(pool.nextNonce(addressOfSender(0), 0n)).toBe(2n)
    pool.rejected([a, b].map(({ hash }) => ({ hash, reason: 'it cannot be executed' })))
    expect([0n, 1n].map((nonce) => pool.nextNonce(addressOfSender(0), nonce))).toEqual([0n, 1n])
  })

  test('returns after a reorg, and so does one that was only selected', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(0, 1)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    best(pool, want({ target: { number: 9, index: 3 } }))
    expect(best(pool, want())).toEqual([])
    pool.rewind({ blockOf: () => undefined, nonceOf: () => 0n })
    expect(names(best(pool, want({ target: { number: 6, index: 1 } })))).toEqual(names([a, b]))
  })

  test('wins over the transaction that replaced it in the pool', () => {
    const { pool, head } = testPool()
    const [visible, other] = [
      transfer(0, 0),
      transfer(0, 0, { maxFeePerGas: 2_000n, maxPriorityFeePerGas: 2n }),
    ]
    pool.submit(visible.raw, at(head))
    best(pool, want())
    pool.submit(other.raw, at(head))
    pool.include(visible, 3)
    expect(pool.isExpected(other.hash)).toBe(false)
    pool.rewind({ blockOf: () => undefined, nonceOf: () => 0n })
    expect(names(best(pool, want()))).toEqual(names([visible]))
  })

  test('is not restored from the journal, and the others are, with or without funds', () => {
    const { pool, head, journal } = testPool()
    for (const nonce of [0, 1, 2]) pool.submit(transfer(0, nonce).raw, at(head))
    const after = testPool()
    after.head.balance = 0n
    after.head.nonces.set(keyOf(addressOfSender(0)), 1n)
    expect(journal.map((raw) => after.pool.restore(raw, after.head))).toEqual([false, true, true])
    expect(after.journal).toEqual([])
    expect(after.pool.counts()).toEqual({ pending: 2, queued: 0 })
  })
})

function movedTo(nonce: bigint): PlainHead {
  const head = new PlainHead()
  head.nonces.set(keyOf(addressOfSender(0)), nonce)
  return head
}

describe('any history of the txpool', () => {
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant('submit' as const),
        sender: fc.nat(3),
        nonce: fc.nat(6),
        tip: fc.integer({ min: 1, max: 40 }),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('build' as const),
        count: fc.nat(4),
        taken: fc.nat(4),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('flush' as const) }) },
  )
  const signed = new Map<string, SignedTransaction>()
  const made = (sender: number, nonce: number, tip: number) => {
    const name = `${sender}:${nonce}:${tip}`
    const found =
      signed.get(name) ??
      transfer(sender, nonce, {
        maxPriorityFeePerGas: BigInt(tip),
        maxFeePerGas: BigInt(1_000 * tip),
      })
    signed.set(name, found)
    return found
  }

  test('keeps bounds and nonce order, selects once and loses nothing visible', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const { pool, head } = testPool({ total: 12, perSender: 5, queuedPerSender: 2 })
        let block = 1
        let base = new Map<string, bigint>()
        let visible: SignedTransaction[] = []
        for (const now of steps) {
          if (now.do === 'submit') pool.submit(made(now.sender, now.nonce, now.tip).raw, at(head))
          if (now.do === 'build') {
            const selected = best(
              pool,
              want({ count: now.count, head, target: { number: block, index: 1 } }),
            )
            const next = new Map(head.nonces)
            for (const { from, nonce } of selected) {
              expect(nonce).toBe(next.get(keyOf(from)) ?? 0n)
              next.set(keyOf(from), nonce + 1n)
            }
            expect(
              best(pool, want({ count: 99, head })).some((other) => selected.includes(other)),
            ).toBe(false)
            for (const transaction of selected.slice(0, now.taken)) {
              head.nonces.set(keyOf(transaction.from), transaction.nonce + 1n)
              pool.include(transaction, block)
              visible.push(transaction)
            }
            pool.settle(settled({ number: block + 1, index: 0 }, 0, head))
            block++
          }
          if (now.do === 'flush') {
            head.nonces.clear()
            for (const [key, nonce] of base) head.nonces.set(key, nonce)
            pool.rewind({
              blockOf: () => undefined,
              nonceOf: (address) => head.account(address).nonce,
            })
            for (const { hash } of visible) expect(pool.get(hash)).toBeDefined()
            visible = []
            base = new Map(head.nonces)
          }
          const { pending, queued } = pool.counts()
          expect(queued).toBeGreaterThanOrEqual(0)
          expect(pending + queued).toBe(pool.stats().open)
        }
      }),
      { numRuns: 150 },
    )
  })
})

/** The txpool: order, replacement, limits, hand-out and return. */
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

describe('replacement', () => {
  const cases: [fee: bigint, tip: bigint, isAccepted: boolean][] = [
    [1_100n, 110n, true],
    [1_099n, 110n, false],
    [1_100n, 109n, false],
    [5_000n, 100n, false],
    [5_000n, 5_000n, true],
  ]
  test.each(cases)('1000/100 by %d/%d: %s', (maxFeePerGas, maxPriorityFeePerGas, isAccepted) => {
    const { pool, head } = testPool()
    const old = transfer(0, 0, { maxFeePerGas: 1_000n, maxPriorityFeePerGas: 100n })
    const other = transfer(0, 0, { maxFeePerGas, maxPriorityFeePerGas })
    pool.submit(old.raw, at(head))
    const result = pool.submit(other.raw, at(head))
    if (isAccepted) expect(result).toEqual({ hash: other.hash })
    else
      expect(result).toEqual({
        error: { why: 'input', message: 'replacement transaction underpriced' },
      })
    expect(names(best(pool, want()))).toEqual(names([isAccepted ? other : old]))
    expect(pool.counts()).toEqual({ pending: 1, queued: 0 })
  })

  /** Floor of 110 % and strictly more, as in go-ethereum's legacypool. */
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
  test.each(rounded)('%o by %o: %s', (old, now, isAccepted) => {
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
        : { error: { why: 'input', message: 'replacement transaction underpriced' } },
    )
  })

  test('the price of a legacy transaction is rounded down as well', () => {
    const { pool, head } = testPool()
    const legacy = (gasPrice: bigint, value: bigint) =>
      signTransaction(
        {
          ...{ type: 0, chainId: CHAIN_ID, nonce: 0n, to: addressOfSender(1), value },
          ...{ gasLimit: 21_000n, input: new Uint8Array(0), gasPrice },
        },
        keyOfSender(0),
      )
    pool.submit(legacy(1_005n, 1n).raw, at(head))
    expect(pool.submit(legacy(1_104n, 2n).raw, at(head))).toHaveProperty('error')
    expect(pool.submit(legacy(1_105n, 2n).raw, at(head))).toHaveProperty('hash')
  })

  test('a fee of zero is not replaced by zero', () => {
    const { pool, head } = testPool()
    pool.submit(transfer(0, 0, FREE).raw, at(head), { isListed: true })
    const again = transfer(0, 0, { ...FREE, value: 2n })
    expect(pool.submit(again.raw, at(head))).toHaveProperty('error')
  })
})

describe('order', () => {
  test('best tip first, nonces in order, the older one on a tie, later nonces behind', () => {
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

  test('gas and count bound the choice; what does not fit keeps its later nonces back', () => {
    const { pool, head } = testPool()
    const large = transfer(0, 0, { gasLimit: 100_000n, maxPriorityFeePerGas: 9n })
    const afterLarge = transfer(0, 1, { maxPriorityFeePerGas: 9n })
    const small = [1, 2, 3].map((sender) => transfer(sender, 0))
    for (const { raw } of [large, afterLarge, ...small]) pool.submit(raw, at(head))
    expect(names(best(pool, want({ gas: 63_000n, count: 2 })))).toEqual(names(small.slice(0, 2)))
  })

  test('a zero fee waits for the whitelist contract', () => {
    const { pool, head } = testPool()
    const listed = { isListed: true }
    expect(pool.submit(transfer(0, 0, FREE).raw, at(head), listed)).toHaveProperty('hash')
    expect(best(pool, want())).toEqual([])
    head.isGaslessLive = true
    head.balances.set(keyOf(addressOfSender(1)), 1n)
    expect(pool.submit(transfer(1, 0, FREE).raw, at(head), listed)).toHaveProperty('hash')
    expect(names(best(pool, want()))).toEqual(names([transfer(1, 0, FREE)]))
  })

  test('where they are not wanted, they and what is behind them wait, and nobody is asked again', () => {
    const { pool, head } = testPool()
    head.isGaslessLive = true
    const [free, behind, paying] = [transfer(0, 0, FREE), transfer(0, 1), transfer(1, 0)]
    for (const { raw } of [free, behind, paying]) pool.submit(raw, at(head), { isListed: true })
    const offered = pool.best(want({ isGaslessWanted: false }))
    expect(names(offered.transactions)).toEqual(names([paying]))
    expect(offered.hasMore).toBe(false)
    expect(names(best(pool, want()))).toEqual(names([free, behind]))
  })

  test('the whitelist is asked about a free call with which nothing else is wrong', () => {
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

  test('listeners hear of each transaction once, when nothing is missing before it', () => {
    const { pool, head } = testPool()
    const heard: string[] = []
    const stop = pool.onPending((hash) => heard.push(keyOf(hash)))
    const [a, b, c, d] = [0, 1, 2, 3].map((nonce) => transfer(0, nonce))
    pool.submit(c!.raw, at(head))
    pool.submit(b!.raw, at(head))
    expect(heard).toEqual([])
    pool.submit(a!.raw, at(head))
    expect(heard).toEqual(names([a!, b!, c!]))
    stop()
    pool.submit(d!.raw, at(head))
    expect(heard).toHaveLength(3)
  })

  test('and of one that the sequencer has taken, though a flashblock with it was quicker, once', () => {
    const { pool, head } = testPool()
    const heard: string[] = []
    pool.onPending((hash) => heard.push(keyOf(hash)))
    const [a, b, c] = [transfer(0, 0), transfer(0, 1), transfer(1, 0)]
    pool.include(a, 7)
    head.nonces.set(keyOf(a.from), 1n)
    const taken = { isProven: true, isListed: true, isTaken: true }
    expect(pool.submit(a.raw, at(head))).toHaveProperty('error')
    // Nobody says that it was sent here.
    expect(heard).toEqual([])
    pool.submit(a.raw, at(head), taken)
    pool.submit(a.raw, at(head), taken)
    expect(heard).toEqual(names([a]))
    // Told when it waited, or told before its flashblock was looked at.
    pool.submit(b.raw, at(head), taken)
    pool.include(b, 7)
    head.nonces.set(keyOf(a.from), 2n)
    pool.submit(b.raw, at(head), taken)
    pool.submit(c.raw, at(head), taken)
    expect(heard).toEqual(names([a, b, c]))
  })
})

describe('limits', () => {
  test('a sender: in all, and behind a missing nonce', () => {
    const { pool, head } = testPool({ perSender: 3, queuedPerSender: 1 })
    expect(pool.submit(transfer(0, 5).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(0, 6).raw, at(head))).toEqual({
      error: { why: 'input', message: 'account limit exceeded: pooled 1 txs' },
    })
    expect(pool.submit(transfer(0, 0).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(0, 1).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(0, 2).raw, at(head))).toEqual({
      error: { why: 'input', message: 'account limit exceeded: pooled 3 txs' },
    })
  })

  test('a full pool loses far-future nonces first, then the cheapest', () => {
    const { pool, head } = testPool({ total: 3 })
    const far = transfer(0, 50, { maxPriorityFeePerGas: 500n })
    const near = transfer(1, 2, { maxPriorityFeePerGas: 500n })
    const cheap = transfer(2, 0, { maxPriorityFeePerGas: 2n })
    for (const { raw } of [far, near, cheap]) pool.submit(raw, at(head))
    expect(pool.submit(transfer(3, 9).raw, at(head))).toHaveProperty('hash')
    expect(pool.get(far.hash)).toBeUndefined()
    expect(pool.submit(transfer(4, 90).raw, at(head))).toEqual({
      error: { why: 'rejected', message: 'txpool is full' },
    })
    expect(pool.submit(transfer(4, 0).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(5, 0, { maxPriorityFeePerGas: 3n }).raw, at(head))).toHaveProperty(
      'hash',
    )
    expect([near.hash, cheap.hash].map((hash) => pool.get(hash) !== undefined)).toEqual([
      false,
      true,
    ])
    expect(pool.submit(transfer(6, 0, { maxPriorityFeePerGas: 1n }).raw, at(head))).toEqual({
      error: { why: 'input', message: 'transaction underpriced' },
    })
    expect(pool.submit(transfer(6, 0, { maxPriorityFeePerGas: 8n }).raw, at(head))).toHaveProperty(
      'hash',
    )
    expect(pool.counts()).toEqual({ pending: 3, queued: 0 })
  })

  test('bytes', () => {
    const { pool, head } = testPool({ totalBytes: 400 })
    for (let sender = 0; sender < 9; sender++)
      pool.submit(transfer(sender, 0, { maxPriorityFeePerGas: BigInt(sender + 1) }).raw, at(head))
    expect(pool.stats().bytes).toBeLessThanOrEqual(400)
    expect(pool.get(transfer(8, 0, { maxPriorityFeePerGas: 9n }).hash)).toBeDefined()
  })

  test('age', () => {
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

describe('handed out', () => {
  test('not twice; again once its flashblock is published without it', () => {
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

  test('what the asker has already is passed over', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(0, 1)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    expect(names(best(pool, want({ excluded: [a.hash] })))).toEqual(names([b]))
  })

  test('taken back: at once again', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(1, 0)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    expect(best(pool, want())).toHaveLength(2)
    pool.takeBack([b.hash, transfer(2, 0).hash])
    expect(names(best(pool, want()))).toEqual(names([b]))
  })

  test('not replaced: whoever has it may have executed it', () => {
    const { pool, head } = testPool()
    const old = transfer(0, 0)
    const dearer = transfer(0, 0, { maxFeePerGas: 2_000n, maxPriorityFeePerGas: 2n })
    pool.submit(old.raw, at(head))
    best(pool, want())
    expect(pool.submit(dearer.raw, at(head))).toEqual({
      error: { why: 'input', message: 'nonce too low: next nonce 1, tx nonce 0' },
    })
    pool.takeBack([old.hash])
    expect(pool.submit(dearer.raw, at(head))).toEqual({ hash: dearer.hash })
  })

  test('replaced when it was stopped before: to be tried again is not to be included', () => {
    const { pool, head } = testPool()
    const old = transfer(0, 0)
    const dearer = transfer(0, 0, { maxFeePerGas: 2_000n, maxPriorityFeePerGas: 2n })
    pool.submit(old.raw, at(head))
    best(pool, want())
    // Asked for others meanwhile, and then for everything again.
    best(pool, want({ excluded: [old.hash] }))
    pool.takeBack([old.hash])
    expect(best(pool, want())).toHaveLength(1)
    expect(pool.submit(dearer.raw, at(head))).toEqual({ hash: dearer.hash })
    expect(pool.get(old.hash)).toBeUndefined()
  })

  const more: [name: string, options: Parameters<typeof want>[0], hasMore: boolean][] = [
    ['all', {}, false],
    ['as many as are wanted', { count: 2 }, true],
    ['what fits the gas', { gas: 43_000n }, true],
    ['none that pays too little', { baseFee: 10_000n }, false],
  ]
  test.each(more)('%s: says whether others are left', (_, options, hasMore) => {
    const { pool, head } = testPool()
    for (const sender of [0, 1, 2]) pool.submit(transfer(sender, 0).raw, at(head))
    expect(pool.best(want(options)).hasMore).toBe(hasMore)
  })

  test('news: of what can be handed out, new or again', () => {
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

  test('taken for lost after a while', () => {
    const { pool, head, clock } = testPool({ handedMs: 100 })
    pool.submit(transfer(0, 0).raw, at(head))
    best(pool, want({ target: { number: 9, index: 0 } }))
    clock.ms = 101
    pool.settle(settled({ number: 1, index: 0 }, 1))
    expect(best(pool, want())).toHaveLength(1)
  })

  test('rejected: gone, except for a nonce that only the sequencer sees', () => {
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

  test('rejected for good: not taken again for a while, with the reason', () => {
    const { pool, head, clock } = testPool({ refused: 1, refusedMs: 100 })
    const [a, b] = [transfer(0, 0), transfer(1, 0)]
    const again = ({ raw }: { readonly raw: Uint8Array }) => pool.submit(raw, at(head))
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    pool.rejected([{ hash: a.hash, reason: 'too slow', isFinal: true }])
    const message = 'transaction was dropped: too slow'
    expect(again(a)).toEqual({ error: { why: 'rejected', message } })
    expect(pool.get(a.hash)).toBeUndefined()
    clock.ms = 100
    expect(again(a)).toEqual({ hash: a.hash })
    const all = [a, b].map(({ hash }) => ({ hash, reason: 'too slow', isFinal: true }))
    pool.rejected(all)
    // No more than one is remembered.
    expect([a, b].map((one) => 'error' in again(one))).toEqual([false, true])
  })

  test('a nonce that moved elsewhere is noticed', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(0, 1)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    head.nonces.set(keyOf(addressOfSender(0)), 1n)
    expect(names(best(pool, want({ head })))).toEqual(names([b]))
    expect(pool.isExpected(a.hash)).toBe(false)
  })
})

describe('included', () => {
  test('kept until canonical is past it, back after a flush, with its later nonces', () => {
    const { pool, head, journal } = testPool({ keepBlocks: 2 })
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
    ['past it', 3n, 'left'],
    ['to it', 2n, 'offered'],
  ])('a nonce that rises without a transaction of the sender is seen, %s', (_name, nonce, then) => {
    const { pool, head } = testPool()
    const gapped = transfer(0, 2)
    pool.submit(gapped.raw, at(head))
    pool.settle(settled({ number: 8, index: 1 }, 7, movedTo(0n)))
    expect(pool.standingOf(gapped.hash)).toMatchObject({ why: 'waits' })
    const told: Uint8Array[] = []
    pool.onPending((hash) => told.push(hash))
    pool.settle(settled({ number: 9, index: 1 }, 8, movedTo(nonce)))
    if (then === 'left') {
      expect(pool.standingOf(gapped.hash)).toEqual({ why: 'replaced', by: undefined })
      expect(told).toEqual([])
    } else expect(told).toEqual([gapped.hash])
  })

  test('each block looks at some of the senders behind a missing nonce, in turn', () => {
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

  test('one that this pool never saw comes back too', () => {
    const { pool } = testPool()
    pool.include(transfer(0, 0), 7)
    pool.rewind({ blockOf: () => undefined, nonceOf: () => 0n })
    expect(names(best(pool, want()))).toEqual(names([transfer(0, 0)]))
  })

  test('what was handed out for a chain that is gone waits again', () => {
    const { pool, head } = testPool()
    const [a, b] = [transfer(0, 0), transfer(0, 1)]
    for (const { raw } of [a, b]) pool.submit(raw, at(head))
    best(pool, want({ target: { number: 9, index: 3 } }))
    expect(best(pool, want())).toEqual([])
    pool.rewind({ blockOf: () => undefined, nonceOf: () => 0n })
    expect(names(best(pool, want({ target: { number: 6, index: 1 } })))).toEqual(names([a, b]))
  })

  test('a shown transaction wins over the one that replaced it', () => {
    const { pool, head } = testPool()
    const [shown, other] = [
      transfer(0, 0),
      transfer(0, 0, { maxFeePerGas: 2_000n, maxPriorityFeePerGas: 2n }),
    ]
    pool.submit(shown.raw, at(head))
    best(pool, want())
    pool.submit(other.raw, at(head))
    pool.include(shown, 3)
    expect(pool.isExpected(other.hash)).toBe(false)
    pool.rewind({ blockOf: () => undefined, nonceOf: () => 0n })
    expect(names(best(pool, want()))).toEqual(names([shown]))
  })

  test('a restart puts back what the journal has, funds or not', () => {
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

describe('properties', () => {
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

  test('bounds hold, nonces follow each other, nothing is handed out twice, a flush loses nothing that was shown', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const { pool, head } = testPool({ total: 12, perSender: 5, queuedPerSender: 2 })
        let block = 1
        let base = new Map<string, bigint>()
        let shown: SignedTransaction[] = []
        for (const now of steps) {
          if (now.do === 'submit') pool.submit(made(now.sender, now.nonce, now.tip).raw, at(head))
          if (now.do === 'build') {
            const handed = best(
              pool,
              want({ count: now.count, head, target: { number: block, index: 1 } }),
            )
            const next = new Map(head.nonces)
            for (const { from, nonce } of handed) {
              expect(nonce).toBe(next.get(keyOf(from)) ?? 0n)
              next.set(keyOf(from), nonce + 1n)
            }
            expect(
              best(pool, want({ count: 99, head })).some((other) => handed.includes(other)),
            ).toBe(false)
            for (const transaction of handed.slice(0, now.taken)) {
              head.nonces.set(keyOf(transaction.from), transaction.nonce + 1n)
              pool.include(transaction, block)
              shown.push(transaction)
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
            for (const { hash } of shown) expect(pool.get(hash)).toBeDefined()
            shown = []
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

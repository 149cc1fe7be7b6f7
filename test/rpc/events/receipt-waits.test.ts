/**
 * Waits for receipts on both endpoints end with the publish that makes the receipt readable. The
 * reads of a publish are limited.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChainReader, ChainView, Endpoint, LeasedView } from '../../../engine/chain/types.ts'
import { readNewest } from '../../../engine/chain/view-reads.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { createReceiptWaits } from '../../../rpc/events/receipt-waits.ts'
import { execute, transfer } from '../../fixtures/executed.ts'
import { type MemoryBlock, type MemoryChain, memoryChain } from '../../fixtures/memory-chain.ts'

const ENDPOINTS = ['standard', 'flashblocks'] as const
const LONG = 600_000
const TRANSACTIONS = Array.from({ length: 12 }, (_, nonce) => transfer(BigInt(nonce)))

type Reads = { found: number; blocks: number; hashes: number }

/** Counts the reads of the views. */
function counting(chain: MemoryChain): { readonly reader: ChainReader; readonly reads: Reads } {
  const reads: Reads = { found: 0, blocks: 0, hashes: 0 }
  const counted = (view: ChainView): ChainView => ({
    ...view,
    findTransaction(hash) {
      reads.found++
      return view.findTransaction(hash)
    },
    block(selector) {
      reads.blocks++
      const block = view.block(selector)
      if (block === undefined) return undefined
      const { transactionHash } = block
      return Object.assign(block, {
        transactionHash(index: number) {
          reads.hashes++
          return transactionHash.call(block, index)
        },
      })
    },
  })
  const lease = (endpoint: Endpoint): LeasedView => {
    const { view, snapshot, release } = chain.lease(endpoint)
    return { view: counted(view), snapshot, release }
  }
  return { reader: { ...chain, lease }, reads }
}

function world() {
  const chain = memoryChain()
  const { reader, reads } = counting(chain)
  const listeners = new Set<() => void>()
  const onPublish = (listener: () => void) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
  const now = () => performance.now()
  const waits = createReceiptWaits({ reader, onPublish, onDeparted: () => {}, now })
  const canRead = (endpoint: Endpoint, { hash }: SignedTransaction) =>
    readNewest(chain, endpoint, (view) => view.findTransaction(hash) !== undefined)
  return {
    chain,
    reads,
    waits,
    canRead,
    hint: () => {
      for (const listener of listeners) listener()
    },
  }
}
type World = ReturnType<typeof world>

/** Waits for a transaction that cannot be read yet. */
function waitFor({ waits }: World, endpoint: Endpoint, { hash }: SignedTransaction) {
  const gone = new AbortController()
  const waiting = { isOver: false, stop: () => gone.abort() }
  void waits.wait({ hash, endpoint, ms: LONG, signal: gone.signal }).then(() => {
    waiting.isOver = true
  })
  return waiting
}
const settled = () => new Promise((resolve) => setImmediate(resolve))

type Step =
  /** The pending block gets one more flashblock, with this many further transactions. */
  | { readonly is: 'flashblock'; readonly count: number }
  /** The pending block becomes complete, and canonical on demand; the next one starts. */
  | { readonly is: 'seal'; readonly canonical: boolean }
  /** Full blocks come at once. */
  | { readonly is: 'blocks'; readonly counts: readonly number[] }
  /** The chain goes on from an older block, with other transactions. */
  | { readonly is: 'reorg'; readonly depth: number; readonly first: number }
  | { readonly is: 'wait'; readonly endpoint: Endpoint; readonly at: number }
  /** The hint of a publish comes now, and stands for all publishes since the hint before. */
  | { readonly is: 'hint' }
  | { readonly is: 'fail' }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ is: fc.constant('flashblock' as const), count: fc.nat(3) }) },
  {
    weight: 2,
    arbitrary: fc.record({ is: fc.constant('seal' as const), canonical: fc.boolean() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      is: fc.constant('blocks' as const),
      counts: fc.array(fc.nat(2), { minLength: 1, maxLength: 5 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      is: fc.constant('reorg' as const),
      depth: fc.integer({ min: 0, max: 4 }),
      first: fc.nat(TRANSACTIONS.length - 1),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      is: fc.constant('wait' as const),
      endpoint: fc.constantFrom(...ENDPOINTS),
      at: fc.nat(TRANSACTIONS.length - 1),
    }),
  },
  { weight: 6, arbitrary: fc.record({ is: fc.constant('hint' as const) }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('fail' as const) }) },
)

/** Publishes without a hint. */
function mover({ chain }: World) {
  let next = 0
  let salt = 0
  const take = (count: number) => {
    const taken = TRANSACTIONS.slice(next, next + count)
    next += taken.length
    return taken
  }
  let { canonical, complete, pending } = chain.heads
  const publish = () => chain.publish({ canonical, complete, pending })
  const signed = (block: MemoryBlock) => block.transactions as readonly SignedTransaction[]
  const grow = (count: number) => {
    const isNext = pending === complete
    const transactions = [...(isNext ? [] : signed(pending)), ...take(count)]
    pending = chain.make(complete, {
      executed: execute(transactions),
      salt: isNext ? ++salt : salt,
      index: isNext ? 0 : pending.index! + 1,
      ...(isNext ? {} : { continues: pending }),
    })
  }
  return (one: Step): void => {
    if (one.is === 'flashblock') grow(one.count)
    else if (one.is === 'seal') {
      if (pending === complete) grow(1)
      const full = { executed: execute(signed(pending)), salt, continues: pending }
      complete = chain.make(complete, full)
      pending = complete
      if (one.canonical) canonical = complete
    } else if (one.is === 'blocks') {
      for (const count of one.counts)
        complete = chain.make(complete, { executed: execute(take(count)), salt: ++salt })
      pending = complete
      canonical = complete
    } else if (one.is === 'reorg') {
      let base = complete
      for (let up = 0; up < one.depth && base.parent !== undefined; up++) base = base.parent
      next = Math.min(next, one.first)
      complete = base
      pending = base
      canonical = base
    }
    publish()
  }
}

test('a wait ends with the first publish whose view has its receipt', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const own = world()
      const move = mover(own)
      let waiting: {
        readonly endpoint: Endpoint
        readonly transaction: SignedTransaction
        readonly wait: ReturnType<typeof waitFor>
      }[] = []
      for (const one of [...steps, { is: 'hint' } as const]) {
        if (one.is === 'wait') {
          const transaction = TRANSACTIONS[one.at]!
          if (own.canRead(one.endpoint, transaction)) continue
          const wait = waitFor(own, one.endpoint, transaction)
          waiting.push({ endpoint: one.endpoint, transaction, wait })
        } else if (one.is === 'hint') {
          own.hint()
          await settled()
          for (const { endpoint, transaction, wait } of waiting)
            expect(wait.isOver).toBe(own.canRead(endpoint, transaction))
          waiting = waiting.filter(({ wait }) => !wait.isOver)
        } else if (one.is === 'fail') {
          // The view disappears during the read: no wait ends, and the next hint makes up for it.
          own.chain.failNext(1_000)
          own.hint()
          own.chain.failNext(0)
          await settled()
          expect(waiting.some(({ wait }) => wait.isOver)).toBe(false)
        } else move(one)
      }
      for (const { wait } of waiting) wait.stop()
      await settled()
      expect(own.waits.size).toBe(0)
    }),
    { numRuns: 1_000 },
  )
})

describe('a publish', () => {
  const start = (count: number) => {
    const own = world()
    const move = mover(own)
    move({ is: 'flashblock', count: 1 })
    own.hint()
    const waiting = Array.from({ length: count }, (_, n) =>
      ENDPOINTS.map((endpoint) => waitFor(own, endpoint, transfer(BigInt(1_000 + n)))),
    ).flat()
    move({ is: 'flashblock', count: 1 })
    own.hint()
    Object.assign(own.reads, { found: 0, blocks: 0, hashes: 0 })
    const stop = () => {
      for (const wait of waiting) wait.stop()
    }
    return { ...own, move, stop }
  }

  test('looks up none of the awaited hashes', () => {
    const { move, hint, reads, stop } = start(500)
    for (let index = 0; index < 8; index++) {
      move({ is: 'flashblock', count: 1 })
      hint()
    }
    // Each flashblock's new transaction is read; the canonical head is unchanged.
    expect(reads).toEqual({ found: 0, blocks: 16, hashes: 8 })
    move({ is: 'seal', canonical: true })
    hint()
    expect(reads.found).toBe(0)
    expect(reads.hashes).toBe(8 + 10)
    stop()
  })
  test('reads nothing when no request waits', () => {
    const { move, hint, reads, stop } = start(1)
    stop()
    for (const canonical of [false, true]) {
      move({ is: 'flashblock', count: 2 })
      hint()
      move({ is: 'seal', canonical })
      hint()
    }
    expect(reads).toEqual({ found: 0, blocks: 0, hashes: 0 })
  })
  test('looks up each hash once when it brings more blocks than are followed', async () => {
    const own = start(20)
    const wait = waitFor(own, 'standard', TRANSACTIONS[3]!)
    own.move({ is: 'blocks', counts: [...Array.from({ length: 70 }, () => 0), 2] })
    own.hint()
    await settled()
    expect(wait.isOver).toBe(true)
    expect(own.reads.found).toBeLessThanOrEqual(2 * 21)
    own.reads.found = 0
    own.move({ is: 'flashblock', count: 1 })
    own.hint()
    expect(own.reads.found).toBe(0)
    own.stop()
  })
})

/**
 * A lazy directory is compared with its chain: whatever is fetched when, a read gives the true
 * value or `missing`.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { FillRow } from '../../../../engine/storage/types.ts'
import { action } from '../../../fixtures/chain-model.ts'
import { ALL_KEYS, LazyBench, readAt } from '../../../fixtures/lazy-bench.ts'
import type { ModelBlock } from '../../../fixtures/persistence-chain.ts'

const actions = fc.array(action, { minLength: 1, maxLength: 4 })
const slices = fc.integer({ min: 0, max: 8 })
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('append' as const), actions, slices }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('ask' as const),
      /** The depth of the requested block below the head. */
      depth: fc.nat(4),
      keys: fc.uniqueArray(fc.nat(ALL_KEYS.length - 1), { minLength: 1, maxLength: 6 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('answer' as const), which: fc.nat(), slices }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('reorg' as const),
      depth: fc.integer({ min: 1, max: 7 }),
      actions,
      slices,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('crash' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('touch' as const),
      keys: fc.array(fc.nat(ALL_KEYS.length - 1), { maxLength: 8 }),
    }),
  },
)

// With a limit, rows are evicted at any time, and come again.
test.each([undefined, 600])(
  'reads are right or missing in any history: bytes at most %s',
  (limit) => {
    const seen = { missing: 0, found: 0, written: 0, dropped: 0, stale: 0 }
    const isSeen = () => Object.values(seen).every((count) => count > 0)
    // Each event occurs in most sets of forty runs, but not in all.
    for (let sets = 0; sets < 4 && !isSeen(); sets++)
      fc.assert(
        fc.property(fc.array(step, { minLength: 10, maxLength: 50 }), (steps) => {
          const bench = new LazyBench(memoryDatabase(), limit)
          /** Upstream responses that are on their way. */
          const requested: { readonly block: ModelBlock; readonly rows: readonly FillRow[] }[] = []
          for (const now of steps) {
            if (now.kind === 'append') bench.append(now.actions)
            else if (now.kind === 'reorg') bench.reorg(now.depth, now.actions)
            else if (now.kind === 'crash') bench.crash()
            else if (now.kind === 'touch') bench.touch(now.keys.map((at) => ALL_KEYS[at]!))
            else if (now.kind === 'ask') {
              const block = bench.chain[Math.max(0, bench.chain.length - 1 - now.depth)]!
              const keys = now.keys.map((at) => ALL_KEYS[at]!)
              requested.push({ block, rows: bench.read(block, keys) })
            } else if (requested.length > 0) {
              const [response] = requested.splice(now.which % requested.length, 1)
              const isCanonical = bench.isCanonical(response!.block)
              const { written, dropped } = bench.fill(response!.block, response!.rows)
              expect(written + dropped).toBe(response!.rows.length)
              if (!isCanonical) expect(written).toBe(0)
              seen.written += written
              seen.dropped += dropped
              if (!isCanonical) seen.stale++
            }
            if ('slices' in now) for (let at = 0; at < now.slices; at++) bench.step()
            const { missing, found } = bench.check(1)
            seen.missing += missing
            seen.found += found
          }
          bench.settle()
          bench.check()
          // Rows of the newest block are never refused, so nothing is missing afterwards.
          bench.fill(bench.head, bench.read(bench.head, ALL_KEYS))
          if (limit === undefined) expect(bench.check().missing).toBe(0)
          bench.crash()
          const left = bench.check()
          if (limit === undefined) expect(left.missing).toBe(0)
        }),
        { numRuns: 40 },
      )
    for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0)
  },
)

/** Both slots of account 0 in the first block become zero. */
const EMPTIED = [
  { address: 0, isDeleted: false, nonce: 1, slots: [[0, 0] as const, [5, 0] as const] },
]
const account = { address: 0, slot: undefined }

test('an account that a later block emptied still has its earlier storage', () => {
  const bench = new LazyBench()
  bench.append(EMPTIED)
  const rows = bench.read(bench.head, [account])
  expect(rows[0]).toMatchObject({ hasNoStorage: true })
  bench.fill(bench.head, rows)
  expect(bench.persisted).toBe(bench.chain[0]!.number)
  expect(bench.check().missing).toBeGreaterThan(0)
  for (let at = 0; at < 3; at++) bench.append([])
  bench.settle()
  // Once the block is persisted, the proven rows apply.
  bench.fill(bench.head, rows)
  bench.check()
  const missing = ALL_KEYS.filter(({ address }) => address === 0).filter(
    (key) => readAt(openStore(bench.database), bench.persisted, key) === 'missing',
  )
  expect(missing).toEqual([])
})

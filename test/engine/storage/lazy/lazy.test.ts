/** A lazy directory against the chain it follows: whatever is fetched when, a read is the truth or missing. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { FillRow } from '../../../../engine/storage/types.ts'
import { action } from '../../../fixtures/chain-model.ts'
import type { ModelBlock } from '../../../fixtures/keeper-chain.ts'
import { ALL_KEYS, LazyBench, readAt } from '../../../fixtures/lazy-bench.ts'

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
      /** How far below the head the block is that is asked. */
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

// With a bound rows go at any time, and come again.
test.each([undefined, 600])(
  'any history of fetches, blocks, folds, reorgs and crashes, within %s bytes',
  (limit) => {
    const seen = { missing: 0, found: 0, kept: 0, dropped: 0, stale: 0 }
    const isSeen = () => Object.values(seen).every((count) => count > 0)
    // Each is in most sets of forty, not in all.
    for (let sets = 0; sets < 4 && !isSeen(); sets++)
      fc.assert(
        fc.property(fc.array(step, { minLength: 10, maxLength: 50 }), (steps) => {
          const bench = new LazyBench(memoryDatabase(), limit)
          /** Answers of the upstream that are on their way. */
          const asked: { readonly block: ModelBlock; readonly rows: readonly FillRow[] }[] = []
          for (const now of steps) {
            if (now.kind === 'append') bench.append(now.actions)
            else if (now.kind === 'reorg') bench.reorg(now.depth, now.actions)
            else if (now.kind === 'crash') bench.crash()
            else if (now.kind === 'touch') bench.touch(now.keys.map((at) => ALL_KEYS[at]!))
            else if (now.kind === 'ask') {
              const block = bench.chain[Math.max(0, bench.chain.length - 1 - now.depth)]!
              const keys = now.keys.map((at) => ALL_KEYS[at]!)
              asked.push({ block, rows: bench.read(block, keys) })
            } else if (asked.length > 0) {
              const [answer] = asked.splice(now.which % asked.length, 1)
              const isCanonical = bench.isCanonical(answer!.block)
              const { kept, dropped } = bench.fill(answer!.block, answer!.rows)
              expect(kept + dropped).toBe(answer!.rows.length)
              if (!isCanonical) expect(kept).toBe(0)
              seen.kept += kept
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
          // Nothing that the newest block says now is refused, and then nothing is missing.
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

/** Both slots that the first block has of account 0 become zero. */
const EMPTIED = [
  { address: 0, isDeleted: false, nonce: 1, slots: [[0, 0] as const, [5, 0] as const] },
]
const account = { address: 0, slot: undefined }

test('storage that a block above the fold head has emptied was not empty before', () => {
  const bench = new LazyBench()
  bench.append(EMPTIED)
  const rows = bench.read(bench.head, [account])
  expect(rows[0]).toMatchObject({ hasNoStorage: true })
  bench.fill(bench.head, rows)
  expect(bench.folded).toBe(bench.chain[0]!.number)
  expect(bench.check().missing).toBeGreaterThan(0)
  for (let at = 0; at < 3; at++) bench.append([])
  bench.settle()
  // Folded, it is as it is proven.
  bench.fill(bench.head, rows)
  bench.check()
  const missing = ALL_KEYS.filter(({ address }) => address === 0).filter(
    (key) => readAt(openStore(bench.database), bench.folded, key) === 'missing',
  )
  expect(missing).toEqual([])
})

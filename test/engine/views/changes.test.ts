/**
 * The changes between a head and a later one include every key whose value differs, and nothing of
 * another chain.
 */
import { describe, expect, test } from 'vitest'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { ReadSet } from '../../../engine/state/reads.ts'
import { wordsOf } from '../../../engine/state/words.ts'
import { forEachChange, recordingReader } from '../../../engine/views/changes.ts'
import { openState } from '../../../engine/views/reader.ts'
import {
  append,
  finished,
  GENESIS,
  heads,
  increment,
  newest,
  open,
  persistAll,
  word,
} from '../../fixtures/small-views.ts'
import { ADDRESSES, SLOTS } from '../../fixtures/view-blocks.ts'

/** The balance of an account, and its first slot where one is given. */
type Values = Readonly<Record<number, readonly [balance: number, slot?: number]>>
const diffOf = (values: Values): StateDiff =>
  Object.entries(values).map(([at, [balance, slot]]) => ({
    address: ADDRESSES[Number(at)]!,
    before: undefined,
    after: { nonce: 1n, balance: BigInt(balance), codeHash: EMPTY_HASH },
    slots: slot === undefined ? [] : [{ key: SLOTS[0]!, before: word(0), after: word(slot) }],
    code: undefined,
  }))

function opened(pages?: number) {
  const made = open(pages)
  const { publisher, thread } = made
  const reader = thread(0)
  const parent = finished(publisher, publisher.base, diffOf({ 0: [1, 1], 1: [1, 1] }))
  const payload = (values: Values, on = parent) => {
    const block = publisher.start(on, '0x0000000000000001')
    publisher.add(block, increment(block.number, 0, diffOf(values)))
    return block
  }
  /**
   * Maps the hash under which a read is recorded to the key's name, for comparison with the
   * reported hashes.
   */
  const named = new Map<number, string>()
  const { arena } = reader
  publisher.publish(heads(parent))
  const { lease } = newest(reader)
  const reads = new ReadSet(100)
  const recorded = recordingReader(
    arena.seed,
    openState(reader, lease, lease.snapshot.pending),
    reads,
  )
  const out = new Uint32Array(18)
  for (const [at, address] of ADDRESSES.entries())
    for (const read of ['account', 'slot'] as const) {
      reads.start()
      reads.fields(0)
      if (read === 'account') recorded.account(wordsOf(address), out, 0)
      else recorded.slot(wordsOf(address), wordsOf(SLOTS[0]!), out, 0)
      named.set(reads.take()!.keys[0]!, `${read} ${at}`)
    }
  lease.release()
  /** Lists the changes from the head of `snapshot` to that of the newest one. */
  function emitted(from: ReturnType<typeof headNow>, head: 'pending' | 'canonical' = 'pending') {
    const { lease: pinned } = newest(reader)
    const keys = new Set<string>()
    const { [head]: to, base } = pinned.snapshot
    const isComplete = forEachChange(arena, { from, to, base }, (hash) => {
      keys.add(named.get(hash) ?? 'a key that nobody knows')
    })
    pinned.release()
    return isComplete ? [...keys].toSorted() : undefined
  }
  function headNow(head: 'pending' | 'canonical' = 'pending') {
    const { lease: pinned } = newest(reader)
    pinned.release()
    return pinned.snapshot[head]
  }
  return { ...made, parent, payload, emitted, headNow }
}
describe('the changes of a flashblock', () => {
  test('include changed keys, and not those that were only touched', () => {
    const { publisher, parent, payload, emitted, headNow } = opened()
    const block = payload({ 2: [9, 9] })
    publisher.publish(heads(parent, parent, block))
    const from = headNow()
    publisher.add(block, increment(block.number, 1, diffOf({ 0: [1, 5], 1: [2, 1], 2: [9, 9] })))
    publisher.publish(heads(parent, parent, block))
    expect(emitted(from)).toEqual(['account 1', 'slot 0'])
    expect(emitted(headNow())).toEqual([])
  })

  test('leave out a key that was changed back', () => {
    const { publisher, parent, payload, emitted, headNow } = opened()
    const block = payload({ 0: [1, 1] })
    publisher.publish(heads(parent, parent, block))
    const from = headNow()
    for (const [index, value] of [7, 1].entries()) {
      publisher.add(block, increment(block.number, index + 1, diffOf({ 0: [value, value] })))
      publisher.publish(heads(parent, parent, block))
    }
    expect(emitted(from)).toEqual([])
  })

  test('include a key without an older value in a diff layer', () => {
    const { publisher, parent, payload, emitted, headNow } = opened()
    publisher.publish(heads(parent))
    const from = headNow()
    const block = payload({ 2: [0, 0] })
    publisher.publish(heads(parent, parent, block))
    expect(emitted(from)).toEqual(['account 2', 'slot 2'])
  })
})

describe('the changes between two heads', () => {
  test('include the rest of the first block and the blocks above it', () => {
    const { publisher, parent, payload, emitted, headNow } = opened()
    const block = payload({ 0: [3] })
    publisher.publish(heads(parent, parent, block))
    const from = headNow()
    const next = increment(block.number, 1, diffOf({ 1: [3] }))
    publisher.add(block, next)
    publisher.finish(block, next.header, next.hash)
    const above = payload({ 2: [3] }, block)
    publisher.publish(heads(parent, block, above))
    expect(emitted(from)).toEqual(['account 1', 'account 2'])
    expect(emitted(headNow('canonical'))).toEqual(['account 0', 'account 1', 'account 2'])
  })

  test('are undefined for another payload or an earlier head', () => {
    const { publisher, parent, payload, emitted, headNow } = opened()
    const block = payload({ 0: [3] })
    publisher.publish(heads(parent, parent, block))
    const from = headNow()
    publisher.publish(heads(parent))
    expect(emitted(from)).toBe(undefined)
    publisher.publish(heads(parent, parent, payload({ 0: [3] })))
    expect(emitted(from)).toBe(undefined)
  })

  test('are known from the base on, and undefined once it moves past the start', () => {
    const made = opened()
    const { publisher, store, parent, emitted, headNow } = made
    publisher.publish(heads(parent))
    const from = headNow('canonical')
    const next = finished(publisher, parent, diffOf({ 1: [8] }))
    append(made, parent, diffOf({ 0: [1, 1], 1: [1, 1] }))
    publisher.publish(heads(next))
    persistAll(store, parent)
    publisher.persisted(parent)
    publisher.publish(heads(next))
    // Persisted values are no longer known.
    expect(emitted(from, 'canonical')).toEqual(['account 1'])
    const last = finished(publisher, next, diffOf({ 2: [8] }))
    append(made, next, diffOf({ 1: [8] }))
    persistAll(store, next)
    publisher.persisted(next)
    publisher.publish(heads(last))
    expect(emitted(from, 'canonical')).toBe(undefined)
    expect(GENESIS).toBeLessThan(last.number)
  })

  test('are undefined over more blocks than the limit', () => {
    const { publisher, parent, emitted, headNow } = opened(400)
    publisher.publish(heads(parent))
    const from = headNow()
    let block = parent
    for (let count = 0; count < 32; count++)
      block = finished(publisher, block, diffOf({ 1: [count] }))
    publisher.publish(heads(parent, parent, block))
    expect(emitted(from)).toEqual(['account 1'])
    publisher.publish(heads(parent, parent, finished(publisher, block, diffOf({ 1: [99] }))))
    expect(emitted(from)).toBe(undefined)
  })
})

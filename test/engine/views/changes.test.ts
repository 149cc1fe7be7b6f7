/** What is told of the way from one head to a later one: every key whose value differs, and nothing of another chain. */
import { describe, expect, test } from 'vitest'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { ReadSet } from '../../../engine/state/reads.ts'
import { wordsOf } from '../../../engine/state/words.ts'
import { tellChanges } from '../../../engine/views/changes.ts'
import { notedReader } from '../../../engine/views/noted.ts'
import { openState } from '../../../engine/views/reader.ts'
import {
  append,
  foldAll,
  GENESIS,
  heads,
  increment,
  newest,
  open,
  whole,
  word,
} from '../../fixtures/small-views.ts'
import { ADDRESSES, SLOTS } from '../../fixtures/view-blocks.ts'

/** Balance of an account, and its first slot where one is given. */
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
  const parent = whole(publisher, publisher.base, diffOf({ 0: [1, 1], 1: [1, 1] }))
  const payload = (values: Values, on = parent) => {
    const block = publisher.begin(on, '0x0000000000000001')
    publisher.add(block, increment(block.number, 0, diffOf(values)))
    return block
  }
  /** Names of the keys that reads of these are noted as: what the told hashes are held against. */
  const named = new Map<number, string>()
  const { arena } = reader
  publisher.publish(heads(parent))
  const { lease } = newest(reader)
  const reads = new ReadSet(100)
  const noted = notedReader(arena.seed, openState(reader, lease, lease.record.pending), reads)
  const out = new Uint32Array(18)
  for (const [at, address] of ADDRESSES.entries())
    for (const read of ['account', 'slot'] as const) {
      reads.begin()
      reads.fields(0)
      if (read === 'account') noted.account(wordsOf(address), out, 0)
      else noted.slot(wordsOf(address), wordsOf(SLOTS[0]!), out, 0)
      named.set(reads.take()!.keys[0]!, `${read} ${at}`)
    }
  lease.release()
  /** From the head of `record` to that of the newest one. */
  function told(from: ReturnType<typeof headNow>, head: 'pending' | 'canonical' = 'pending') {
    const { lease: held } = newest(reader)
    const keys = new Set<string>()
    const { [head]: to, base } = held.record
    const isWhole = tellChanges(arena, { from, to, base }, (hash) => {
      keys.add(named.get(hash) ?? 'a key that nobody knows')
    })
    held.release()
    return isWhole ? [...keys].toSorted() : undefined
  }
  function headNow(head: 'pending' | 'canonical' = 'pending') {
    const { lease: held } = newest(reader)
    held.release()
    return held.record[head]
  }
  return { ...made, parent, payload, told, headNow }
}
describe('what a flashblock has changed', () => {
  test('is told, but for what it has only touched', () => {
    const { publisher, parent, payload, told, headNow } = opened()
    const block = payload({ 2: [9, 9] })
    publisher.publish(heads(parent, parent, block))
    const from = headNow()
    publisher.add(block, increment(block.number, 1, diffOf({ 0: [1, 5], 1: [2, 1], 2: [9, 9] })))
    publisher.publish(heads(parent, parent, block))
    expect(told(from)).toEqual(['account 1', 'slot 0'])
    expect(told(headNow())).toEqual([])
  })

  test('and changed back is not', () => {
    const { publisher, parent, payload, told, headNow } = opened()
    const block = payload({ 0: [1, 1] })
    publisher.publish(heads(parent, parent, block))
    const from = headNow()
    for (const [index, value] of [7, 1].entries()) {
      publisher.add(block, increment(block.number, index + 1, diffOf({ 0: [value, value] })))
      publisher.publish(heads(parent, parent, block))
    }
    expect(told(from)).toEqual([])
  })

  test('of which no older value is in a table is told in any case', () => {
    const { publisher, parent, payload, told, headNow } = opened()
    publisher.publish(heads(parent))
    const from = headNow()
    const block = payload({ 2: [0, 0] })
    publisher.publish(heads(parent, parent, block))
    expect(told(from)).toEqual(['account 2', 'slot 2'])
  })
})

describe('a head that has moved', () => {
  test('over blocks: what the rest of the first and the others have changed', () => {
    const { publisher, parent, payload, told, headNow } = opened()
    const block = payload({ 0: [3] })
    publisher.publish(heads(parent, parent, block))
    const from = headNow()
    const next = increment(block.number, 1, diffOf({ 1: [3] }))
    publisher.add(block, next)
    publisher.finish(block, next.header, next.hash)
    const above = payload({ 2: [3] }, block)
    publisher.publish(heads(parent, block, above))
    expect(told(from)).toEqual(['account 1', 'account 2'])
    expect(told(headNow('canonical'))).toEqual(['account 0', 'account 1', 'account 2'])
  })

  test('to another payload, or back, is of another chain', () => {
    const { publisher, parent, payload, told, headNow } = opened()
    const block = payload({ 0: [3] })
    publisher.publish(heads(parent, parent, block))
    const from = headNow()
    publisher.publish(heads(parent))
    expect(told(from)).toBe(undefined)
    publisher.publish(heads(parent, parent, payload({ 0: [3] })))
    expect(told(from)).toBe(undefined)
  })

  test('from the base, and from what was folded since', () => {
    const made = opened()
    const { publisher, store, parent, told, headNow } = made
    publisher.publish(heads(parent))
    const from = headNow('canonical')
    const next = whole(publisher, parent, diffOf({ 1: [8] }))
    append(made, parent, diffOf({ 0: [1, 1], 1: [1, 1] }))
    publisher.publish(heads(next))
    foldAll(store, parent)
    publisher.folded(parent)
    publisher.publish(heads(next))
    // Nothing says what folded values were.
    expect(told(from, 'canonical')).toEqual(['account 1'])
    const last = whole(publisher, next, diffOf({ 2: [8] }))
    append(made, next, diffOf({ 1: [8] }))
    foldAll(store, next)
    publisher.folded(next)
    publisher.publish(heads(last))
    expect(told(from, 'canonical')).toBe(undefined)
    expect(GENESIS).toBeLessThan(last.number)
  })

  test('further than may be looked at', () => {
    const { publisher, parent, told, headNow } = opened(400)
    publisher.publish(heads(parent))
    const from = headNow()
    let block = parent
    for (let count = 0; count < 32; count++) block = whole(publisher, block, diffOf({ 1: [count] }))
    publisher.publish(heads(parent, parent, block))
    expect(told(from)).toEqual(['account 1'])
    publisher.publish(heads(parent, parent, whole(publisher, block, diffOf({ 1: [99] }))))
    expect(told(from)).toBe(undefined)
  })
})

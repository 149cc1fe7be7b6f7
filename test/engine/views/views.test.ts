import { describe, expect, test } from 'vitest'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { clearThread, FLOOR, snapshotAt } from '../../../engine/views/arena.ts'
import { chosenMemory, MAX_RETAINED_BLOCKS, viewMemory } from '../../../engine/views/memory.ts'
import { openState } from '../../../engine/views/reader.ts'
import { prefixOf } from '../../../engine/views/walk.ts'
import {
  account,
  append,
  finished,
  GENESIS,
  heads,
  increment,
  newest,
  open,
  persistAll,
  word,
  write,
} from '../../fixtures/small-views.ts'
import { ADDRESSES, accountNumber, SLOTS, slotNumber } from '../../fixtures/view-blocks.ts'

describe('a publish', () => {
  test('makes a flashblock visible, and older snapshots keep their state', () => {
    const { publisher, thread } = open()
    const { base } = publisher
    publisher.publish(heads(base))
    const reader = thread(0)
    const first = newest(reader)
    const block = publisher.start(base)
    publisher.add(block, increment(101, 0, write(1)))
    expect(first.read()).toEqual([0, 0])
    expect(publisher.publish(heads(base, base, block))).toBe(2)
    const second = newest(reader)
    publisher.add(block, increment(101, 1, write(2)))
    expect(second.read()).toEqual([1, 1])
    publisher.publish(heads(base, base, block))
    expect(newest(reader).read()).toEqual([2, 2])
    expect(newest(reader, 'complete').read()).toEqual([0, 0])
    expect(second.read()).toEqual([1, 1])
    expect(first.read()).toEqual([0, 0])
  })

  test('gives a second payload of a height its own diff layer', () => {
    const { publisher, thread } = open()
    const { base } = publisher
    const reader = thread(0)
    const dropped = publisher.start(base)
    publisher.add(dropped, increment(101, 0, write(1)))
    publisher.add(dropped, increment(101, 1, write(2)))
    publisher.publish(heads(base, base, dropped))
    const old = newest(reader)
    const other = publisher.start(base)
    publisher.add(other, increment(101, 0, write(7)))
    publisher.publish(heads(base, base, other))
    expect(newest(reader).read()).toEqual([7, 7])
    expect(old.read()).toEqual([2, 2])
  })

  test('refuses heads that are not one chain, and unfinished blocks', () => {
    const { publisher } = open()
    const { base } = publisher
    const one = finished(publisher, base, write(1))
    const other = finished(publisher, base, write(2))
    expect(() => publisher.publish(heads(one, other))).toThrow('block 101 is no ancestor')
    const open101 = publisher.start(base)
    expect(() => publisher.publish(heads(base, base, open101))).toThrow('has no increment')
    publisher.add(open101, increment(101, 0, write(3)))
    expect(() => publisher.publish(heads(base, open101))).toThrow('block 101 is not finished')
    expect(() => publisher.start(open101)).toThrow('cannot have a child')
    expect(() => publisher.add(one, increment(101, 1, write(3)))).toThrow('finished already')
    expect(() => publisher.add(open101, increment(101, 0, write(3)))).toThrow('index 0 after 0')
  })

  test('spreads a large block over several diff layers', () => {
    const { publisher, thread } = open(256)
    const diff = Array.from({ length: 300 }, (_, n) => ({
      address: Uint8Array.from({ length: 20 }, (__, at) => (at < 2 ? n >> (8 * at) : 9)),
      before: undefined,
      after: account(n + 1),
      slots: [{ key: SLOTS[0]!, before: word(0), after: word(n + 1) }],
      code: undefined,
    }))
    const block = publisher.start(publisher.base)
    publisher.add(block, increment(101, 0, [...diff, ...write(1)], 10_000))
    publisher.add(block, increment(101, 1, [...diff.slice(0, 9), ...write(2)], 10))
    publisher.publish(heads(publisher.base, publisher.base, block))
    const reader = thread(0)
    const { lease, read } = newest(reader)
    expect(read()).toEqual([2, 2])
    const state = openState(reader, lease, lease.snapshot.pending)
    const out = new Uint32Array(18)
    for (const { address, after } of diff) {
      expect(state.account(new Uint32Array(address.slice().buffer), out, 0)).toBe('present')
      expect(new DataView(out.buffer).getBigUint64(0)).toBe(after!.nonce)
    }
  })
})

test('a prefix of a block skips later values in each of its diff layers', () => {
  const { publisher, thread } = open(256)
  const block = publisher.start(publisher.base)
  const many = Array.from({ length: 200 }, (_, n) => ({
    ...write(1)[0]!,
    address: Uint8Array.from({ length: 20 }, () => n + 50),
  }))
  for (const [index, diff] of [write(1), write(2), many, write(3)].entries())
    publisher.add(block, increment(101, index, diff))
  publisher.publish(heads(publisher.base, publisher.base, block))
  const reader = thread(0)
  const lease = reader.leases.lease()
  const seen = [0, 1, 2, 3].map((index) => {
    const at = prefixOf(reader.arena, lease.snapshot.pending, index)!
    const state = openState(reader, lease, at)
    const [slot] = state.slots(new Uint32Array(ADDRESSES[0]!.slice().buffer))
    return [accountNumber(state, 0), slotNumber(state, 0, 0), slot!.value[31]]
  })
  expect(seen).toEqual([1, 2, 2, 3].map((value) => [value, value, value]))
  expect(prefixOf(reader.arena, lease.snapshot.pending, 4)).toBeUndefined()
})

describe('view memory', () => {
  test('an increment that does not fit changes nothing', () => {
    const { publisher, thread } = open(8)
    const { base } = publisher
    const block = publisher.start(base)
    publisher.add(block, increment(101, 0, write(1)))
    publisher.publish(heads(base, base, block))
    const { freePages } = publisher.stats()
    expect(publisher.add(block, increment(101, 1, write(2), 20_000))).toBe('full')
    expect(publisher.stats().freePages).toBe(freePages)
    expect(publisher.add(block, increment(101, 1, write(2)))).toBe('added')
    publisher.publish(heads(base, base, block))
    expect(newest(thread(0)).read()).toEqual([2, 2])
  })

  test('pages of unreachable diff layers are freed when no lease is older', () => {
    const { publisher, thread } = open(12)
    const { base } = publisher
    const reader = thread(1)
    const payload = (value: number) => {
      const block = publisher.start(base)
      const verdict = publisher.add(block, increment(101, 0, write(value)))
      if (verdict === 'added') publisher.publish(heads(base, base, block))
      return verdict
    }
    payload(1)
    const pinned = newest(reader)
    let value = 2
    while (payload(value) === 'added') value++
    expect(value).toBeGreaterThan(5)
    expect(pinned.read()).toEqual([1, 1])
    expect(publisher.stats().oldestLease).toBe(pinned.lease.snapshot.number)
    const { pages: all, freePages: none, pinnedPages } = publisher.stats()
    expect(pinnedPages).toBeGreaterThan(all / 2)
    pinned.lease.release()
    expect(publisher.stats()).toMatchObject({ pinnedPages: 0, freePages: none + pinnedPages })
    for (let more = 0; more < 100; more++) expect(payload(value + more)).toBe('added')
    const { freePages, pages, diffLayers } = publisher.stats()
    expect([pages, diffLayers]).toEqual([12, 1])
    expect(freePages).toBeGreaterThan(0)
  })

  test('a diff layer submitted to the persistence thread stays until the response', () => {
    const { publisher, thread } = open(16)
    const { base } = publisher
    const submitted = finished(publisher, base, write(1))
    publisher.publish(heads(base, submitted))
    publisher.submitForPersistence(submitted)
    for (let value = 2; value < 60; value++) {
      const block = publisher.start(base)
      expect(publisher.add(block, increment(101, 0, write(value)))).toBe('added')
      publisher.publish(heads(base, base, block))
    }
    publisher.onResponse(submitted)
    publisher.publish(heads(submitted))
    expect(newest(thread(0)).read()).toEqual([1, 1])
  })

  test('the row of a thread that ended is cleared', () => {
    const { publisher, thread, views } = open()
    publisher.publish(heads(publisher.base))
    thread(2).leases.lease()
    publisher.publish(heads(publisher.base))
    expect(publisher.stats().oldestLease).toBe(1)
    clearThread(views, 2)
    expect(publisher.stats().oldestLease).toBe(2)
    expect(() => clearThread(views, 3)).toThrow('thread 3 of 3')
  })

  test('a leased snapshot in the ring is never overwritten', () => {
    const { publisher, thread } = open()
    publisher.publish(heads(publisher.base))
    const pinned = thread(1).leases.lease()
    const publishMany = () => {
      for (let n = 0; n < 5000; n++) publisher.publish(heads(publisher.base))
    }
    expect(publishMany).toThrow('snapshot 1 is still leased after 4096 publishes')
    pinned.release()
    publishMany()
    expect(publisher.stats().snapshots).toBe(9096)
  })

  test('a snapshot below the floor is not overwritten while it is leased', () => {
    const { publisher, thread, views } = open()
    publisher.publish(heads(publisher.base))
    const pinned = thread(1).leases.lease()
    publisher.publish(heads(publisher.base))
    // The recycler does this when it read the rows just before the row was set.
    Atomics.store(new Int32Array(views.buffer), FLOOR, 2)
    const publishMany = () => {
      for (let n = 0; n < 5000; n++) publisher.publish(heads(publisher.base))
    }
    expect(publishMany).toThrow('snapshot 1 is still leased after 4096 publishes')
    pinned.release()
    publishMany()
  })

  test('the size follows from the gas limit, and less than the minimum is refused', () => {
    const memory = viewMemory({ gasLimit: 50_000_000, blockTimeMs: 1000, deadlineMs: 11_000 })
    expect(Math.round(memory.bytes / 2 ** 20)).toBe(256)
    expect(Math.round(memory.minimum / 2 ** 20)).toBe(45)
    expect(chosenMemory(undefined, memory)).toBe(memory.bytes)
    expect(chosenMemory(memory.minimum, memory)).toBe(memory.minimum)
    expect(() => chosenMemory(memory.minimum - 1, memory)).toThrow('needs at least')
    expect(() => viewMemory({ gasLimit: 0, blockTimeMs: 1, deadlineMs: 1 })).toThrow('gasLimit')
    const pinned = { foldDepth: MAX_RETAINED_BLOCKS, gasLimit: 50_000_000, blockTimeMs: 1000 }
    const max = viewMemory({ ...pinned, deadlineMs: 11_000 })
    expect(Math.round(max.bytes / 2 ** 20)).toBe(640)
    expect(max.minimum).toBeGreaterThan(memory.bytes)
  })
})

describe('leases of snapshots', () => {
  test('a lease that cannot be read pins nothing', () => {
    const { publisher, thread, views } = open(8)
    const [front, other] = [thread(0), thread(1)]
    const publish = () => publisher.publish(heads(publisher.base))
    const oldest = () => {
      publish()
      return publisher.stats().oldestLease
    }
    for (let n = 0; n < 3; n++) publish()
    const words = new Int32Array(views.buffer)
    const spoil = (number: number) => {
      words[snapshotAt(front.arena, number)] = 77
    }
    spoil(2)
    expect(() => front.leases.adopt(2)).toThrow('snapshot 2 was overwritten by 77')
    expect(oldest()).toBe(publisher.stats().snapshots)
    // The thread's other leases stay.
    const pinned = other.leases.lease()
    const { number } = pinned.snapshot
    publish()
    spoil(number + 1)
    expect(() => other.leases.adopt(number + 1)).toThrow('was overwritten by 77')
    expect(oldest()).toBe(number)
    pinned.release()
    expect(oldest()).toBe(publisher.stats().snapshots)
  })

  test('a worker adopts below the floor only while its front leases the snapshot', () => {
    const { publisher, thread } = open(8)
    const { base } = publisher
    const [front, worker] = [thread(0), thread(1)]
    const payload = () => {
      const block = publisher.start(base)
      if (publisher.add(block, increment(101, 0, write(1))) === 'added')
        publisher.publish(heads(base, base, block))
    }
    payload()
    const pinned = front.leases.lease()
    // The pages run out, so the recycler reads the rows and raises the floor to the front's row.
    for (let n = 0; n < 20; n++) payload()
    const adopted = worker.leases.adopt(pinned.snapshot.number)!
    expect(adopted.snapshot).toEqual(pinned.snapshot)
    pinned.release()
    for (let n = 0; n < 20; n++) payload()
    expect(publisher.stats().oldestLease).toBe(adopted.snapshot.number)
    adopted.release()
    for (let n = 0; n < 20; n++) payload()
    expect(worker.leases.adopt(pinned.snapshot.number)).toBeUndefined()
    expect(publisher.stats().oldestLease).toBe(publisher.stats().snapshots)
  })

  test('a lease below the floor is refused unless the front covers it', () => {
    const { publisher, thread, views } = open()
    publisher.publish(heads(publisher.base))
    publisher.publish(heads(publisher.base))
    const [front, worker, other] = [thread(0), thread(1), thread(2)]
    const pinned = front.leases.adopt(1)!
    // The recycler does this when it read the rows just before the front's row was set.
    Atomics.store(new Int32Array(views.buffer), FLOOR, 2)
    const adopted = worker.leases.adopt(1)
    expect(adopted?.snapshot.number).toBe(1)
    pinned.release()
    expect(other.leases.adopt(1)).toBeUndefined()
    expect(publisher.stats().oldestLease).toBe(1)
    adopted!.release()
    expect(front.leases.adopt(1)).toBeUndefined()
    expect(worker.leases.adopt(1)).toBeUndefined()
    expect(publisher.stats().oldestLease).toBe(2)
  })

  test('a front covers only its own workers', () => {
    const { publisher, thread, views } = open()
    publisher.publish(heads(publisher.base))
    publisher.publish(heads(publisher.base))
    const [first, second, worker] = [thread(0), thread(1, 1), thread(2, 1)]
    const pinned = second.leases.adopt(1)!
    Atomics.store(new Int32Array(views.buffer), FLOOR, 2)
    expect(first.leases.adopt(1)).toBeUndefined()
    expect(thread(2).leases.adopt(1)).toBeUndefined()
    const adopted = worker.leases.adopt(1)
    pinned.release()
    expect(publisher.stats().oldestLease).toBe(1)
    adopted!.release()
    expect(worker.leases.adopt(1)).toBeUndefined()
    expect(() => thread(1, 2)).toThrow('the front of thread 1 is 2, expected 0 to 1')
  })

  test('a thread with several leases pins the oldest of their snapshots', () => {
    const { publisher, thread } = open()
    publisher.publish(heads(publisher.base))
    const reader = thread(0)
    const first = reader.leases.lease()
    const repeated = reader.leases.lease()
    publisher.publish(heads(publisher.base))
    const second = reader.leases.lease()
    first.release()
    first.release()
    expect(publisher.stats().oldestLease).toBe(1)
    publisher.publish(heads(publisher.base))
    repeated.release()
    expect(publisher.stats().oldestLease).toBe(2)
    second.release()
    expect(publisher.stats().oldestLease).toBe(3)
  })

  test('a lease allows no read after its release', () => {
    const { publisher, thread } = open()
    publisher.publish(heads(publisher.base))
    const { lease, read } = newest(thread(0))
    lease.release()
    expect(read).toThrow('released already')
  })
})

describe('persist passes under views', () => {
  test('overtaken readers read history, and later readers read flat state', () => {
    const opened = open()
    const { publisher, store, thread } = opened
    const reader = thread(0)
    publisher.publish(heads(publisher.base))
    const old = newest(reader)
    expect(old.read()).toEqual([0, 0])
    const one = finished(publisher, publisher.base, write(1))
    append(opened, one, write(1))
    publisher.publish(heads(one))
    const at101 = newest(reader)
    store.persistSlice(one.id)
    expect(old.read()).toEqual([0, 0])
    expect(at101.read()).toEqual([1, 1])
    persistAll(store, one)
    expect(old.read()).toEqual([0, 0])
    publisher.persisted(one)
    publisher.publish(heads(one))
    const persisted = newest(reader)
    expect(persisted.lease.snapshot.base.id).toBe(one.id)
    expect(persisted.read()).toEqual([1, 1])
    expect([old.read(), at101.read()]).toEqual([
      [0, 0],
      [1, 1],
    ])
  })

  test('a prefix of a block does not take the persisted block for its own state', () => {
    const opened = open()
    const { publisher, store, thread } = opened
    const reader = thread(0)
    const { base } = publisher
    const block = publisher.start(base)
    publisher.add(block, increment(101, 0, []))
    publisher.publish(heads(base, base, block))
    const prefix = newest(reader)
    const last = increment(101, 1, write(1))
    publisher.add(block, last)
    publisher.finish(block, last.header, last.hash)
    append(opened, block, write(1))
    publisher.publish(heads(block))
    persistAll(store, block)
    expect(prefix.read()).toEqual([0, 0])
  })

  test('a persist pass may come between any two reads', () => {
    for (let slices = 0; slices < 3; slices++)
      for (let reads = 0; reads < 8; reads++) {
        const opened = open()
        const { publisher, store, thread } = opened
        publisher.publish(heads(publisher.base))
        const one = finished(publisher, publisher.base, write(1))
        append(opened, one, write(1))
        for (let n = 0; n < slices; n++) store.persistSlice(one.id)
        let left = reads
        const late = <Arguments extends unknown[], Result>(read: (...of: Arguments) => Result) => {
          return (...of: Arguments) => {
            if (left-- === 0) persistAll(store, one)
            return read(...of)
          }
        }
        const raced = {
          ...store,
          flatAccount: late(store.flatAccount),
          flatSlot: late(store.flatSlot),
          accountHistory: late(store.accountHistory),
          slotHistory: late(store.slotHistory),
        }
        const { read } = newest({ ...thread(0), store: raced })
        expect(read(), `${slices} slices, ${reads} reads before`).toEqual([0, 0])
      }
  })

  test('a cached value is used until a persist pass changes its key', () => {
    const opened = open()
    const { publisher, store, thread } = opened
    const reader = thread(0)
    let reads = 0
    const counted = {
      ...reader,
      store: { ...store, flatSlot: count(store.flatSlot), flatAccount: count(store.flatAccount) },
    }
    function count<Argument, Result>(read: (argument: Argument) => Result) {
      return (argument: Argument) => {
        reads++
        return read(argument)
      }
    }
    let parent = publisher.base
    publisher.publish(heads(parent))
    for (const value of [1, 0, 2]) {
      expect(newest(counted).read()).toEqual(newest(counted).read())
      const block = finished(publisher, parent, write(value))
      append(opened, block, write(value))
      publisher.publish(heads(block))
      persistAll(store, block)
      publisher.persisted(block)
      publisher.publish(heads(block))
      const before = reads
      expect(newest(counted).read()).toEqual([value, value])
      expect(newest(counted).read()).toEqual([value, value])
      // No hash collides with the slot here: two reads follow the persist pass, and the second
      // lookup needs none.
      expect(reads - before).toBe(2)
      parent = block
    }
  })

  test('a cached value is void with its view, also after a pass of another branch', () => {
    const opened = open()
    const { publisher, store, thread } = opened
    const reader = thread(0)
    const chain = [publisher.base]
    for (const diff of [write(1), [], write(3, 1)]) {
      const block = finished(publisher, chain.at(-1)!, diff)
      append(opened, block, diff)
      persistAll(store, block)
      publisher.persisted(block)
      publisher.publish(heads(block))
      chain.push(block)
      // The value is read at height 102 and cached; the persist pass of 103 marks it stale.
      if (block.number === 102) expect(newest(reader).read()).toEqual([1, 1])
    }
    const old = newest(reader)
    const other = finished(publisher, chain[1]!, write(5, 1))
    append(opened, other, write(5, 1))
    persistAll(store, other)
    expect(old.read).toThrow(ViewError)
  })

  test('a read of pruned history reports that it is pruned', () => {
    const opened = open()
    const { publisher, store, thread } = opened
    publisher.publish(heads(publisher.base))
    const old = newest(thread(0))
    const one = finished(publisher, publisher.base, write(1))
    append(opened, one, write(1))
    persistAll(store, one)
    expect(old.read()).toEqual([0, 0])
    store.prune(101)
    expect(old.read).toThrow(new ViewError('pruned', 'state of block 100 is not kept any more'))
  })

  test('an unwind makes older views void', () => {
    const opened = open()
    const { publisher, store, thread } = opened
    const reader = thread(0)
    const { base } = publisher
    const one = finished(publisher, base, write(1))
    append(opened, one, write(1))
    publisher.publish(heads(one))
    persistAll(store, one)
    publisher.persisted(one)
    publisher.publish(heads(one))
    const old = newest(reader)
    expect(old.read()).toEqual([1, 1])
    store.unwind(base)
    expect(newest({ ...reader, cache: thread(1).cache }).read).toThrow(ViewError)
    const back = publisher.unwound({
      number: GENESIS,
      hash: store.genesisHash,
      id: base.id,
      unwinds: 1,
    })
    const other = finished(publisher, back, write(9))
    append(opened, other, write(9))
    publisher.publish(heads(other))
    expect(newest(reader).read()).toEqual([9, 9])
    expect(newest(reader, 'canonical').read()).toEqual([9, 9])
    persistAll(store, other)
    expect(newest(reader).read()).toEqual([9, 9])
  })
})

describe('the slots of an account', () => {
  test('are those of the diff layers over those of flat state', () => {
    const opened = open()
    const { publisher, store, thread } = opened
    const slots = (values: readonly number[]): StateDiff => [
      {
        address: ADDRESSES[1]!,
        before: undefined,
        after: account(1),
        slots: values.map((after, at) => ({
          key: SLOTS[at]!,
          before: word(0),
          after: word(after),
        })),
        code: undefined,
      },
    ]
    const one = finished(publisher, publisher.base, slots([1, 2, 3]))
    append(opened, one, slots([1, 2, 3]))
    publisher.publish(heads(one))
    persistAll(store, one)
    publisher.persisted(one)
    const block = publisher.start(one)
    publisher.add(block, increment(102, 0, slots([5, 0])))
    publisher.publish(heads(one, one, block))
    const reader = thread(0)
    const { lease } = newest(reader)
    publisher.add(block, increment(102, 1, slots([6, 6, 6, 6])))
    const state = openState(reader, lease, lease.snapshot.pending)
    const found = [...state.slots(new Uint32Array(ADDRESSES[1]!.slice().buffer))]
    expect(found.map(({ key, value }) => [key[0], value[31]]).sort()).toEqual([
      [1, 5],
      [3, 3],
    ])
  })

  test('of a view are not taken from a newer block that was persisted', () => {
    const opened = open()
    const { publisher, store, thread } = opened
    publisher.publish(heads(publisher.base))
    const reader = thread(0)
    const { lease } = newest(reader)
    const one = finished(publisher, publisher.base, write(1))
    append(opened, one, write(1))
    persistAll(store, one)
    const state = openState(reader, lease, lease.snapshot.pending)
    const owner = new Uint32Array(ADDRESSES[0]!.slice().buffer)
    expect(() => state.hasSlots(owner)).toThrow(ViewError)
  })

  test('of a prefix include all changes of the blocks below it', () => {
    const { publisher, thread } = open()
    const one = publisher.start(publisher.base)
    for (const value of [1, 2]) publisher.add(one, increment(101, value - 1, write(value)))
    const { header, hash } = increment(101, 2, [])
    publisher.finish(one, header, hash)
    const two = publisher.start(one)
    publisher.add(two, increment(102, 0, []))
    publisher.publish(heads(publisher.base, one, two))
    const reader = thread(0)
    const { lease } = newest(reader)
    const state = openState(reader, lease, lease.snapshot.pending)
    const found = [...state.slots(new Uint32Array(ADDRESSES[0]!.slice().buffer))]
    expect(found.map(({ value }) => value[31])).toEqual([2])
  })
})

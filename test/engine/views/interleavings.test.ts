/** What one thread does at each single access of another to shared memory: the places between two of them are few, and all are tried. */
import { expect, test } from 'vitest'
import { ViewError } from '../../../engine/state/reader.ts'
import { FLOOR } from '../../../engine/views/arena.ts'
import { interleaveEach } from '../../fixtures/interleave.ts'
import { append, foldAll, heads, newest, open, whole, write } from '../../fixtures/small-views.ts'

test('an unfold at any access of a read leaves the right answer, or none', () => {
  let voids = 0
  const accesses = interleaveEach(() => {
    const opened = open()
    const { publisher, store, thread } = opened
    publisher.publish(heads(publisher.base))
    const { read } = newest(thread(0))
    const one = whole(publisher, publisher.base, write(1))
    append(opened, one, write(1))
    foldAll(store, one)
    const other = whole(publisher, publisher.base, write(2))
    return {
      run() {
        try {
          expect(read()).toEqual([0, 0])
        } catch (error) {
          if (!(error instanceof ViewError)) throw error
          voids++
        }
      },
      meanwhile: () => append(opened, other, write(2)),
    }
  })
  expect([accesses, voids > 0]).toEqual([18, true])
})

test('a fold at any access of a read leaves the right answer', () => {
  const accesses = interleaveEach(() => {
    const opened = open()
    const { publisher, store, thread } = opened
    publisher.publish(heads(publisher.base))
    const { read } = newest(thread(0))
    const one = whole(publisher, publisher.base, write(1))
    append(opened, one, write(1))
    return { run: () => expect(read()).toEqual([0, 0]), meanwhile: () => foldAll(store, one) }
  })
  expect(accesses).toBe(48)
})

test('a row of the front that it takes back covers no worker', () => {
  const accesses = interleaveEach(() => {
    const { publisher, thread, views } = open()
    for (let n = 0; n < 2; n++) publisher.publish(heads(publisher.base))
    const [front, worker] = [thread(0), thread(1)]
    Atomics.store(new Int32Array(views.buffer), FLOOR, 2)
    return {
      run: () => expect(front.leases.adopt(1)).toBeUndefined(),
      meanwhile: () => expect(worker.leases.adopt(1)).toBeUndefined(),
    }
  })
  expect(accesses).toBeGreaterThan(3)
})

/**
 * Another thread acts at each single access to shared memory. The moments between two accesses are
 * few, and all are tried.
 */
import { expect, test } from 'vitest'
import { ViewError } from '../../../engine/state/reader.ts'
import { FLOOR } from '../../../engine/views/arena.ts'
import { interleaveEach } from '../../fixtures/interleave.ts'
import {
  append,
  finished,
  heads,
  newest,
  open,
  persistAll,
  write,
} from '../../fixtures/small-views.ts'

test('an unwind at any access of a read gives the right value or an error', () => {
  let voids = 0
  const accesses = interleaveEach(() => {
    const opened = open()
    const { publisher, store, thread } = opened
    publisher.publish(heads(publisher.base))
    const { read } = newest(thread(0))
    const one = finished(publisher, publisher.base, write(1))
    append(opened, one, write(1))
    persistAll(store, one)
    const other = finished(publisher, publisher.base, write(2))
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

test('a persist pass at any access of a read gives the right value', () => {
  const accesses = interleaveEach(() => {
    const opened = open()
    const { publisher, store, thread } = opened
    publisher.publish(heads(publisher.base))
    const { read } = newest(thread(0))
    const one = finished(publisher, publisher.base, write(1))
    append(opened, one, write(1))
    return { run: () => expect(read()).toEqual([0, 0]), meanwhile: () => persistAll(store, one) }
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

/** Fetched state waits for a disk that stands still, and its callers get an error. */
import { expect, test } from 'vitest'
import { createFillQueue } from '../../../../engine/sources/lazy/fill-queue.ts'

const BLOCK = { number: 1, hash: new Uint8Array(32) }

function open(maxOpen: number) {
  const timers = new Set<() => void>()
  const sent: number[] = []
  const fillQueue = createFillQueue({
    maxOpen,
    waitMs: 8_000,
    after(_, work) {
      timers.add(work)
      return () => void timers.delete(work)
    },
    send: (request) => void sent.push(request),
  })
  const expire = () => {
    for (const work of [...timers]) {
      timers.delete(work)
      work()
    }
  }
  return { fillQueue, sent, expire, timers }
}

test('a limited number of fills is open, and each response lets the next one start', async () => {
  const { fillQueue, sent, timers } = open(2)
  const fills = [0, 1, 2, 3].map(() => fillQueue.fill(BLOCK, []))
  expect(sent).toEqual([1, 2])
  fillQueue.onResponse(1, { written: 7 })
  expect(sent).toEqual([1, 2, 3])
  for (const request of [2, 3, 4]) fillQueue.onResponse(request, { written: request })
  expect(await Promise.all(fills)).toEqual([7, 2, 3, 4].map((written) => ({ written })))
  expect(timers.size).toBe(0)
})

test('a stalled disk stops further fills, and waiting callers get an error', async () => {
  const { fillQueue, sent, expire } = open(2)
  const first = [fillQueue.fill(BLOCK, []), fillQueue.fill(BLOCK, [])]
  const late = Array.from({ length: 50 }, () => fillQueue.fill(BLOCK, []))
  const ends = Promise.allSettled(late)
  expire()
  // Sent requests may still be written, so they are looked up and do not count as refused.
  expect(await Promise.all(first)).toEqual([{ written: 0 }, { written: 0 }])
  const reasons = (await ends).map((end) => end.status === 'rejected' && end.reason.message)
  expect(new Set(reasons)).toEqual(new Set(['the disk is busy: 2 requests with state wait for it']))
  // Requests without a waiting caller are open all the same.
  const next = fillQueue.fill(BLOCK, [])
  expect(sent).toEqual([1, 2])
  fillQueue.onResponse(1, { written: 1 })
  fillQueue.onResponse(1, { written: 1 })
  expect(sent).toEqual([1, 2, 3])
  fillQueue.onResponse(3, { written: 3 })
  expect(await next).toEqual({ written: 3 })
})

/** A disk that stands still: fetched state waits for it, and its callers are told. */
import { expect, test } from 'vitest'
import { createFillGate } from '../../../../engine/sources/lazy/fill-gate.ts'

const BLOCK = { number: 1, hash: new Uint8Array(32) }

function open(maxOpen: number) {
  const timers = new Set<() => void>()
  const sent: number[] = []
  const gate = createFillGate({
    ...{ maxOpen, waitMs: 8_000 },
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
  return { gate, sent, expire, timers }
}

test('so many are open, and the next one goes with the answer of the first', async () => {
  const { gate, sent, timers } = open(2)
  const fills = [0, 1, 2, 3].map(() => gate.fill(BLOCK, []))
  expect(sent).toEqual([1, 2])
  gate.answered(1, { kept: 7 })
  expect(sent).toEqual([1, 2, 3])
  for (const request of [2, 3, 4]) gate.answered(request, { kept: request })
  expect(await Promise.all(fills)).toEqual([7, 2, 3, 4].map((kept) => ({ kept })))
  expect(timers.size).toBe(0)
})

test('while the disk stands still no more are sent, and who waits is told so', async () => {
  const { gate, sent, expire } = open(2)
  const first = [gate.fill(BLOCK, []), gate.fill(BLOCK, [])]
  const late = Array.from({ length: 50 }, () => gate.fill(BLOCK, []))
  const ends = Promise.allSettled(late)
  expire()
  // What was sent may still be written: it is looked for, and not taken for refused.
  expect(await Promise.all(first)).toEqual([{ kept: 0 }, { kept: 0 }])
  const reasons = (await ends).map((end) => end.status === 'rejected' && end.reason.message)
  expect(new Set(reasons)).toEqual(new Set(['the disk is busy: 2 requests with state wait for it']))
  // Those that nobody waits for any more are open all the same.
  const next = gate.fill(BLOCK, [])
  expect(sent).toEqual([1, 2])
  gate.answered(1, { kept: 1 })
  gate.answered(1, { kept: 1 })
  expect(sent).toEqual([1, 2, 3])
  gate.answered(3, { kept: 3 })
  expect(await next).toEqual({ kept: 3 })
})

/** Many closings at once take turns of the event loop. */
import { expect, test } from 'vitest'
import { createClosing } from '../../../rpc/sockets/closing.ts'

test('sockets to close are closed in order, a limited number per turn', async () => {
  const close = createClosing(10)
  const closed: number[] = []
  for (let at = 0; at < 25; at++) close(() => closed.push(at))
  const perTurn: number[] = []
  for (let before = 0; closed.length < 25; before = closed.length) {
    await new Promise((resolve) => setImmediate(resolve))
    perTurn.push(closed.length - before)
  }
  expect(Math.max(...perTurn)).toBe(10)
  expect(perTurn.length).toBeGreaterThanOrEqual(3)
  expect(closed).toEqual(Array.from({ length: 25 }, (_, at) => at))
})

test('a socket that closes may ask to close another one', async () => {
  const close = createClosing(1)
  const closed: string[] = []
  close(() => {
    closed.push('first')
    close(() => closed.push('second'))
  })
  await expect.poll(() => closed).toEqual(['first', 'second'])
})

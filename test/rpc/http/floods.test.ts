/** Requests wait for their turn of the event loop. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createTurns } from '../../../rpc/http/floods.ts'

describe('turns of the event loop', () => {
  test('are shared between addresses, and keep the order of each address', async () => {
    const later = createTurns(4)
    const done: string[] = []
    const add = (key: string, name: string) => later(key, () => void done.push(name))
    for (let at = 0; at < 1_000; at++) add('a', `a${at}`)
    for (const name of ['b0', 'b1', 'b2']) add('b', name)
    add('c', 'c0')
    await nextTurn()
    expect(done).toEqual(['a0', 'b0', 'c0', 'a1'])
    await nextTurn()
    expect(done.splice(0)).toEqual(['a0', 'b0', 'c0', 'a1', 'b1', 'a2', 'b2', 'a3'])
    while (done.length < 996) await nextTurn()
    expect(done).toEqual(Array.from({ length: 996 }, (_, at) => `a${at + 4}`))
    add('a', 'again')
    await nextTurn()
    expect(done.at(-1)).toBe('again')
  })
  test('also limit work that other work adds', async () => {
    const later = createTurns(2)
    let done = 0
    const add = (): void =>
      later('a', () => {
        done++
        if (done < 40) add()
      })
    add()
    for (let turn = 1; turn <= 20; turn++) {
      await nextTurn()
      expect(done).toBeLessThanOrEqual(2 * turn)
    }
    expect(done).toBe(40)
  })
})

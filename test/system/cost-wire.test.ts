/** Checks the frames that `npm run cost` sends. */
import { describe, expect, test } from 'vitest'
import { mulberry32 } from '../kit/run-options.ts'
import { diceOf } from '../outside/cost/random.ts'
import { textOf } from '../outside/cost/rope.ts'
import { type Case, framed, headersOf, wireOf } from '../outside/cost/wire.ts'

const plain: Case = {
  over: 'websocket',
  path: '/',
  frame: 'text',
  body: 'hello',
  times: 1,
  pieces: [],
  headers: '',
  part: 1,
  writes: [],
}
/** Opcode of each frame, whether it is the last of its message, and its length. */
function framesIn(wire: Buffer): (readonly [opcode: number, isLast: boolean, length: number])[] {
  const frames: (readonly [number, boolean, number])[] = []
  for (let at = 0; at < wire.length; ) {
    const length = wire[at + 1]! & 127
    frames.push([wire[at]! & 15, wire[at]! >= 0x80, length])
    at += 6 + length
  }
  return frames
}

describe('a case over a WebSocket', () => {
  const cases: [change: Partial<Case>, frames: ReturnType<typeof framesIn>][] = [
    [{}, [[1, true, 5]]],
    [{ frame: 'binary' }, [[2, true, 5]]],
    [
      { frame: 'binary', pieces: [3] },
      [
        [2, false, 3],
        [0, true, 2],
      ],
    ],
    [{ frame: 'ping' }, [[9, true, 5]]],
    [
      { frame: 'pong', pieces: [4] },
      [
        [10, true, 4],
        [10, true, 1],
      ],
    ],
    [{ frame: 'close' }, [[8, true, 7]]],
  ]
  test.each(cases)('is sent in the right frames with %j', (change, frames) => {
    expect(framesIn(wireOf({ ...plain, ...change }, 'localhost'))).toEqual(frames)
  })
})

test('random cases have every kind of frame, and unknown expect headers', () => {
  const dice = diceOf(mulberry32(1))
  const frames = new Set(Array.from({ length: 2_000 }, () => framed(dice, 'x').frame))
  expect([...frames].toSorted()).toEqual(['binary', 'close', 'ping', 'pong', 'text'])
  const headers = Array.from({ length: 2_000 }, () => textOf(headersOf(dice)))
  expect(headers).toContain('expect: x\r\n')
})

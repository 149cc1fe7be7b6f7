import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { DecodedPacket } from '../../../engine/flashblocks/codec.ts'
import { Intake } from '../../../workers/feed-client/intake.ts'
import { FEED_LIMITS } from '../../../workers/feed-client/limits.ts'
import { createManualClock } from '../../fixtures/manual-clock.ts'

type Limits = Partial<
  Pick<typeof FEED_LIMITS, 'wireBytes' | 'jsonBytes' | 'decodeMs' | 'heldFrames' | 'heldBytes'>
>
/** Resolves after everything that needs no clock. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

/**
 * Makes an intake whose decoder uses only the length of a frame. A frame of n bytes decodes to the
 * End of payload n, which takes 10 bytes in memory. Length 13 is refused, 14 is foreign.
 */
function start(limits: Limits = {}, decodeMs = 0) {
  const clock = createManualClock()
  const sent: (number | boolean)[] = []
  const reads: boolean[] = []
  const refused: string[] = []
  const counts: Record<string, number> = {}
  const decodedOf = (length: number): DecodedPacket => {
    if (length === 13) return { refuse: 'json: expected valid JSON', field: 'json' }
    if (length === 14) return { ignore: 'not for us' }
    return { message: { type: 'end', payloadId: String(length) }, metadata: undefined }
  }
  const intake = new Intake({
    limits: { ...FEED_LIMITS, ...limits },
    now: clock.now,
    later: clock.later,
    turn: async () => {},
    async decode({ length }) {
      // Decoding takes time of the thread.
      clock.pass(decodeMs)
      return { decoded: decodedOf(length), jsonBytes: 2 * length }
    },
    send({ payloadId }) {
      sent.push(Number(payloadId))
      return 10
    },
    sendState: ({ isConnected }) => sent.push(isConnected),
    refused: ({ field }) => refused.push(field),
    read: (isReading) => {
      if (isReading !== (reads.at(-1) ?? true)) reads.push(isReading)
    },
    count: (what, by) => {
      counts[what] = (counts[what] ?? 0) + by
    },
  })
  return {
    clock,
    sent,
    reads,
    refused,
    counts,
    intake,
    async push(...all: (number | boolean)[]) {
      for (const one of all)
        void (typeof one === 'number'
          ? intake.frame(Buffer.alloc(one))
          : intake.state({ isConnected: one }))
      await settle()
    },
    async pass(ms: number) {
      clock.pass(ms)
      await settle()
    },
    async taken(frames: number, bytes: number) {
      intake.taken(frames, bytes)
      await settle()
    },
  }
}

test('frames and connection events are passed on in their order', async () => {
  const feed = start()
  await feed.push(true, 1, 2, false, true, 3)
  expect(feed.sent).toEqual([true, 1, 2, false, true, 3])
  expect(feed.reads.at(-1)).toBe(true)
})

test('refused and foreign frames are counted, and the next frame is passed on', async () => {
  const feed = start()
  await feed.push(13, 14, 1)
  // The writer learns that a frame is missing.
  expect(feed.sent).toEqual([true, 1])
  expect(feed.refused).toEqual(['json'])
  expect(feed.counts).toMatchObject({ foreign: 1, frames: 1, wire_bytes: 28, json_bytes: 56 })
})

test('many refused frames are one event for the writer, with the next frame', async () => {
  const feed = start()
  await feed.push(1, ...Array.from({ length: 50 }, () => 13))
  expect(feed.sent).toEqual([1])
  expect(feed.refused).toHaveLength(50)
  await feed.push(2, 3)
  expect(feed.sent).toEqual([1, true, 2, 3])
})

describe('frames that the writer has not taken', () => {
  const cases: [name: string, limits: Limits][] = [
    ['frames', { heldFrames: 2 }],
    ['bytes', { heldBytes: 11 }],
  ]
  test.each(cases)('pause the feed at the limit: %s', async (_, limits) => {
    const feed = start(limits)
    await feed.push(1, 2, 3, 4)
    expect(feed.sent).toEqual([1, 2])
    expect(feed.reads.at(-1)).toBe(false)
    expect(feed.intake.buffered).toEqual({ frames: 2, bytes: 20 })
    await feed.pass(700)
    await feed.taken(1, 10)
    expect(feed.sent).toEqual([1, 2, 3])
    expect(feed.reads.at(-1)).toBe(false)
    await feed.taken(2, 20)
    expect(feed.sent).toEqual([1, 2, 3, 4])
    expect(feed.reads.at(-1)).toBe(true)
    expect(feed.counts['unread_ms']).toBe(700)
  })
  test('are followed by at most one report that the connection was lost and is back', async () => {
    const feed = start({ heldFrames: 1 })
    await feed.push(true, 1, 2, false, true, false, true, false, true)
    await feed.taken(1, 10)
    await feed.taken(1, 10)
    expect(feed.sent).toEqual([true, 1, 2, false, true])
  })
})

describe('the limits of a feed per second', () => {
  const cases: [name: string, limits: Limits, frame: number, waitMs: number, decodeMs?: number][] =
    [
      ['received bytes', { wireBytes: { perSecond: 100, burst: 150 } }, 100, 500],
      ['bytes of JSON', { jsonBytes: { perSecond: 100, burst: 150 } }, 100, 2_500],
      ['decoding time', { decodeMs: { perSecond: 500, burst: 1_000 } }, 1, 1_400, 1_200],
    ]
  test.each(cases)('pause the feed: %s', async (_, limits, frame, waitMs, decodeMs = 0) => {
    const feed = start(limits, decodeMs)
    await feed.push(frame, frame)
    const before = feed.sent.length
    await feed.push(frame)
    expect(feed.sent.length).toBeLessThan(3)
    expect(feed.reads.at(-1)).toBe(false)
    let waitedMs = 0
    for (; feed.sent.length < 3 && waitedMs < 20_000; waitedMs += 100) await feed.pass(100)
    expect(feed.sent.length).toBe(3)
    expect(before).toBeLessThan(3)
    expect(feed.counts['unread_ms']).toBeGreaterThanOrEqual(waitMs - 100)
    expect(feed.reads.at(-1)).toBe(true)
  })
  test('count refused frames too', async () => {
    const feed = start({ wireBytes: { perSecond: 13, burst: 1 } })
    await feed.push(13, 1)
    expect(feed.sent).toEqual([])
    await feed.pass(1_000)
    expect(feed.sent).toEqual([true, 1])
  })
})

test('a flood is dropped, and only the loss of the connection is passed on', async () => {
  const feed = start({ heldFrames: 1 })
  await feed.push(1, 2, 3, false)
  feed.intake.drop()
  await feed.push(true)
  await feed.taken(1, 10)
  expect(feed.sent).toEqual([1, false, true])
  expect(feed.counts['dropped']).toBe(2)
})

test('all frames arrive in order and within the limit, whenever the writer is ready', async () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ frame: fc.integer({ min: 1, max: 40 }) }),
      fc.record({ take: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ pass: fc.integer({ min: 1, max: 2_000 }) }),
    ),
    { maxLength: 40 },
  )
  const limits = { heldFrames: 4, heldBytes: 1_000, wireBytes: { perSecond: 20, burst: 40 } }
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const feed = start(limits, 3)
      const pushed: (number | boolean)[] = []
      let hasLost = false
      const take = async (max: number) => {
        const frames = Math.min(max, feed.intake.buffered.frames)
        if (frames > 0) await feed.taken(frames, 10 * frames)
      }
      for (const step of all) {
        if ('frame' in step) {
          await feed.push(step.frame)
          if (step.frame === 13) hasLost = true
          else if (step.frame !== 14) {
            if (hasLost) pushed.push(true)
            hasLost = false
            pushed.push(step.frame)
          }
        } else if ('take' in step) await take(step.take)
        else await feed.pass(step.pass)
        expect(feed.intake.buffered.frames).toBeLessThanOrEqual(4)
        expect(feed.sent).toEqual(pushed.slice(0, feed.sent.length))
        // Only frames that were not read may wait.
        if (feed.reads.at(-1) ?? true) expect(feed.sent).toEqual(pushed)
      }
      for (let rest = 0; feed.sent.length < pushed.length; rest++) {
        expect(rest).toBeLessThan(200)
        await take(4)
        await feed.pass(2_000)
      }
      expect(feed.sent).toEqual(pushed)
    }),
    { numRuns: 60 },
  )
})

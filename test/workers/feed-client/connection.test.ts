import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FeedConnection } from '../../../workers/feed-client/connection.ts'
import { FEED_LIMITS } from '../../../workers/feed-client/limits.ts'
import type { FeedSocket, SocketHandlers } from '../../../workers/feed-client/socket.ts'
import { createManualClock } from '../../fixtures/manual-clock.ts'

const limits = {
  ...FEED_LIMITS,
  frames: { perSecond: 10, burst: 20 },
  connects: { perSecond: 0.1, burst: 1_000 },
}
const FRAME = Buffer.from('{}')

/** The peer answers pings until a test stops it. */
type Peer = SocketHandlers & { pings: number; isPaused: boolean; isEnded: boolean; bytes: number }

function start(options: { blockTimeMs?: number; random?: number; limits?: typeof limits } = {}) {
  const clock = createManualClock()
  const peers: Peer[] = []
  const counts: Record<string, number> = {}
  const warnings: string[] = []
  const states: boolean[] = []
  let frames = 0
  let respondsToPings = true
  const connection = new FeedConnection({
    limits: options.limits ?? limits,
    blockTimeMs: options.blockTimeMs ?? 1_000,
    now: clock.now,
    later: clock.later,
    random: () => options.random ?? 0,
    open(handlers) {
      const peer: Peer = { ...handlers, pings: 0, isPaused: false, isEnded: false, bytes: 0 }
      peers.push(peer)
      return {
        get bytesRead() {
          return peer.bytes
        },
        ping() {
          peer.pings++
          if (!respondsToPings) return
          peer.bytes += 2
          peer.onControl()
        },
        pause: () => {
          peer.isPaused = true
        },
        resume: () => {
          peer.isPaused = false
        },
        end: () => {
          peer.isEnded = true
        },
      } satisfies FeedSocket
    },
    onFrame: () => {
      frames++
    },
    onTooLarge: () => warnings.push('too large'),
    onState: ({ isConnected }) => states.push(isConnected),
    onFlood: () => warnings.push('dropped'),
    count: (what, by) => {
      counts[what] = (counts[what] ?? 0) + by
    },
    warn: (kind, message) => warnings.push(`${kind}: ${message}`),
  })
  connection.connect()
  return {
    clock,
    peers,
    counts,
    warnings,
    states,
    connection,
    frames: () => frames,
    peer: () => peers.at(-1)!,
    ignorePings() {
      respondsToPings = false
    },
    /** Opens the newest connection. */
    open() {
      peers.at(-1)!.onOpen(false)
    },
    /** Sends a good frame. */
    frame() {
      peers.at(-1)!.onFrame(FRAME)
      connection.decoded()
    },
    /** Moves the canonical head once in each of these intervals, and the clock with it. */
    blocks(count: number, betweenMs = 1_000) {
      for (let block = 0; block < count; block++) {
        clock.pass(betweenMs)
        connection.canonicalMoved(clock.now())
      }
    },
  }
}

describe('a connection that does not open', () => {
  test('is closed after five seconds, and retried', () => {
    const { clock, peers, warnings, states } = start()
    clock.pass(4_999)
    expect(peers[0]).toHaveProperty('isEnded', false)
    clock.pass(1)
    expect(peers[0]).toHaveProperty('isEnded', true)
    expect(warnings).toEqual(['unreachable: not connected: no connection within 5000 ms'])
    clock.pass(limits.minRetryMs)
    expect(peers.length).toBe(2)
    // The connection was never open, so no end is reported.
    expect(states).toEqual([])
  })
  test('is retried with increasing delays, up to ten seconds', () => {
    const { clock, peer } = start()
    const waits = Array.from({ length: 8 }, () => {
      peer().onClose('refused')
      const [wait] = clock.waits()
      clock.pass(wait!)
      return wait
    })
    expect(waits).toEqual([200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000])
  })
  test('has a random delay of half to all of its backoff', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 0.999_999, noNaN: true }), (random) => {
        const { clock, peer } = start({ random })
        peer().onClose('refused')
        const [wait] = clock.waits()
        expect(wait).toBeCloseTo(limits.minRetryMs * (1 - random / 2), 9)
      }),
    )
  })
})

describe('the backoff', () => {
  const cases: [name: string, what: (feed: ReturnType<typeof start>) => void, nextMs: number][] = [
    ['continues after a connection without frames', () => {}, 800],
    ['continues after a frame that cannot be decoded', ({ peer }) => peer().onFrame(FRAME), 800],
    ['continues after pings only', ({ peer }) => peer().onControl(), 800],
    ['starts again after a frame that can be decoded', ({ frame }) => frame(), 200],
  ]
  test.each(cases)('has the expected next delay: it %s', (_, what, nextMs) => {
    const feed = start()
    for (let failure = 0; failure < 2; failure++) {
      feed.peer().onClose('refused')
      feed.clock.pass(feed.clock.waits()[0]!)
    }
    feed.open()
    what(feed)
    feed.peer().onClose('closed with 1013')
    expect(feed.clock.waits()).toEqual([nextMs])
  })
  test('of a feed that worked is at most a second, in the first minute of its loss', () => {
    const feed = start({ limits: { ...limits, connects: { perSecond: 0.1, burst: 3 } } })
    feed.open()
    feed.frame()
    const lostAt = feed.clock.now()
    feed.peer().onClose('closed with 1001')
    const waits: number[] = []
    while (feed.clock.now() - lostAt < 60_000) {
      const [wait] = feed.clock.waits()
      waits.push(wait!)
      feed.clock.pass(wait!)
      feed.peer().onClose('refused')
    }
    expect(waits.slice(0, 4)).toEqual([200, 400, 800, 1_000])
    expect(Math.max(...waits)).toBe(1_000)
    // Sixty refused connections do not count as attempts that the peer accepts and ends, of which
    // three are allowed.
    expect(waits.length).toBeGreaterThan(60)
    expect(feed.clock.waits()).toEqual([10_000])
  })
  test('of a feed that worked is random, and restarts after another valid frame', () => {
    const feed = start({ random: 0.5 })
    feed.open()
    feed.frame()
    feed.peer().onClose('closed with 1001')
    for (let failure = 0; failure < 20; failure++) {
      feed.clock.pass(feed.clock.waits()[0]!)
      feed.peer().onClose('refused')
    }
    expect(feed.clock.waits()).toEqual([750])
    feed.clock.pass(40_000)
    feed.open()
    feed.frame()
    feed.peer().onClose('closed with 1001')
    expect(feed.clock.waits()).toEqual([150])
  })
  test('is short when the last frame is decoded only after the loss', () => {
    const feed = start()
    for (let failure = 0; failure < 5; failure++) {
      feed.peer().onClose('refused')
      feed.clock.pass(feed.clock.waits()[0]!)
    }
    feed.open()
    feed.peer().onFrame(FRAME)
    feed.peer().onClose('closed with 1001')
    feed.connection.decoded()
    feed.clock.pass(feed.clock.waits()[0]!)
    for (let failure = 0; failure < 9; failure++) {
      feed.peer().onClose('refused')
      expect(feed.clock.waits()[0]).toBeLessThanOrEqual(1_000)
      feed.clock.pass(feed.clock.waits()[0]!)
    }
  })
  test('is long when too many connections end after a valid frame', () => {
    const feed = start({ limits: { ...limits, connects: { perSecond: 0.1, burst: 3 } } })
    const waits = Array.from({ length: 5 }, () => {
      feed.open()
      feed.frame()
      feed.peer().onClose('closed with 1000')
      const [wait] = feed.clock.waits()
      feed.clock.pass(wait!)
      return wait
    })
    expect(waits).toEqual([200, 200, 200, 10_000, 10_000])
  })
})

describe('pings', () => {
  test('are sent twice a second, and their pongs keep the connection open', () => {
    const feed = start()
    feed.open()
    feed.clock.pass(60_000)
    expect(feed.peers.length).toBe(1)
    expect(feed.peer().pings).toBe(120)
  })
  test('without pongs close the connection', () => {
    const feed = start()
    feed.open()
    feed.clock.pass(10_000)
    feed.ignorePings()
    // The next ping notices the last pong.
    feed.clock.pass(2_000)
    expect(feed.states).toEqual([true])
    feed.clock.pass(500)
    expect(feed.peers[0]).toHaveProperty('isEnded', true)
    expect(feed.warnings).toEqual(['lost: lost: no answer to pings for 1500 ms'])
    expect(feed.states).toEqual([true, false])
  })
  test('need no pongs while a long frame arrives', () => {
    const feed = start()
    feed.open()
    feed.ignorePings()
    for (let half = 0; half < 20; half++) {
      feed.peer().bytes += 100_000
      feed.clock.pass(500)
    }
    expect(feed.states).toEqual([true])
    feed.clock.pass(2_500)
    expect(feed.states).toEqual([true, false])
  })
  test('need no pongs while nothing is read, and have a full timeout afterwards', () => {
    const feed = start()
    feed.open()
    feed.ignorePings()
    feed.connection.read(false)
    expect(feed.peer().isPaused).toBe(true)
    feed.clock.pass(30_000)
    feed.connection.read(true)
    expect(feed.peer().isPaused).toBe(false)
    feed.clock.pass(1_500)
    expect(feed.states).toEqual([true])
    feed.clock.pass(500)
    expect(feed.states).toEqual([true, false])
  })
  test('are not missed because the thread stood still', () => {
    const feed = start()
    feed.open()
    feed.clock.pass(2_000)
    feed.ignorePings()
    // One tick later the newest pong has been noticed.
    feed.clock.pass(500)
    feed.clock.stand(5_000)
    expect(feed.states).toEqual([true])
    feed.clock.pass(1_500)
    expect(feed.states).toEqual([true])
    feed.clock.pass(500)
    expect(feed.states).toEqual([true, false])
  })
  test('leave a connection paused that opens while nothing is read', () => {
    const feed = start()
    feed.connection.read(false)
    feed.open()
    expect(feed.peer().isPaused).toBe(true)
  })
})

describe('the silence of a feed', () => {
  type Feed = ReturnType<typeof start>
  const cases: [name: string, what: (feed: Feed) => void, isLost: boolean, blockTimeMs?: number][] =
    [
      ['three seconds while canonical moves', ({ blocks }) => blocks(3), true],
      ['two seconds while canonical moves', ({ blocks }) => blocks(2), false],
      ['a minute while canonical does not move', ({ clock }) => clock.pass(60_000), false],
      [
        'a minute with one canonical block, of the last frames',
        ({ blocks, clock }) => {
          blocks(1)
          clock.pass(60_000)
        },
        false,
      ],
      ['two canonical blocks of two seconds', ({ blocks }) => blocks(2, 2_000), false, 2_000],
      ['three canonical blocks of two seconds', ({ blocks }) => blocks(3, 2_000), true, 2_000],
      [
        'nine canonical blocks of a quarter of a second',
        ({ blocks }) => blocks(9, 250),
        false,
        250,
      ],
      [
        'silence interrupted by a frame that cannot be decoded',
        ({ blocks, peer }) => {
          blocks(2)
          peer().onFrame(FRAME)
          blocks(2)
        },
        false,
      ],
      [
        'silence while the feed is not read',
        ({ blocks, connection }) => {
          connection.read(false)
          blocks(10)
          connection.read(true)
          blocks(2)
        },
        false,
      ],
      [
        'blocks that moved before the newest frame',
        ({ connection, clock, frame }) => {
          clock.pass(1_000)
          frame()
          for (let block = 0; block < 5; block++) connection.canonicalMoved(900)
          clock.pass(60_000)
        },
        false,
      ],
    ]
  test.each(cases)(
    'ends the connection only while the chain moves: %s',
    (_, what, isLost, blockTimeMs = 1_000) => {
      const feed = start({ blockTimeMs })
      feed.open()
      feed.frame()
      what(feed)
      // Each ping checks for silence.
      feed.clock.pass(limits.pingMs)
      expect(feed.states).toEqual(isLost ? [true, false] : [true])
      expect(feed.counts['silences'] ?? 0).toBe(isLost ? 1 : 0)
      if (isLost) expect(feed.warnings[0]).toMatch(/no frame for \d\.\d s while the chain advances/)
    },
  )
})

describe('the frame limit', () => {
  test('allows a burst, and one more frame closes the connection for a minute', () => {
    const feed = start()
    feed.open()
    for (let frame = 0; frame < 20; frame++) feed.frame()
    expect(feed.states).toEqual([true])
    feed.frame()
    feed.frame()
    expect(feed.frames()).toBe(20)
    expect(feed.states).toEqual([true, false])
    expect(feed.counts).toMatchObject({ floods: 1, losses: 1 })
    expect(feed.warnings).toEqual([
      'lost: lost: more than 10 frames a second, closed for 60 s',
      'dropped',
    ])
    feed.clock.pass(59_999)
    expect(feed.peers.length).toBe(1)
    feed.clock.pass(1)
    expect(feed.peers.length).toBe(2)
  })
  test('counts pings and pongs', () => {
    const feed = start()
    feed.open()
    for (let ping = 0; ping < 21; ping++) feed.peer().onControl()
    expect(feed.states).toEqual([true, false])
  })
  test('does not restart with another connection', () => {
    const feed = start()
    feed.open()
    for (let frame = 0; frame < 20; frame++) feed.frame()
    feed.peer().onClose('closed with 1000')
    feed.clock.pass(200)
    feed.open()
    for (let frame = 0; frame < 3; frame++) feed.frame()
    expect(feed.counts).toMatchObject({ floods: 1 })
  })
  test('allows frames at its rate forever', () => {
    const feed = start()
    feed.open()
    for (let frame = 0; frame < 1_000; frame++) {
      // Two pongs a second count too.
      feed.clock.pass(125)
      feed.frame()
    }
    expect(feed.states).toEqual([true])
  })
})

describe('a connection that is over', () => {
  test('reports nothing more once it was closed', () => {
    const feed = start()
    feed.clock.pass(5_000)
    const [first] = feed.peers
    feed.clock.pass(200)
    first!.onOpen(false)
    first!.onFrame(FRAME)
    first!.onControl()
    first!.onTooLarge()
    first!.onClose('late')
    expect(feed.warnings.length).toBe(1)
    expect([feed.states, feed.frames(), feed.counts['losses']]).toEqual([[], 0, 1])
    feed.open()
    expect(feed.states).toEqual([true])
  })
  test('does nothing more once it was stopped', () => {
    const feed = start()
    feed.open()
    feed.connection.stop()
    feed.peer().onClose('closed with 1000')
    feed.clock.pass(60_000)
    expect([feed.peers.length, feed.peer().isEnded]).toEqual([1, true])
    expect(feed.connection.isConnected).toBe(false)
    expect(feed.clock.waits()).toEqual([])
  })
})

describe('any sequence of events', () => {
  const steps = fc.array(
    fc.oneof(
      fc.constantFrom('open', 'frame', 'bad', 'control', 'close', 'block', 'read', 'unread'),
      fc.constantFrom('pass 100', 'pass 500', 'pass 3000', 'pass 60000', 'stand 5000'),
      fc.constant('ignore pings'),
    ),
    { maxLength: 60 },
  )
  test('leaves at most one open socket and exactly one timer', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const feed = start()
        const opened = new Set<object>()
        const actions: Record<string, (by: number) => void> = {
          open() {
            if (!opened.has(feed.peer())) feed.open()
            opened.add(feed.peer())
          },
          frame: () => opened.has(feed.peer()) && feed.frame(),
          bad: () => opened.has(feed.peer()) && feed.peer().onFrame(FRAME),
          control: () => opened.has(feed.peer()) && feed.peer().onControl(),
          close: () => feed.peer().onClose('closed with 1000'),
          block: () => feed.connection.canonicalMoved(feed.clock.now()),
          read: () => feed.connection.read(true),
          unread: () => feed.connection.read(false),
          pass: feed.clock.pass,
          stand: feed.clock.stand,
          ignore: feed.ignorePings,
        }
        for (const step of all) {
          const [what, by] = step.split(' ')
          actions[what!]!(Number(by))
          // The only timer is that of a handshake, the next ping, or the next connection.
          expect(feed.clock.waits().length).toBe(1)
          expect(feed.clock.waits()[0]).toBeLessThanOrEqual(limits.floodBackoffMs)
          expect(feed.peers.slice(0, -1).every(({ isEnded }) => isEnded)).toBe(true)
          // The reported states alternate, and match the connection.
          expect(feed.states).toEqual(feed.states.map((_, at) => at % 2 === 0))
          expect(feed.connection.isConnected).toBe(feed.states.at(-1) ?? false)
        }
      }),
      { numRuns: 500 },
    )
  })
})

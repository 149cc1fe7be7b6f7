/** These are limits for sockets, for received and for sent data. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect } from 'vitest'
import { LargeResponse, type Responder, type RpcResponse } from '../../../rpc/core/exchange.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import { createFeedHub } from '../../../rpc/feed-server/hub.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { startServer, type TestServerOptions } from '../../fixtures/sockets.ts'
import { type Row, row, type Some, within } from './row.ts'

type Changed = Partial<Limits>
type Started = {
  readonly server: Server
  readonly port: number
  open(from?: string): Promise<Socket>
}

/** Runs with a server that has these limits; closes it and all sockets to it. */
function over(
  use: (started: Started) => Promise<unknown>,
  options: Omit<TestServerOptions, 'limits'> = {},
  base: Changed = {},
): Row['see'] {
  return async (limits) => {
    const { server, port } = await startServer({ ...options, limits: { ...base, ...limits } })
    const sockets: Socket[] = []
    try {
      return await use({
        server,
        port,
        async open(from = '127.0.0.1') {
          const socket = connect({ port, host: '127.0.0.1', localAddress: from })
          socket.on('error', () => {})
          sockets.push(socket)
          await once(socket, 'connect')
          return socket
        },
      })
    } finally {
      for (const socket of sockets) socket.destroy()
      await server.close()
    }
  }
}

const HEAD = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
const post = (body: string, length = body.length) =>
  `${HEAD}content-length: ${length}\r\n\r\n${body}`
const chunked = (pieces: number) =>
  `${HEAD}transfer-encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(pieces)}0\r\n\r\n`

/**
 * The time is longer than a server needs that checks for late data every half a second, or every
 * second.
 */
const SOON_MS = 3_000
/** The time is long enough to see that something does not happen. */
const A_WHILE_MS = 300

const closed = async (socket: Socket): Promise<string> => {
  await new Promise((resolve) => socket.resume().once('close', resolve))
  return 'closed'
}
const statusOf = async (socket: Socket, text: string): Promise<string> => {
  const response = once(socket, 'data').then(([data]) => String(data).split(' ', 2)[1]!)
  const end = closed(socket)
  socket.write(text)
  return Promise.race([response, end])
}
/** Gives the status of one request. */
const query = (text: string) => over(async ({ open }) => statusOf(await open(), text))
/** Gives the state of a socket after this data. */
const left = (text: string, ms: number, base: Changed = {}) =>
  over(
    async ({ open }) => {
      const socket = await open()
      socket.write(text)
      return within(ms, 'open', closed(socket))
    },
    {},
    base,
  )
/** Gives the encoding of a response with this many characters, for a client that accepts gzip. */
const encodingOf = (characters: number) =>
  over(
    async ({ port }) => {
      const headers = { 'content-type': 'application/json', 'accept-encoding': 'gzip' }
      const url = `http://127.0.0.1:${port}/`
      const response = await fetch(url, { method: 'POST', headers, body: '{}' })
      await response.text()
      return response.headers.get('content-encoding')
    },
    { respond: () => reply('1'.repeat(characters)) },
  )
const never: Responder = () => new Promise(() => {})
const reply = (text: string): RpcResponse => ({ text, status: 200, headers: {} })

const HANDSHAKE =
  'GET /PATH HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n'
const upgrade = (path = '') => HANDSHAKE.replace('PATH', path)
/** Makes a frame of less than 126 bytes like a client, masked with zeros. */
function frame(payload = 'x', { opcode = 1, isLast = true } = {}): Buffer {
  const head = [(isLast ? 0x80 : 0) | opcode, 0x80 | payload.length, 0, 0, 0, 0]
  return Buffer.concat([Buffer.from(head), Buffer.from(payload)])
}
const frames = (count: number, one = frame()) => Buffer.concat(Array<Buffer>(count).fill(one))

/** Gives whether the server closes a WebSocket that sends only this. */
function sent(data: Buffer, options: Omit<TestServerOptions, 'limits'> = {}, base: Changed = {}) {
  return over(
    async ({ open }) => {
      const socket = await open()
      await statusOf(socket, upgrade())
      socket.write(data)
      return within(A_WHILE_MS, 'open', closing(socket))
    },
    options,
    base,
  )
}
/** Waits for a close frame, or the end. No other data of these tests has such a byte. */
function closing(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      if (chunk.includes(0x88)) resolve('closed')
    })
    socket.once('close', () => resolve('closed'))
  })
}
/**
 * Reads nothing for a while, then everything, and gives whether this many bytes came before the
 * close.
 */
async function readLate(socket: Socket, bytes: number): Promise<string> {
  let got = 0
  return new Promise((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      got += chunk.length
      if (got >= bytes) resolve('all')
    })
    socket.once('close', () => resolve('closed'))
    socket.resume()
  })
}

/** Gives the outcome of two connections beyond the only one that their address may have. */
async function refusedSockets({ open }: { open(): Promise<Socket> }): Promise<readonly string[]> {
  await statusOf(await open(), post('{}'))
  const first = await statusOf(await open(), post('{}'))
  return [first, await statusOf(await open(), post('{}'))]
}

const MEGABYTE = 'x'.repeat(1_000_000)
const CHUNK = Buffer.from(MEGABYTE.slice(0, 50_000))

export const SOCKETS = {
  bodyBytes: row(100, '413', query(post('x'.repeat(101)))),
  bodiesBytes: row(1_000, '503', query(chunked(500))),
  bodiesBytesPerClient: row(1_000, '503', query(chunked(500))),
  bodyPieces: row(10, expect.stringMatching(/413|closed/), query(chunked(300))),
  cutOffMs: row(
    1,
    '200',
    over(async ({ open }) => {
      for (let time = 0; time < 2; time++) await statusOf(await open(), chunked(5_000))
      await new Promise((resolve) => setTimeout(resolve, 50))
      return statusOf(await open(), post('{}'))
    }),
  ),
  compressFromBytes: row(100, 'gzip', encodingOf(100)),
  compressingBytes: row(1_000, null, encodingOf(20_000)),
  sockets: row(
    1,
    1,
    over(async ({ open, server }) => {
      for (const from of ['127.0.0.2', '127.0.0.3']) await statusOf(await open(from), post('{}'))
      return server.sockets.evicted
    }),
  ),
  socketsPerClient: row(
    1,
    '503',
    over(async ({ open }) => {
      await statusOf(await open(), post('{}'))
      return statusOf(await open(), post('{}'))
    }),
  ),
  refusedSocketsPerClient: row(
    1,
    ['503', 'closed'],
    over(refusedSockets, {}, { socketsPerClient: 1 }),
  ),
  refusedSocketsTotal: row(1, ['503', 'closed'], over(refusedSockets, {}, { socketsPerClient: 1 })),
  requestsPerSocket: row(
    1,
    'closed',
    over(async ({ open }) => {
      const socket = await open()
      await statusOf(socket, post('{}'))
      return within(A_WHILE_MS, 'open', closed(socket))
    }),
  ),
  requestsInFlight: row(
    1,
    'closed',
    over(
      async ({ open }) => {
        const socket = await open()
        socket.write(post('{}').repeat(3))
        return within(A_WHILE_MS, 'open', closed(socket))
      },
      { respond: never },
    ),
  ),
  requestsPerTurn: row(1, true, async (limits) => {
    let max = 0
    let now = 0
    const respond: Responder = (body) => {
      max = Math.max(max, ++now)
      if (now === 1)
        setImmediate(() => {
          now = 0
        })
      return reply(body)
    }
    await over(
      async ({ open }) => {
        const socket = await open()
        socket.write(post('{}').repeat(20))
        await new Promise<void>((resolve) => {
          let said = ''
          socket.on('data', (data) => {
            said += data
            if (said.split('HTTP/1.1 200').length > 20) resolve()
          })
        })
      },
      { respond },
    )(limits)
    return max <= 2
  }),
  headersMs: row(100, 'closed', left(HEAD, SOON_MS / 2)),
  requestMs: row(100, 'closed', left(post('{', 50), SOON_MS / 2)),
  keepAliveMs: row(
    10,
    'closed',
    over(async ({ open }) => {
      const socket = await open()
      await statusOf(socket, post('{}'))
      return within(SOON_MS, 'open', closed(socket))
    }),
  ),
  unsentMs: row(
    100,
    1,
    over(
      async ({ open, server }) => {
        const socket = await open()
        socket.pause().write(post('{}'))
        await within(SOON_MS, undefined, cutOf(server))
        return server.unsent.cut
      },
      { respond: () => reply(MEGABYTE.repeat(30)) },
    ),
  ),
  unsentBytes: row(
    40_000_000,
    1,
    over(
      async ({ open, server }) => {
        for (let at = 0; at < 2; at++) (await open()).pause().write(post('{}'))
        await within(SOON_MS, undefined, cutOf(server))
        return server.unsent.cut
      },
      { respond: () => reply(MEGABYTE.repeat(30)) },
    ),
  ),
  connectionsPerClient: row(
    1,
    '429',
    over(async ({ open }) => {
      await statusOf(await open(), upgrade())
      return statusOf(await open(), upgrade())
    }),
  ),
  connectionsTotal: row(
    1,
    '503',
    over(async ({ open }) => {
      await statusOf(await open('127.0.0.2'), upgrade())
      return statusOf(await open('127.0.0.3'), upgrade())
    }),
  ),
  sendQueueBytes: row(
    1_000_000_000,
    'all',
    over(
      async ({ open }) => {
        const socket = await open()
        await statusOf(socket, upgrade())
        socket.pause().write(frame())
        await new Promise((resolve) => setTimeout(resolve, A_WHILE_MS))
        return readLate(socket, 20_000_000)
      },
      {
        respond(_body, client) {
          for (let at = 0; at < 400; at++) client.notify?.([[CHUNK]])
          return { text: undefined, status: 200, headers: {} }
        },
      },
    ),
  ),
  sendAnswersBytes: row(
    1_000_000,
    'closed',
    over(
      async ({ open }) => {
        const socket = await open()
        await statusOf(socket, upgrade())
        socket.pause().write(frames(20))
        await new Promise((resolve) => setTimeout(resolve, A_WHILE_MS))
        return readLate(socket, 20_000_000)
      },
      {
        async respond() {
          await new Promise((resolve) => setTimeout(resolve, 100))
          return new LargeResponse([MEGABYTE], {})
        },
      },
    ),
  ),
  unreadBytes: row(1_000_000_000, 200, async (limits) => {
    let responded = 0
    const respond: Responder = () => {
      responded++
      return reply(MEGABYTE.slice(0, 100_000))
    }
    await over(
      async ({ open }) => {
        const socket = await open()
        await statusOf(socket, upgrade())
        socket.pause().write(frames(200))
        for (let at = 0; at < 100 && responded < 200; at++)
          await new Promise((resolve) => setTimeout(resolve, 10))
      },
      { respond },
      { sendQueueBytes: 1_000_000_000 },
    )(limits)
    return responded
  }),
  pingMs: row(
    20,
    'ping',
    over(async ({ open }) => {
      const socket = await open()
      await statusOf(socket, upgrade())
      return within(
        A_WHILE_MS,
        'silence',
        once(socket, 'data').then(([data]) => ((data as Buffer)[0] === 0x89 ? 'ping' : 'else')),
      )
    }),
  ),
  pongMs: row(
    20,
    'closed',
    over(
      async ({ open }) => {
        const socket = await open()
        await statusOf(socket, upgrade())
        return within(A_WHILE_MS, 'open', closed(socket))
      },
      {},
      { pingMs: 20 },
    ),
  ),
  messagesInFlight: row(1, 1, async (limits) => {
    let started = 0
    const respond: Responder = () => {
      started++
      return new Promise(() => {})
    }
    await sent(frames(3), { respond })(limits)
    return started
  }),
  messagesWaiting: row(1, 'closed', sent(frames(10), { respond: never }, { messagesInFlight: 1 })),
  messageFragments: row(
    2,
    'closed',
    sent(
      Buffer.concat([
        frame('x', { isLast: false }),
        frames(3, frame('x', { opcode: 0, isLast: false })),
      ]),
    ),
  ),
  messageChunks: row(
    3,
    'closed',
    over(async ({ open }) => {
      const socket = await open()
      await statusOf(socket, upgrade())
      socket.setNoDelay(true)
      const end = closing(socket)
      for (const byte of frame('x'.repeat(100)).subarray(0, 60)) {
        socket.write(Buffer.of(byte))
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
      return within(A_WHILE_MS, 'open', end)
    }),
  ),
  controlFrames: row(2, 'closed', sent(frames(5, frame('', { opcode: 9 })))),
  feedSubscribers: row(1, 1, async (limits) => {
    const hub = createFeedHub(
      { ...DEFAULT_LIMITS, ...limits },
      { run: '0x00000000000000aa', access: () => undefined },
    )
    await over(
      async ({ open }) => {
        for (let at = 0; at < 2; at++) await statusOf(await open(), upgrade('feed'))
      },
      { feed: hub.handle },
    )(limits)
    return hub.counts.refused
  }),
  feedQueueBytes: row(1_000_000_000, { lagging: 0, subscribers: 1 }, async (limits) => {
    const hub = createFeedHub(
      { ...DEFAULT_LIMITS, ...limits },
      { run: '0x00000000000000aa', access: () => undefined },
    )
    return over(
      async ({ open }) => {
        const socket = await open()
        await statusOf(socket, upgrade('feed'))
        socket.pause()
        for (let at = 0; at < 30; at++) {
          hub.broadcast(MEGABYTE, undefined)
          await new Promise(setImmediate)
        }
        const { subscribers } = hub
        return { lagging: hub.counts.lagging, subscribers }
      },
      { feed: hub.handle },
    )(limits)
  }),
  feedHeldFrames: row(3, 'a gap', replayed()),
  feedHeldBytes: row(40, 'a gap', replayed()),
  feedEnrichedBytes: row(0, '400', async (limits) => {
    const hub = createFeedHub(
      { ...DEFAULT_LIMITS, ...limits },
      { run: '0x00000000000000aa', access: () => undefined },
    )
    return over(async ({ open }) => statusOf(await open(), upgrade('feed?enrich=1')), {
      feed: hub.handle,
    })(limits)
  }),
} satisfies Some

/** Gives the first message for a reader that resumes after the first of ten messages. */
function replayed(): Row['see'] {
  return async (limits) => {
    const hub = createFeedHub(
      { ...DEFAULT_LIMITS, ...limits },
      { run: '0x00000000000000aa', access: () => undefined },
    )
    for (let index = 0; index < 10; index++)
      hub.broadcast(`message ${index}`, { number: 1, index, payloadId: '0x0000000000000001' })
    return over(
      async ({ open }) => {
        const socket = await open()
        let text = ''
        socket.on('data', (chunk) => {
          text += chunk
        })
        socket.write(upgrade('feed?since=1:0'))
        while (!/message 9/.test(text)) await once(socket, 'data')
        return /FlashnodeGap/.test(text) ? 'a gap' : 'no gap'
      },
      { feed: hub.handle },
    )(limits)
  }
}

/** Waits until a response was cut off. */
async function cutOf(server: Server): Promise<undefined> {
  while (server.unsent.cut === 0) await new Promise((resolve) => setTimeout(resolve, 10))
}

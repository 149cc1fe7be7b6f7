/** The report of an unusable node states what happened and what to do. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { outsideText, UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import { openUpstream } from '../../../workers/follower/upstreams.ts'

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

async function listening(server: ReturnType<typeof createTcpServer>): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => {})))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}
const respondWith = (respond: (response: ServerResponse) => void) =>
  listening(createServer((_, response) => respond(response)))
const sending = (bytes: Uint8Array | undefined) =>
  listening(
    createTcpServer((socket) => {
      if (bytes === undefined) socket.destroy()
      else socket.end(bytes)
    }),
  )
const status = (code: number, body: string) =>
  respondWith((response) => void response.writeHead(code).end(body))

async function failureOf(url: string, upstreamCallMs = 120_000): Promise<UpstreamError> {
  const upstream = openUpstream(url, { ...DEFAULT_UPSTREAM_LIMITS, upstreamCallMs })
  closers.push(() => upstream.close())
  return upstream.call('eth_chainId', [], { hasOthers: true }).then(
    (result) => {
      throw new Error(`answered ${JSON.stringify(result)}`)
    },
    (error: UpstreamError) => error,
  )
}

const ALERT = Uint8Array.of(0x15, 3, 1, 0, 2, 2, 70)
const gone = async () => {
  const address = await sending(undefined)
  for (const close of closers.splice(0)) close()
  return address
}
const cases: [what: string, open: () => Promise<string>, scheme: string, words: RegExp][] = [
  ['refused', gone, 'http', /nothing listens there \(ECONNREFUSED\): start that node/],
  ['refused', gone, 'ws', /nothing listens there \(ECONNREFUSED\): start that node/],
  ['401', () => status(401, '{"message":"no"}'), 'http', /HTTP 401: it requires a key, or a user/],
  ['401', () => status(401, 'no'), 'ws', /HTTP 401: it requires a key, or a user/],
  ['403', () => status(403, 'no'), 'http', /HTTP 403: it refuses this client/],
  ['404', () => status(404, '<html>'), 'http', /HTTP 404: it has no such path/],
  ['429', () => status(429, ''), 'http', /wants fewer requests/],
  ['502', () => status(502, '<html>'), 'http', /HTTP 502: the node behind it does not respond/],
  ['502', () => status(502, '<html>'), 'ws', /HTTP 502: the node behind it does not respond/],
  [
    'HTML',
    () => status(200, '\n<!doctype html>'),
    'http',
    /a web page instead of JSON: check its URL/,
  ],
  ['an empty page', () => status(200, ''), 'http', /answered with an empty body: check its URL/],
  ['an HTTP URL of a TLS port', () => sending(ALERT), 'http', /it speaks TLS: use https:/],
  ['a WebSocket URL of a TLS port', () => sending(ALERT), 'ws', /it speaks TLS: use https:/],
  [
    'a TLS port that explains itself',
    () => status(400, 'The plain HTTP request was sent to HTTPS port'),
    'http',
    /it speaks TLS/,
  ],
  [
    'an HTTPS URL of a plain port',
    () => status(200, '{}'),
    'https',
    /it does not speak TLS: use http:/,
  ],
  [
    'a secure WebSocket URL of a plain port',
    () => status(200, '{}'),
    'wss',
    /it does not speak TLS: use http:/,
  ],
  [
    'a lost connection',
    () => sending(undefined),
    'http',
    /closed the connection without a response/,
  ],
  [
    'bytes that are not HTTP',
    () => sending(Buffer.from('SSH-2.0\r\n')),
    'http',
    /response is not HTTP: check its port/,
  ],
]
describe('an upstream failure', () => {
  const hasCause = (error: UpstreamError, words: RegExp, address: string) => {
    expect(error.message).toMatch(words)
    expect(error.message).not.toContain('secret')
    expect(outsideText(error)).not.toContain(address)
    expect(outsideText(error)).toMatch(/the upstream/)
  }
  test.each(cases)(
    'has a cause and advice for the operator, and no secrets: %s',
    async (_, open, scheme, words) => {
      const address = await open()
      hasCause(await failureOf(`${scheme}://${address}/path?key=secret`), words, address)
    },
  )

  test('has a cause and advice for the operator, and no secrets: silence', async () => {
    const address = await respondWith(() => {})
    const error = await failureOf(`http://${address}/path?key=secret`, 400)
    hasCause(error, /no answer from .* within 400 ms: look at that node/, address)
  })
})

test('clients learn only the kind of an upstream failure', () => {
  const refused = { code: -32000, message: 'see https://rpc.host/key or [::1]:8545' }
  const texts = [
    outsideText(new UpstreamError('unreachable', 'http://a.host: down'), 'the sequencer'),
    outsideText(new UpstreamError('refused', 'http://a.host: no', { fault: refused })),
    outsideText(new UpstreamError('limited', 'full', { outside: 'too much is asked for' })),
  ]
  expect(texts).toEqual([
    'the sequencer cannot be reached',
    'the upstream refuses the call: see the upstream or the upstream',
    'too much is asked for',
  ])
})

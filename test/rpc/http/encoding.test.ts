/** Large responses are compressed only for clients that accept it. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, zstdDecompress } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LARGE, LargeResponse, type RpcResponse } from '../../../rpc/core/exchange.ts'
import { createEncoding } from '../../../rpc/http/encoding.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { startServer } from '../../fixtures/sockets.ts'

const FROM = 1_000
const line = (at: number) => `{"at":${at},"hash":"0x${(at * 2_654_435_761).toString(16)}"},`
const textOf = (characters: number): string => {
  let text = ''
  for (let at = 0; text.length < characters; at++) text += line(at)
  return text.slice(0, characters)
}
const bytes = new TextEncoder().encode(textOf(3_000))
const LONG = textOf(2 * LARGE + 77)
/** The responses by request. */
const RESPONSES: Readonly<Record<string, RpcResponse>> = {
  short: { text: textOf(FROM - 1), status: 200, headers: {} },
  just: { text: textOf(FROM), status: 200, headers: { 'X-Flashblock': '7:1:' } },
  parts: new LargeResponse(['[', bytes, ',', LONG, ']'], {}),
}
const TEXTS: Readonly<Record<string, string>> = {
  short: RESPONSES['short']!.text!,
  just: RESPONSES['just']!.text!,
  parts: `[${textOf(3_000)},${LONG}]`,
}

let server: Server
let port: number
beforeAll(async () => {
  const started = await startServer({
    limits: { compressFromBytes: FROM },
    cors: ['https://app.example'],
    respond: (body) => RESPONSES[body]!,
  })
  server = started.server
  port = started.port
})
afterAll(() => server.close())

async function sendRequest(body: string, headers: Readonly<Record<string, string>>) {
  const own = { 'content-type': 'application/json', 'content-length': String(body.length) }
  const requester = request({ port, method: 'POST', path: '/', headers: { ...own, ...headers } })
  requester.end(body)
  const [response] = (await once(requester, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return { headers: response.headers, data: Buffer.concat(chunks) }
}

const DECODERS = {
  gzip: promisify(gunzip),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
} as const

describe.each(Object.keys(DECODERS) as (keyof typeof DECODERS)[])(
  'the content encoding %s',
  (coding) => {
    test.each(['just', 'parts'])('decodes to the same text: %s', async (body) => {
      const { headers, data } = await sendRequest(body, { 'accept-encoding': coding })
      expect(headers['content-encoding']).toBe(coding)
      expect(headers['vary']).toBe('Origin, Accept-Encoding')
      expect(Number(headers['content-length'])).toBe(data.length)
      expect(data.length).toBeLessThan(TEXTS[body]!.length / 2)
      expect((await DECODERS[coding](data)).toString()).toBe(TEXTS[body])
    })
  },
)

test.each([
  ['gzip;q=0.5, br;q=0.9', 'br'],
  ['gzip, deflate, br, zstd', 'zstd'],
  ['GZIP', 'gzip'],
  ['*', 'zstd'],
  ['zstd;q=0, br;q=0, *;q=0.1', 'gzip'],
  ['identity', undefined],
  ['gzip;q=0', undefined],
  ['gzip;q=nonsense', undefined],
  ['deflate', undefined],
  ['', undefined],
])('accept-encoding "%s" selects %s', async (accepted, coding) => {
  const { headers, data } = await sendRequest('just', { 'accept-encoding': accepted })
  expect(headers['content-encoding']).toBe(coding)
  if (coding === undefined) expect(data.toString()).toBe(TEXTS['just'])
})

test('short responses, and those without accept-encoding, are sent plain', async () => {
  for (const [body, headers] of [
    ['short', { 'accept-encoding': 'gzip' }],
    ['just', {}],
    ['parts', {}],
  ] as const) {
    const plain = await sendRequest(body, headers)
    expect(plain.headers['content-encoding']).toBeUndefined()
    expect(plain.data.toString()).toBe(TEXTS[body])
  }
})

test('a compressed response has all its headers, also with CORS', async () => {
  const headers = { 'accept-encoding': 'gzip', origin: 'https://app.example' }
  const routed = await sendRequest('just', headers)
  expect(routed.headers).toMatchObject({
    'content-encoding': 'gzip',
    'x-flashblock': '7:1:',
    'access-control-allow-origin': 'https://app.example',
    vary: 'Origin, Accept-Encoding',
  })
})

describe('compression', () => {
  const request = { headers: { 'accept-encoding': 'gzip' } }
  const to = { address: () => 'here', request, headers: {} }
  const alive = { ...to, response: { destroyed: false } }
  const onBug = (error: unknown) => {
    throw error
  }
  const owed: [string, number][] = []
  const limiter = { owe: (...one: [address: string, points: number]) => void owed.push(one) }

  test('is skipped at the memory limit, until a response is finished', async () => {
    const limits = { compressFromBytes: FROM, compressingBytes: 1_500 }
    const encoding = createEncoding(limits, { limiter, onBug })
    const first = encoding.encode(RESPONSES['just']!, alive)
    expect(first).toBeDefined()
    expect(encoding.encode(RESPONSES['just']!, alive)).toBeUndefined()
    expect((await first)!.headers['content-encoding']).toBe('gzip')
    expect(encoding.stats).toMatchObject({ responses: 1, from: FROM, refused: 1 })
    expect((await encoding.encode(RESPONSES['just']!, alive))!.headers['vary']).toBe(
      'Accept-Encoding',
    )
  })

  test('reaches all waiting responses in turn', async () => {
    const encoding = createEncoding(
      { compressFromBytes: FROM, compressingBytes: 1e8 },
      { limiter, onBug },
    )
    const all = Array.from({ length: 9 }, () => encoding.encode(RESPONSES['just']!, alive)!)
    for (const one of await Promise.all(all)) expect(one.headers['content-encoding']).toBe('gzip')
    expect(encoding.stats.responses).toBe(9)
  })

  test('charges its client a point per 2 MiB', async () => {
    const encoding = createEncoding(
      { compressFromBytes: FROM, compressingBytes: 1e8 },
      { limiter, onBug },
    )
    await encoding.encode(
      { text: 'a'.repeat(2 * 1024 * 1024 - 1), status: 200, headers: {} },
      alive,
    )
    expect(owed).toEqual([])
    await encoding.encode({ text: 'a'.repeat(5 * 1024 * 1024), status: 200, headers: {} }, alive)
    expect(owed).toEqual([['here', 2]])
  })

  test('is skipped when its client has disconnected', async () => {
    const encoding = createEncoding(
      { compressFromBytes: FROM, compressingBytes: 1e8 },
      { limiter, onBug },
    )
    const gone = { ...to, response: { destroyed: true } }
    expect(await encoding.encode(RESPONSES['parts']!, gone)).toBe(RESPONSES['parts'])
    expect(encoding.stats.responses).toBe(0)
  })
})

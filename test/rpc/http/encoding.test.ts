/** Large answers are compressed for whoever asks for it, and nobody else's are. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, zstdDecompress } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createEncoding } from '../../../rpc/http/encoding.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { type Answer, LARGE, LargeAnswer } from '../../../rpc/seam/exchange.ts'
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
/** By what is asked. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  short: { text: textOf(FROM - 1), status: 200, headers: {} },
  just: { text: textOf(FROM), status: 200, headers: { 'X-Flashblock': '7:1:' } },
  parts: new LargeAnswer(['[', bytes, ',', LONG, ']'], {}),
}
const TEXTS: Readonly<Record<string, string>> = {
  short: ANSWERS['short']!.text!,
  just: ANSWERS['just']!.text!,
  parts: `[${textOf(3_000)},${LONG}]`,
}

let server: Server
let port: number
beforeAll(async () => {
  const started = await startServer({
    limits: { compressFromBytes: FROM },
    cors: ['https://app.example'],
    answer: (body) => ANSWERS[body]!,
  })
  server = started.server
  port = started.port
})
afterAll(() => server.close())

async function ask(body: string, headers: Readonly<Record<string, string>>) {
  const own = { 'content-type': 'application/json', 'content-length': String(body.length) }
  const asking = request({ port, method: 'POST', path: '/', headers: { ...own, ...headers } })
  asking.end(body)
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return { headers: response.headers, data: Buffer.concat(chunks) }
}

const DECODERS = {
  gzip: promisify(gunzip),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
} as const

describe.each(Object.keys(DECODERS) as (keyof typeof DECODERS)[])('%s', (coding) => {
  test.each(['just', 'parts'])('gives the same text: %s', async (body) => {
    const { headers, data } = await ask(body, { 'accept-encoding': coding })
    expect(headers['content-encoding']).toBe(coding)
    expect(headers['vary']).toBe('Origin, Accept-Encoding')
    expect(Number(headers['content-length'])).toBe(data.length)
    expect(data.length).toBeLessThan(TEXTS[body]!.length / 2)
    expect((await DECODERS[coding](data)).toString()).toBe(TEXTS[body])
  })
})

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
])('of "%s" it takes %s', async (accepted, coding) => {
  const { headers, data } = await ask('just', { 'accept-encoding': accepted })
  expect(headers['content-encoding']).toBe(coding)
  if (coding === undefined) expect(data.toString()).toBe(TEXTS['just'])
})

test('what is short, and what nobody asked for, is sent as it is', async () => {
  for (const [body, headers] of [
    ['short', { 'accept-encoding': 'gzip' }],
    ['just', {}],
    ['parts', {}],
  ] as const) {
    const plain = await ask(body, headers)
    expect(plain.headers['content-encoding']).toBeUndefined()
    expect(plain.data.toString()).toBe(TEXTS[body])
  }
})

test('headers of the answer stay, also on the way of the router', async () => {
  const headers = { 'accept-encoding': 'gzip', origin: 'https://app.example' }
  const routed = await ask('just', headers)
  expect(routed.headers).toMatchObject({
    'content-encoding': 'gzip',
    'x-flashblock': '7:1:',
    'access-control-allow-origin': 'https://app.example',
    vary: 'Origin, Accept-Encoding',
  })
})

describe('without room', () => {
  const request = { headers: { 'accept-encoding': 'gzip' } }
  const to = { address: () => 'here', request, headers: {} }
  const here = { ...to, response: { destroyed: false } }
  const onBug = (error: unknown) => {
    throw error
  }
  const owed: [string, number][] = []
  const limiter = { owe: (...one: [address: string, points: number]) => void owed.push(one) }

  test('an answer is sent as it is, and the next one is compressed again', async () => {
    const limits = { compressFromBytes: FROM, compressingBytes: 1_500 }
    const encoding = createEncoding(limits, { limiter, onBug })
    const first = encoding.encode(ANSWERS['just']!, here)
    expect(first).toBeDefined()
    expect(encoding.encode(ANSWERS['just']!, here)).toBeUndefined()
    expect((await first)!.headers['content-encoding']).toBe('gzip')
    expect(encoding.stats).toMatchObject({ answers: 1, from: FROM, refused: 1 })
    expect((await encoding.encode(ANSWERS['just']!, here))!.headers['vary']).toBe('Accept-Encoding')
  })

  test('all that wait get their turn', async () => {
    const encoding = createEncoding(
      { compressFromBytes: FROM, compressingBytes: 1e8 },
      { limiter, onBug },
    )
    const all = Array.from({ length: 9 }, () => encoding.encode(ANSWERS['just']!, here)!)
    for (const one of await Promise.all(all)) expect(one.headers['content-encoding']).toBe('gzip')
    expect(encoding.stats.answers).toBe(9)
  })

  test('who asks for it pays for each 2 MiB', async () => {
    const encoding = createEncoding(
      { compressFromBytes: FROM, compressingBytes: 1e8 },
      { limiter, onBug },
    )
    await encoding.encode({ text: 'a'.repeat(2 * 1024 * 1024 - 1), status: 200, headers: {} }, here)
    expect(owed).toEqual([])
    await encoding.encode({ text: 'a'.repeat(5 * 1024 * 1024), status: 200, headers: {} }, here)
    expect(owed).toEqual([['here', 2]])
  })

  test('nobody is left to compress for', async () => {
    const encoding = createEncoding(
      { compressFromBytes: FROM, compressingBytes: 1e8 },
      { limiter, onBug },
    )
    const gone = { ...to, response: { destroyed: true } }
    expect(await encoding.encode(ANSWERS['parts']!, gone)).toBe(ANSWERS['parts'])
    expect(encoding.stats.answers).toBe(0)
  })
})

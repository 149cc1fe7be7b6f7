/** Plain requests on their short way: the same bytes as over Node's, and Node's way from the first that is not plain. */
import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { trustedProxies } from '../../../rpc/seam/address.ts'
import type { Client } from '../../../rpc/seam/client.ts'
import { type Answer, type Answerer, LargeAnswer } from '../../../rpc/seam/exchange.ts'
import { PlainExchange } from '../../../rpc/wire/plain-exchange.ts'
import { openRaw, startServer, type TestServerOptions, talk } from '../../fixtures/sockets.ts'
import { spending } from '../../fixtures/spending.ts'

const HEAD = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
const post = (body: string, lines: readonly string[] = [], head = HEAD) =>
  `${head}${lines.map((line) => `${line}\r\n`).join('')}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
/** The connection ends with its answer. */
const LAST = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'

async function start(options: TestServerOptions = {}) {
  const started = await startServer(options)
  onTestFinished(() => started.server.close())
  return started
}

const PLACE = { 'X-Flashblock': '7:1:0x2' }
const TOO_MANY = { RateLimit: '"n";r=0;t=1', 'RateLimit-Policy': '"n";q=1;w=1', 'Retry-After': '1' }
const ANSWERS: Readonly<Record<string, Answer>> = {
  nothing: { text: undefined, status: 204, headers: PLACE },
  empty: { text: undefined, status: 200, headers: {} },
  letters: { text: '"ü€😀"', status: 200, headers: PLACE },
  long: { text: JSON.stringify('0123456789'.repeat(5_000)), status: 200, headers: PLACE },
  refused: { text: '{"error":1}', status: 429, headers: TOO_MANY },
  large: new LargeAnswer(['["', 'x'.repeat(300_000), Buffer.from('ü'), '"]'], PLACE),
}
/** Says what it was asked, or what it is told to. */
function answerOf(body: string, { address, endpoint, minFlashblock }: Client): Answer {
  const text = JSON.stringify({ body, address, endpoint, minFlashblock })
  return ANSWERS[body] ?? { text, status: 200, headers: {} }
}
/** At once or later, as a number in the body says. */
const answer: Answerer = (body, client) => {
  const delay = Number(/^later(\d+)/.exec(body)?.[1] ?? 0)
  if (delay === 0) return answerOf(body, client)
  return new Promise((resolve) => setTimeout(() => resolve(answerOf(body, client)), delay))
}

/** In lines whose order says nothing, and without what is another each time. */
function told(text: string): string[] {
  return text.split(/(?=HTTP\/1\.1 \d{3} )/).map((one) => {
    const [head = '', ...rest] = one.split('\r\n\r\n')
    const [status, ...lines] = head.split('\r\n')
    const dated = lines.map((line) => line.replace(/^Date: .*GMT$/, 'Date: now'))
    return [status, ...dated.toSorted((a, b) => (a < b ? -1 : 1)), '', ...rest].join('\n')
  })
}

/** Writes these, each in a piece of its own; gives all that comes back. */
async function say(port: number, pieces: readonly string[], isEnded = false): Promise<string> {
  const socket = await openRaw(port)
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk.toString('latin1')
  })
  const closed = once(socket, 'close')
  for (const piece of pieces) {
    socket.write(piece)
    await nextTurn()
    await nextTurn()
  }
  if (isEnded) socket.end()
  await closed
  return answer
}

describe('the same bytes on both ways', () => {
  const browsers = { cors: ['https://app.example'] }
  const proxied = { trustedProxies: trustedProxies(['127.0.0.1']) }
  const cases: [name: string, pieces: string[], options?: TestServerOptions, isEnded?: boolean][] =
    [
      ['one', [post('{"a":"ü"}')]],
      ['none in the body', [post('')]],
      ['the other endpoint', [post('1', [], HEAD.replace('/ ', '/flashblocks '))]],
      ['an answer without text', [post('nothing')]],
      ['an answer that is empty', [post('empty')]],
      ['letters of several bytes', [post('letters')]],
      ['a refusal', [post('refused')]],
      ['a large answer, and what comes behind it', [post('large') + post('2') + post('large')]],
      ['several at once', [Array.from({ length: 20 }, (_, at) => post(`${at}`)).join('')]],
      [
        'several, the first of them late',
        [post('later20') + post('2') + post('later10') + post('4')],
      ],
      ['head and body apart', [post('{"a":1}').slice(0, -7), '{"a":1}']],
      ['in many pieces', post('{"a":1}').split(/(?<=\n|a)/)],
      ['a letter at a time', [...post('later5').slice(0, 40), post('later5').slice(40)]],
      ['empty lines before it', [`\r\n\r\n${post('1')}`]],
      ['a body of more than a point', [post('x'.repeat(70_000))]],
      [
        'a body of a point in two pieces',
        [post('x'.repeat(65_536)).slice(0, 9_000), 'x'.repeat(56_650)],
      ],
      ['a browser', [post('1', ['origin: https://a.example'])]],
      [
        'a browser, where its origin counts',
        [post('1', ['origin: https://app.example'])],
        browsers,
      ],
      ['no browser, where its origin would count', [post('1')], browsers],
      ['a place', [post('1', ['X-Min-Flashblock: 7:1:']) + post('2')]],
      ['two places', [post('1', ['x-min-flashblock: 7:1', 'x-min-flashblock: 8:1'])]],
      ['a proxy', [post('1', ['x-forwarded-for: 6.6.6.6, 5.5.5.5']) + post('2')], proxied],
      ['no proxy', [post('1', ['x-forwarded-for: 6.6.6.6'])]],
      [
        'compressed',
        [post('long', ['accept-encoding: gzip;q=0.5, br']) + post('long') + post('2')],
      ],
      [
        'compressed, where its origin would count',
        [post('long', ['Accept-Encoding: gzip'])],
        browsers,
      ],
      ['compressed, of parts', [post('large', ['accept-encoding: zstd']) + post('2')]],
      ['two encodings', [post('long', ['accept-encoding: x', 'accept-encoding: gzip'])]],
      ['a type of old', [post('1', [], HEAD.replace('json', 'json-rpc')) + post('2')]],
      ['large letters', [post('1', [], HEAD.replace('json', 'JSONRequest; a=b')) + post('2')]],
      ['an empty host', [post('1', [], HEAD.replace('localhost', '')) + post('2')]],
      ['another type', [post('1', [], HEAD.replace('json', 'xml'))]],
      ['a query', [post('1', [], HEAD.replace('/ ', '/?a=b '))]],
      ['an encoding', [post('1', ['content-encoding: identity'])]],
      ['another host', [post('1', [], HEAD.replace('localhost', 'evil.example'))]],
      ['no host', [post('1', [], HEAD.replace('host: localhost\r\n', ''))]],
      ['two hosts', [post('1', ['host: localhost'])]],
      ['two lengths', [post('11', ['content-length: 1'])]],
      ['two lengths that are equal', [post('11', ['content-length: 2'])]],
      ['a length of a sign', [post('1').replace('h: 1', 'h: +1')]],
      ['a length and chunks', [post('0\r\n\r\n', ['transfer-encoding: chunked'])]],
      ['chunks', [`${HEAD}transfer-encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n`]],
      [
        'chunks behind a plain one',
        [`${post('later9')}${HEAD}transfer-encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n`],
      ],
      ['an expectation', [post('1', ['expect: 100-continue'])]],
      ['an unknown one, behind a plain one', [post('later9') + post('1', ['expect: x'])]],
      ['an old client', [post('1', [], HEAD.replace('1.1', '1.0'))]],
      [
        'an old client that stays',
        [post('1', ['connection: keep-alive'], HEAD.replace('1.1', '1.0'))],
      ],
      [
        'the last of its connection',
        [post('1') + post('later9', ['connection: close']) + post('3')],
      ],
      ['no HTTP behind a plain one', [post('1'), 'nonsense\r\n\r\n']],
      ['a space before a colon', [post('1', ['x : y'])]],
      ['lines without a return', [post('1').replaceAll('\r\n', '\n')]],
      ['a folded header', [post('1', ['x: a', ' b'])]],
      ['many headers', [post('1', Array(100).fill('x: y')) + post('2')]],
      ['too long a head', [post('1', [`x: ${'y'.repeat(20_000)}`])]],
      ['a long head', [post('1', [`x: ${'y'.repeat(9_000)}`])]],
      [
        'all that a connection may have',
        [post('1').repeat(5)],
        { limits: { requestsPerSocket: 3 } },
      ],
      ['a peer that sends no more', [post('1')], {}, true],
      ['a peer that sends no more before its answer', [post('later30')], {}, true],
      ['half a head, and no more', [post('1') + post('1').slice(0, 30)], {}, true],
      ['half a body, and no more', [post('1').slice(0, -1)], {}, true],
      ['nothing, and no more', [''], {}, true],
      ['an empty line, and no more', ['\r\n'], {}, true],
      ['an upgrade to nothing', [post('1', ['connection: upgrade', 'upgrade: h2c'])]],
    ]
  test.each(cases)('%s', async (_, pieces, options = {}, isEnded = false) => {
    const texts: string[] = []
    for (const http of ['node', 'llhttp'] as const) {
      const { port } = await start({ answer, ...options, http })
      texts.push(await say(port, isEnded ? pieces : [...pieces, LAST], isEnded))
    }
    expect(told(texts[1]!)).toEqual(told(texts[0]!))
  })
})

test('what is no HTTP is refused after what was asked before it, whose answer is late', async () => {
  const { port } = await start({ answer })
  const said = await talk(port, `${post('later9')}nonsense\r\n\r\n`)
  expect(said.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400'])
})

test.each<[string, string, number]>([
  ['plain', post('1') + post('2'), 2],
  ['unusual first', post('1', ['expect: 100-continue']) + post('2'), 0],
  ['unusual later', post('1') + post('2') + post('3', ['te: x', 'trailer: x']) + post('4'), 2],
])('who is answered on the short way: %s', async (_, text, count) => {
  const seen: Client[] = []
  const { port } = await start({
    answer(body, client) {
      seen.push(client)
      return answerOf(body, client)
    },
  })
  await talk(port, text + LAST)
  expect(seen.filter((client) => client instanceof PlainExchange)).toHaveLength(count)
  expect(seen.every((client) => client.isGone)).toBe(true)
  expect(seen.every((client) => client.signal.aborted)).toBe(true)
})

test('while the node stops, what comes is refused as on the other way, and what was begun is answered', async () => {
  const release = Promise.withResolvers<void>()
  const { server, port } = await start({
    async answer(body, client) {
      await release.promise
      return answerOf(body, client)
    },
  })
  const socket = await openRaw(port)
  let said = ''
  socket.on('data', (chunk) => {
    said += chunk
  })
  socket.write(post('1'))
  await expect.poll(() => server.inFlight).toBe(1)
  const drained = server.drain(5_000)
  socket.write(post('2'))
  await nextTurn()
  release.resolve()
  await drained
  await once(socket, 'close')
  expect(said.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 503'])
})

test('what is kept of a request that is not whole counts, and gives way', async () => {
  const limits = { bodiesBytes: 120_000, bodiesBytesPerClient: 100_000 }
  const { port } = await start({ answer, limits })
  const half = await openRaw(port)
  let said = ''
  half.on('data', (chunk) => {
    said += chunk
  })
  half.write(post('x'.repeat(60_000)).slice(0, -1_000))
  const more = await openRaw(port)
  more.on('data', (chunk) => {
    said += chunk
  })
  more.write(post('x'.repeat(60_000)).slice(0, -1_000))
  await expect.poll(() => said).toMatch(/^HTTP\/1.1 503 [\s\S]*too many bytes are being/)
  half.destroy()
  more.destroy()
})

test('a body that comes slowly has no more time because its reader changes', async () => {
  const { port, server } = await start({ limits: { headersMs: 600, requestMs: 1_200 } })
  const spent = spending()
  const socket = await openRaw(port)
  const closed = once(socket.resume(), 'close')
  socket.write(`${HEAD}content-length: 100\r\n\r\n`)
  // More pieces than are kept.
  const sip = setInterval(() => socket.write('x'), 20)
  await closed
  clearInterval(sip)
  expect(server.sockets.late).toBe(1)
  expect(spent()).toBeLessThan(2_300)
})

test('a client that takes no answers is not read, and its requests wait with it', async () => {
  const text = `"${'x'.repeat(200_000)}"`
  let asked = 0
  const { port, server } = await start({
    answer() {
      asked++
      return { text, status: 200, headers: {} }
    },
  })
  const socket = await openRaw(port)
  socket.pause()
  const timer = setInterval(() => socket.write(post('1')), 1)
  await expect.poll(() => server.unsent.answers).toBeGreaterThan(0)
  const before = asked
  for (let turn = 0; turn < 50; turn++) await nextTurn()
  expect(asked).toBeLessThanOrEqual(before + 1)
  clearInterval(timer)
  socket.resume()
  await expect.poll(() => server.unsent.answers).toBe(0)
  expect(asked).toBeGreaterThan(before)
  socket.destroy()
})

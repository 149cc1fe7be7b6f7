/** Large responses go over real sockets: in parts, as a whole, in turns. */
import { isAscii } from 'node:buffer'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LARGE, LargeResponse } from '../../../rpc/core/exchange.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { startServer } from '../../fixtures/sockets.ts'

/** Starts a server that responds with pieces of the lengths that the body names. */
async function serve() {
  const bugs: unknown[] = []
  const { server, url, port } = await startServer({
    // Some of the parts are bytes, like in results in pieces.
    respond(body) {
      const parts = (JSON.parse(body) as string[]).map((text, at) =>
        at % 3 === 1 && isAscii(Buffer.from(text)) ? Buffer.from(text) : text,
      )
      return new LargeResponse(parts, { 'x-test': '1' })
    },
    onBug: (error) => bugs.push(error),
    limits: { bodyBytes: 50_000_000 },
  })
  onTestFinished(() => server.close())
  const post = (parts: readonly string[]) =>
    new Promise<{ length: string | undefined; text: string }>((resolve, reject) => {
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify(parts)
      const sent = request(
        url,
        { method: 'POST', headers: { ...headers, 'content-length': Buffer.byteLength(body) } },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk) => chunks.push(chunk))
          response.on('error', reject)
          response.on('end', () =>
            resolve({
              length: response.headers['content-length'],
              text: Buffer.concat(chunks).toString('latin1'),
            }),
          )
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
  return { server, port, post, bugs }
}
const filled = (length: number, at: number) => String.fromCharCode(97 + (at % 26)).repeat(length)

describe('a response in parts', () => {
  test('arrives complete for any parts, also beside other responses', async () => {
    const { post } = await serve()
    const length = fc.oneof(
      fc.nat(3),
      fc.nat(5_000),
      fc.integer({ min: LARGE - 2, max: 3 * LARGE }),
    )
    const response = fc.array(length, { maxLength: 12 }).map((lengths) => lengths.map(filled))
    await fc.assert(
      fc.asyncProperty(fc.array(response, { minLength: 1, maxLength: 4 }), async (responses) => {
        const got = await Promise.all(responses.map(post))
        for (const [at, { length: announced, text }] of got.entries()) {
          const full = responses[at]!.join('')
          expect(text === full).toBe(true)
          expect(announced).toBe(String(full.length))
        }
      }),
      { numRuns: 25 },
    )
  })

  test('lets other responses through between two pieces', async () => {
    const { post } = await serve()
    const large = post(Array.from({ length: 40 }, (_, at) => filled(LARGE, at)))
    let isOver = false
    void large.then(() => {
      isOver = true
    })
    const order: boolean[] = []
    while (!isOver) {
      await post(['x'])
      order.push(isOver)
    }
    expect(order.filter((over) => !over).length).toBeGreaterThan(3)
    expect((await large).text.length).toBe(40 * LARGE)
  })

  test('is in flight until it is sent, with either parser', async () => {
    const { server, post } = await serve()
    // Node's server reads a long request.
    for (const parts of [[filled(2 * LARGE, 0)], Array.from({ length: 9 }, () => filled(LARGE, 0))])
      await post(parts)
    await expect.poll(() => server.inFlight).toBe(0)
  })

  test('leaves nothing behind when its client disconnects', async () => {
    const { server, port, post } = await serve()
    const body = JSON.stringify(Array.from({ length: 40 }, (_, at) => filled(LARGE, at)))
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    await once(socket, 'data')
    socket.destroy()
    expect((await post(['a', 'b'])).text).toBe('ab')
    await server.close()
  })

  test('is cut off when it is not ASCII', async () => {
    const { post, bugs } = await serve()
    await expect(post([filled(LARGE, 0), 'ü'])).rejects.toThrow()
    expect(String(bugs[0])).toContain('not plain ASCII')
    expect((await post(['a'])).text).toBe('a')
  })
})

test('a batch of large results has parts that join to its text', async () => {
  const rpc = testRpc()
  const data = `0x${'ab'.repeat(100_000)}`
  const calls = (count: number) =>
    JSON.stringify(
      Array.from({ length: count }, (_, id) => ({
        jsonrpc: '2.0',
        id,
        method: 'web3_clientVersion',
        params: [],
      })),
    )
  expect((await rpc.send(calls(3))).parts).toBeUndefined()
  const echoed = { to: '0x0000000000000000000000000000000000000004', data }
  const echo = (id: number) => ({
    jsonrpc: '2.0',
    id,
    method: 'eth_call',
    params: [echoed, 'latest'],
  })
  const response = await rpc.send(JSON.stringify([echo(1), echo(2)]))
  expect(response.parts!.join('')).toBe(response.text)
  expect(JSON.parse(response.text!)).toEqual(
    [1, 2].map((id) => ({ jsonrpc: '2.0', id, result: data })),
  )
  const large = { ...echoed, data: `0x${'cd'.repeat(LARGE)}` }
  const single = await rpc.send(JSON.stringify({ ...echo(7), params: [large, 'latest'] }))
  expect(single.parts).toHaveLength(3)
  expect(JSON.parse(single.text!)).toEqual({ jsonrpc: '2.0', id: 7, result: large.data })
})

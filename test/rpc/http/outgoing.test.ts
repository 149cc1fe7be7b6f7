/** Large answers over real sockets: in parts, whole, in turns. */
import { isAscii } from 'node:buffer'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LARGE, LargeAnswer } from '../../../rpc/seam/exchange.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { startServer } from '../../fixtures/sockets.ts'

/** Answers with so many characters in pieces of the lengths that the body names. */
async function serve() {
  const bugs: unknown[] = []
  const { server, url, port } = await startServer({
    // Some of the parts are bytes, as results in pieces are.
    answer(body) {
      const parts = (JSON.parse(body) as string[]).map((text, at) =>
        at % 3 === 1 && isAscii(Buffer.from(text)) ? Buffer.from(text) : text,
      )
      return new LargeAnswer(parts, { 'x-test': '1' })
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

describe('an answer in parts', () => {
  test('arrives whole, whatever the parts are, also when several are on their way', async () => {
    const { post } = await serve()
    const length = fc.oneof(
      fc.nat(3),
      fc.nat(5_000),
      fc.integer({ min: LARGE - 2, max: 3 * LARGE }),
    )
    const answer = fc.array(length, { maxLength: 12 }).map((lengths) => lengths.map(filled))
    await fc.assert(
      fc.asyncProperty(fc.array(answer, { minLength: 1, maxLength: 4 }), async (answers) => {
        const got = await Promise.all(answers.map(post))
        for (const [at, { length: announced, text }] of got.entries()) {
          const whole = answers[at]!.join('')
          expect(text === whole).toBe(true)
          expect(announced).toBe(String(whole.length))
        }
      }),
      { numRuns: 25 },
    )
  })

  test('others are served between two pieces', async () => {
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

  test('is in flight until it is over, whichever way it came', async () => {
    const { server, post } = await serve()
    // A long request is read by Node's server.
    for (const parts of [[filled(2 * LARGE, 0)], Array.from({ length: 9 }, () => filled(LARGE, 0))])
      await post(parts)
    await expect.poll(() => server.inFlight).toBe(0)
  })

  test('a client that goes in the middle leaves nothing behind', async () => {
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

  test('that is not ASCII is cut off, not sent wrong', async () => {
    const { post, bugs } = await serve()
    await expect(post([filled(LARGE, 0), 'ü'])).rejects.toThrow()
    expect(String(bugs[0])).toContain('not plain ASCII')
    expect((await post(['a'])).text).toBe('a')
  })
})

test('a batch of large results comes in parts that are its text', async () => {
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
  const answer = await rpc.send(JSON.stringify([echo(1), echo(2)]))
  expect(answer.parts!.join('')).toBe(answer.text)
  expect(JSON.parse(answer.text!)).toEqual(
    [1, 2].map((id) => ({ jsonrpc: '2.0', id, result: data })),
  )
  const large = { ...echoed, data: `0x${'cd'.repeat(LARGE)}` }
  const single = await rpc.send(JSON.stringify({ ...echo(7), params: [large, 'latest'] }))
  expect(single.parts).toHaveLength(3)
  expect(JSON.parse(single.text!)).toEqual({ jsonrpc: '2.0', id: 7, result: large.data })
})

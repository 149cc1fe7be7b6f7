/** The node that is copied, as the command asks it: again where it does not answer, once more where it is wrong, never with the token in the clear. */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { ChunkError, encodeChunk } from '../../../engine/storage/bootstrap/chunk.ts'
import { BootstrapError } from '../../../engine/storage/bootstrap/fault.ts'
import { openAskedNode, StoppedError } from '../../../workers/commands/bootstrap/asking.ts'

const TOKEN = 'a'.repeat(32)
const servers: ReturnType<typeof createServer>[] = []
afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
})

/** Answers in their order; the last one again and again. */
async function nodeOf(...answers: readonly RequestListener[]) {
  let asked = 0
  const tokens: unknown[] = []
  const server = createServer((request, response) => {
    tokens.push(request.headers['x-bootstrap-token'])
    answers[Math.min(asked++, answers.length - 1)]!(request, response)
  })
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const told: string[] = []
  const open = (more: { retryMs?: number; isStopped?: () => boolean } = {}) =>
    openAskedNode({
      ...{
        url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
        token: TOKEN,
      },
      ...{
        by: '0'.repeat(32),
        retryMs: 30_000,
        isStopped: () => false,
        tell: (text) => told.push(text),
      },
      ...more,
    })
  return { open, told, tokens, asked: () => asked }
}
const GOOD = encodeChunk({ size: 7 }, [{ key: Uint8Array.of(1), value: new Uint8Array(100) }])
const good: RequestListener = (_, response) => response.end(GOOD)
const status =
  (code: number, text: string): RequestListener =>
  (_, response) => {
    response.statusCode = code
    response.end(text)
  }
const spoiled: RequestListener = (_, response) => {
  const bytes = GOOD.slice()
  bytes[5]! ^= 1
  response.end(bytes)
}
const cut: RequestListener = (_, response) => {
  response.writeHead(200, { 'content-length': GOOD.length })
  response.write(GOOD.subarray(0, 20), () => response.destroy())
}
const ABOUT = { part: 'about' } as const
const sizeOf = ({ head }: { readonly head: Readonly<Record<string, unknown>> }) => head['size']

test('with the token, and what came is counted', async () => {
  const { open, tokens } = await nodeOf(good)
  const node = open()
  expect(await node.ask(ABOUT, sizeOf)).toBe(7)
  expect(tokens).toEqual([TOKEN])
  expect(node.came()).toEqual({ bytes: GOOD.length, answers: 1 })
})

test.each([
  ['a connection that is cut', cut],
  ['a node that starts', status(503, 'the node is starting')],
  ['too many questions', status(429, 'too many requests')],
])('%s: it is asked again', async (_, first) => {
  const { open, told, asked } = await nodeOf(first, good)
  expect(await open().ask(ABOUT, sizeOf)).toBe(7)
  expect(asked()).toBe(2)
  expect(told).toHaveLength(1)
})

test('what is wrong once is asked for once more, twice ends it', async () => {
  expect(await (await nodeOf(spoiled, good)).open().ask(ABOUT, sizeOf)).toBe(7)
  const { open, asked } = await nodeOf(spoiled)
  await expect(open().ask(ABOUT, sizeOf)).rejects.toThrow(
    /wrong twice: its checksum is another; look at that node/,
  )
  expect(asked()).toBe(2)
  const refused = (await nodeOf(good)).open().ask(ABOUT, () => {
    throw new ChunkError('a row is out of its order')
  })
  await expect(refused).rejects.toThrow(BootstrapError)
})

test.each([
  [404, /start it with --bootstrap-token-file/],
  [401, /give its --bootstrap-token-file as --token-file/],
  [403, /refuses with 403: over TLS/],
])('%i ends it at once, with what to do', async (code, said) => {
  const { open, asked } = await nodeOf(status(code, 'over TLS'))
  await expect(open().ask(ABOUT, sizeOf)).rejects.toThrow(said)
  expect(asked()).toBe(1)
})

test('one that stays away ends it when the time is over, and the line says that nothing is lost', async () => {
  const { open } = await nodeOf(status(503, 'busy'))
  await expect(open({ retryMs: 300 }).ask(ABOUT, sizeOf)).rejects.toThrow(
    /the same command goes on where it was/,
  )
})

test('a signal is heard while it is away', async () => {
  const { open, told } = await nodeOf(status(503, 'busy'))
  await expect(open({ isStopped: () => told.length > 0 }).ask(ABOUT, sizeOf)).rejects.toThrow(
    StoppedError,
  )
})

test('a public address gets no token in the clear', async () => {
  const node = openAskedNode({
    ...{ url: new URL('http://192.0.2.1:8545'), token: TOKEN, by: '0'.repeat(32) },
    ...{ retryMs: 0, isStopped: () => false, tell: () => {} },
  })
  await expect(node.ask(ABOUT, sizeOf)).rejects.toThrow(/no private address: give https/)
})

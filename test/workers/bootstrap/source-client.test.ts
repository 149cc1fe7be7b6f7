/**
 * The command requests from the copied node repeatedly without a response, and once more after a
 * wrong one. It never sends the token unencrypted.
 */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { ChunkError, encodeChunk } from '../../../engine/storage/bootstrap/chunk.ts'
import { BootstrapError } from '../../../engine/storage/bootstrap/progress.ts'
import {
  openSourceClient,
  StoppedError,
} from '../../../workers/commands/bootstrap/source-client.ts'

const TOKEN = 'a'.repeat(32)
const servers: ReturnType<typeof createServer>[] = []
afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
})

/** Gives the responses in order, and repeats the last one. */
async function nodeOf(...responses: readonly RequestListener[]) {
  let requested = 0
  const tokens: unknown[] = []
  const server = createServer((request, response) => {
    tokens.push(request.headers['x-bootstrap-token'])
    responses[Math.min(requested++, responses.length - 1)]!(request, response)
  })
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const reported: string[] = []
  const open = (more: { retryMs?: number; isStopped?: () => boolean } = {}) =>
    openSourceClient({
      url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
      token: TOKEN,
      by: '0'.repeat(32),
      retryMs: 30_000,
      isStopped: () => false,
      report: (text) => reported.push(text),
      ...more,
    })
  return { open, reported, tokens, requested: () => requested }
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

test('a request has the token, and its response is counted', async () => {
  const { open, tokens } = await nodeOf(good)
  const node = open()
  expect(await node.request(ABOUT, sizeOf)).toBe(7)
  expect(tokens).toEqual([TOKEN])
  expect(node.came()).toEqual({ bytes: GOOD.length, responses: 1 })
})

test.each([
  ['a lost connection', cut],
  ['the response of a starting node', status(503, 'the node is starting')],
  ['the response for too many requests', status(429, 'too many requests')],
])('a request is repeated after %s', async (_, first) => {
  const { open, reported, requested } = await nodeOf(first, good)
  expect(await open().request(ABOUT, sizeOf)).toBe(7)
  expect(requested()).toBe(2)
  expect(reported).toHaveLength(1)
})

test('a request is repeated once after a damaged response, and fails after two', async () => {
  expect(await (await nodeOf(spoiled, good)).open().request(ABOUT, sizeOf)).toBe(7)
  const { open, requested } = await nodeOf(spoiled)
  await expect(open().request(ABOUT, sizeOf)).rejects.toThrow(
    /invalid data twice: its checksum is another; check that node/,
  )
  expect(requested()).toBe(2)
  const refused = (await nodeOf(good)).open().request(ABOUT, () => {
    throw new ChunkError('a row is out of its order')
  })
  await expect(refused).rejects.toThrow(BootstrapError)
})

test.each([
  [404, /start that node with --bootstrap-token-file/],
  [401, /give its --bootstrap-token-file as --token-file/],
  [403, /refuses the copy with 403: over TLS/],
])('status %i ends the command at once, with advice', async (code, said) => {
  const { open, requested } = await nodeOf(status(code, 'over TLS'))
  await expect(open().request(ABOUT, sizeOf)).rejects.toThrow(said)
  expect(requested()).toBe(1)
})

test('an unreachable node ends the command after its timeout, and a rerun resumes', async () => {
  const { open } = await nodeOf(status(503, 'busy'))
  await expect(open({ retryMs: 300 }).request(ABOUT, sizeOf)).rejects.toThrow(
    /run the same command again to continue/,
  )
})

test('a signal ends the wait for an unreachable node', async () => {
  const { open, reported } = await nodeOf(status(503, 'busy'))
  await expect(
    open({ isStopped: () => reported.length > 0 }).request(ABOUT, sizeOf),
  ).rejects.toThrow(StoppedError)
})

test('the token is never sent unencrypted to a public address', async () => {
  const node = openSourceClient({
    url: new URL('http://192.0.2.1:8545'),
    token: TOKEN,
    by: '0'.repeat(32),
    retryMs: 0,
    isStopped: () => false,
    report: () => {},
  })
  await expect(node.request(ABOUT, sizeOf)).rejects.toThrow(
    /a public address without TLS, .*: give an https/,
  )
})

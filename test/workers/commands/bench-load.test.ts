import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { load } from '../../../workers/commands/bench/load.ts'

type LoadOptions = {
  readonly questions: number
  readonly connections: number
  readonly right?: string | undefined
  readonly tls?: { readonly key: string; readonly cert: string }
}

/**
 * Loads a server with prescribed responses.
 * @returns the counts, and the requests that the server received
 */
async function loaded(
  respond: (at: number, response: ServerResponse) => void,
  { questions, connections, right, tls }: LoadOptions,
) {
  const seen: string[] = []
  const server = tls === undefined ? createServer() : createSecureServer(tls)
  server.on('request', async (request, response) => {
    const body = (await request.toArray()).join('')
    seen.push(body)
    respond(Number(body), response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}/`
  let next = 0
  try {
    const result = await load({
      url,
      connections,
      next: () =>
        next < questions ? { body: `${next++}`, ...(right && { response: right }) } : undefined,
    })
    return { ...result, seen }
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
/** The certificate is self-signed for 127.0.0.1. */
const UNKNOWN = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQguatwHW6a9URbKAf/
UBBbW+8umaQf2xoYcqUIJnA5xuWhRANCAAQDdj4zByeS3hYgFoeNvAk33fki15mh
1K5u2sLX9OkEI+mivBZdIoQr60HXXB9+uoCBeykl9MakCKrVuUkZJcKC
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBkDCCATagAwIBAgIUFqKqFk9s0f7RcIi4dnF+GUlaE8QwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEzMDA0MzU0M1oYDzIxMjYxMTA2
MDQzNTQzWjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQDdj4zByeS3hYgFoeNvAk33fki15mh1K5u2sLX9OkEI+mivBZdIoQr
60HXXB9+uoCBeykl9MakCKrVuUkZJcKCo2QwYjAdBgNVHQ4EFgQUcQzb9v238Q2W
mZO0w6Zy2QGe78UwHwYDVR0jBBgwFoAUcQzb9v238Q2WmZO0w6Zy2QGe78UwDwYD
VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0gAMEUC
IFMpGVXf+/s4F9XajGmSrJHBERT8Uk76Fr6xIbUwjrzUAiEAwaVSPm9J+DRMiRkt
D7ZeQ+EXemEfOSK1dPNOn5FKPQg=
-----END CERTIFICATE-----`,
}
const one = { questions: 20, connections: 1 }
const RESULT = '{"jsonrpc":"2.0","id":1,"result":"0x1"}'
const ERROR = '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}'

describe('the bench load', () => {
  test('sends each request once, over all connections', async () => {
    const { responses, failed, seen } = await loaded((_, response) => response.end(RESULT), {
      questions: 500,
      connections: 7,
    })
    expect([responses, failed]).toEqual([500, 0])
    expect(seen.map(Number).toSorted((a, b) => a - b)).toEqual([...Array(500).keys()])
  })

  test.each<[name: string, response: (at: number, response: ServerResponse) => void]>([
    ['a content length', (_, response) => response.end(RESULT)],
    [
      'chunks',
      (_, response) => {
        response.write(RESULT.slice(0, 9))
        setImmediate(() => response.end(RESULT.slice(9)))
      },
    ],
    ['many bytes', (_, response) => response.end(`"${'a'.repeat(3_000_000)}"`)],
    [
      'many bytes in chunks',
      (_, response) => {
        response.write('"')
        response.end(`${'a'.repeat(3_000_000)}"`)
      },
    ],
    [
      'a connection for each response',
      (_, response) => response.setHeader('connection', 'close').end(RESULT),
    ],
  ])('reads responses with %s', async (_, respond) => {
    const { responses, failed, p50Ms, seconds } = await loaded(respond, one)
    expect([responses, failed]).toEqual([20, 0])
    expect(p50Ms).toBeGreaterThan(0)
    expect(seconds * 1_000).toBeGreaterThan(p50Ms)
  })

  test('counts errors, which are no responses', async () => {
    const { responses, failed, firstFailure } = await loaded((at, response) => {
      if (at === 3) response.end(ERROR)
      else if (at === 5) response.writeHead(503).end('{}')
      else response.end(RESULT)
    }, one)
    expect([responses, failed, firstFailure]).toEqual([18, 2, ERROR])
  })

  test('counts connections that end without a response', async () => {
    const { responses, failed, firstFailure } = await loaded((at, response) => {
      if (at < 2) response.socket!.destroy()
      else response.end(RESULT)
    }, one)
    expect([responses, failed]).toEqual([18, 2])
    expect(firstFailure).toMatch(/socket hang up|ECONNRESET/)
  })

  test('reads the responses after one that was cut off', async () => {
    const { responses, wrong, failed } = await loaded(
      (at, response) => {
        if (at !== 3 && at !== 7) return response.end(RESULT)
        response.setHeader('content-length', RESULT.length)
        return response.write(RESULT.slice(0, 9), () => response.socket!.destroy())
      },
      { ...one, right: RESULT },
    )
    expect([responses, wrong, failed]).toEqual([18, 0, 2])
  })

  test('repeats requests that a closing server has not read', async () => {
    const { responses, failed, seen } = await loaded(
      (_, response) => response.setHeader('connection', 'close').end(RESULT),
      { questions: 200, connections: 4 },
    )
    expect([responses, failed]).toEqual([200, 0])
    expect(new Set(seen).size).toBe(200)
  })

  test('compares characters that are split between two parts of a response', async () => {
    const right = '"é€😀"'
    const bytes = Buffer.from(right)
    const { responses, wrong } = await loaded(
      (at, response) => {
        response.socket!.setNoDelay(true)
        const cut = 1 + (at % (bytes.length - 1))
        response.write(bytes.subarray(0, cut))
        setImmediate(() => response.end(bytes.subarray(cut)))
      },
      { ...one, right },
    )
    expect([responses, wrong]).toEqual([20, 0])
  })

  test('counts responses with an unknown certificate as failures', async () => {
    const { responses, failed, firstFailure } = await loaded(
      (_, response) => response.end(RESULT),
      {
        ...one,
        tls: UNKNOWN,
      },
    )
    expect([responses, failed]).toEqual([0, 20])
    expect(firstFailure).toMatch(/^TLS: /)
  })

  test('counts responses that differ from the expected one, also errors', async () => {
    const { responses, wrong, failed } = await loaded(
      (at, response) => response.end(at === 3 ? ERROR : at === 5 ? '{}' : RESULT),
      { ...one, right: RESULT },
    )
    expect([responses, wrong, failed]).toEqual([18, 2, 0])
  })
})

import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { load } from '../../../workers/commands/bench/load.ts'

type Asked = {
  readonly questions: number
  readonly connections: number
  readonly right?: string | undefined
}

/** Loads a server that answers each question as it is told. @returns what was counted, and the questions that it saw */
async function loaded(
  answer: (at: number, response: ServerResponse) => void,
  { questions, connections, right }: Asked,
) {
  const seen: string[] = []
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join('')
    seen.push(body)
    answer(Number(body), response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  let next = 0
  try {
    const result = await load({
      ...{ url, connections },
      next: () =>
        next < questions ? { body: `${next++}`, ...(right && { answer: right }) } : undefined,
    })
    return { ...result, seen }
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
const one = { questions: 20, connections: 1 }
const RESULT = '{"jsonrpc":"2.0","id":1,"result":"0x1"}'
const ERROR = '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}'

describe('load', () => {
  test('asks each question once, over all connections', async () => {
    const { answers, failed, seen } = await loaded((_, response) => response.end(RESULT), {
      questions: 500,
      connections: 7,
    })
    expect([answers, failed]).toEqual([500, 0])
    expect(seen.map(Number).toSorted((a, b) => a - b)).toEqual([...Array(500).keys()])
  })

  test.each<[name: string, answer: (at: number, response: ServerResponse) => void]>([
    ['a length', (_, response) => response.end(RESULT)],
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
      'the end of each connection',
      (_, response) => response.setHeader('connection', 'close').end(RESULT),
    ],
  ])('reads answers with %s', async (_, answer) => {
    const { answers, failed, p50Ms, seconds } = await loaded(answer, one)
    expect([answers, failed]).toEqual([20, 0])
    expect(p50Ms).toBeGreaterThan(0)
    expect(seconds * 1_000).toBeGreaterThan(p50Ms)
  })

  test('counts errors, which are no answers', async () => {
    const { answers, failed, firstFailure } = await loaded((at, response) => {
      if (at === 3) response.end(ERROR)
      else if (at === 5) response.writeHead(503).end('{}')
      else response.end(RESULT)
    }, one)
    expect([answers, failed, firstFailure]).toEqual([18, 2, ERROR])
  })

  test('counts connections that end without their answer', async () => {
    const { answers, failed, firstFailure } = await loaded((at, response) => {
      if (at < 2) response.socket!.destroy()
      else response.end(RESULT)
    }, one)
    expect([answers, failed]).toEqual([18, 2])
    expect(firstFailure).toMatch(/socket hang up|ECONNRESET/)
  })

  test('counts answers that are others, errors too, where one was given', async () => {
    const { answers, wrong, failed } = await loaded(
      (at, response) => response.end(at === 3 ? ERROR : at === 5 ? '{}' : RESULT),
      { ...one, right: RESULT },
    )
    expect([answers, wrong, failed]).toEqual([18, 2, 0])
  })
})

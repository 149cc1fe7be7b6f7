/** Callers give API keys in a header or at the end of a path, over HTTP and WebSocket. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ApiKeys, digestOf } from '../../../rpc/core/api-keys.ts'
import { readKey } from '../../../rpc/http/callers.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { openSocket, startServer, talk } from '../../fixtures/sockets.ts'

const KEY = 'partner-key-0123456789'
const OTHER = 'another-key-0123456789'
const newKeys = () =>
  new ApiKeys([
    { name: 'partner', digest: digestOf(KEY), rate: 500 },
    { name: 'other', digest: digestOf(OTHER), rate: undefined },
  ])

describe('the API key of a request', () => {
  type Headers = Readonly<Record<string, string>>
  const cases: [name: string, url: string, headers: Headers, url: string, caller: unknown][] = [
    ['none', '/flashblocks?x=1', {}, '/flashblocks?x=1', undefined],
    ['in a header', '/', { 'x-api-key': KEY }, '/', 'key partner'],
    ['as a bearer token', '/', { authorization: `Bearer ${KEY}` }, '/', 'key partner'],
    ['another authorization scheme', '/', { authorization: `Basic ${KEY}` }, '/', undefined],
    ['at the end of the path', `/${KEY}`, {}, '/', 'key partner'],
    ['at the end of a longer path', `/flashblocks/${KEY}`, {}, '/flashblocks', 'key partner'],
    ['in the path, before a query', `/feed/${OTHER}?since=1:0`, {}, '/feed?since=1:0', 'key other'],
    ['in the path, which precedes a header', `/${KEY}`, { 'x-api-key': OTHER }, '/', 'key partner'],
    [
      'a path segment too short for a key',
      '/flashblocks/short',
      {},
      '/flashblocks/short',
      undefined,
    ],
    ['in a query, which is not read', `/?a=/${KEY}`, {}, `/?a=/${KEY}`, undefined],
    ['an unknown key', '/', { 'x-api-key': `${KEY}x` }, '/', 'unknown'],
    ['an empty key', '/', { 'x-api-key': '' }, '/', 'unknown'],
    ['an unknown key in the path', `/${KEY}x`, {}, '/', 'unknown'],
  ]
  test.each(cases)('identifies the caller: %s', (_name, url, headers, left, caller) => {
    const request = { url, headers, caller: undefined, hasUnknownKey: false }
    readKey(request, newKeys())
    expect(request.url).toBe(left)
    expect(request.hasUnknownKey ? 'unknown' : request.caller).toBe(caller)
  })

  test('is unknown once it has been replaced', () => {
    const keys = newKeys()
    expect(keys.rateOf('partner')).toBe(500)
    keys.replace([{ name: 'partner', digest: digestOf(OTHER), rate: 'off' }])
    expect(keys.nameOf(KEY)).toBeUndefined()
    expect(keys.nameOf(OTHER)).toBe('partner')
    expect(keys.rateOf('partner')).toBe('off')
    expect(keys.rateOf('other')).toBeUndefined()
  })
})

describe('a server with keys', () => {
  let server: Server
  let port: number
  beforeAll(async () => {
    ;({ server, port } = await startServer({ apiKeys: newKeys() }))
  })
  afterAll(() => server.close())
  const post = (path: string, header = '') =>
    talk(
      port,
      `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n${header}content-length: 1\r\n\r\n1`,
    )
  const whoIs = async (path: string, header?: string) =>
    /"address":"([^"]*)","endpoint":"(\w+)"/.exec(await post(path, header))?.slice(1)

  test('identifies the caller of a request', async () => {
    expect(await whoIs('/')).toEqual(['127.0.0.1', 'standard'])
    expect(await whoIs('/', `X-Api-Key: ${KEY}\r\n`)).toEqual(['key partner', 'standard'])
    expect(await whoIs('/flashblocks', `authorization: bearer ${OTHER}\r\n`)).toEqual([
      'key other',
      'flashblocks',
    ])
    expect(await whoIs(`/${KEY}`)).toEqual(['key partner', 'standard'])
    expect(await whoIs(`/flashblocks/${KEY}?x=1`)).toEqual(['key partner', 'flashblocks'])
  })
  test('refuses unknown keys over HTTP and WebSocket', async () => {
    expect(await post('/', `X-Api-Key: ${KEY}x\r\n`)).toMatch(/^HTTP\/1.1 401 .*unknown API key/s)
    expect(await post(`/${KEY}x`)).toMatch(/^HTTP\/1.1 401 /)
    await expect(openSocket(`ws://127.0.0.1:${port}/${KEY}x`)).rejects.toThrow('401')
  })
  test('identifies the caller of a WebSocket', async () => {
    for (const [url, headers] of [
      [`ws://127.0.0.1:${port}/flashblocks/${KEY}`, {}],
      [`ws://127.0.0.1:${port}/flashblocks`, { 'x-api-key': KEY }],
    ] as const) {
      const socket = await openSocket(url, headers)
      socket.send('1')
      expect(await socket.next()).toContain('"address":"key partner","endpoint":"flashblocks"')
      socket.close()
    }
  })
})

test('a server without API keys reads no key from the path', async () => {
  const { server, port } = await startServer()
  const response = await talk(
    port,
    `POST /${KEY} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 1\r\n\r\n1`,
  )
  expect(response).toMatch(/^HTTP\/1.1 404 /)
  await server.close()
})

/**
 * These tests cover the front threads of one node: a client's usage on one thread counts on the
 * others.
 */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { openLocalConcurrencyLimit } from '../../../rpc/core/concurrency-limit.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import type { Forward } from '../../../rpc/core/ports.ts'
import { trustedProxies } from '../../../rpc/limiter/address.ts'
import {
  CONCURRENCY_KINDS,
  createConcurrencyMemory,
  openSharedConcurrencyLimits,
  releaseEndedConcurrency,
} from '../../../rpc/limiter/shared-concurrency-limits.ts'
import { lazyChain } from '../../fixtures/lazy-state.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { from } from '../../fixtures/socket-from.ts'
import { openSocket, startServer } from '../../fixtures/sockets.ts'

const FULL = { error: { code: -32005 } }
const frontThreads = () => {
  const memory = createConcurrencyMemory({ rows: 100, frontThreads: 2 })
  return {
    memory,
    open: [openSharedConcurrencyLimits(memory, 0), openSharedConcurrencyLimits(memory, 1)] as const,
  }
}

test('filters of an address count on all front threads, and end with their thread', async () => {
  const { memory, open } = frontThreads()
  const limits = { filtersPerClient: 2, filtersTotal: 3 }
  const [one, other] = [
    testRpc({ limits, concurrencyLimits: open[0] }),
    testRpc({ limits, concurrencyLimits: open[1] }),
  ]
  const made = await one.request('eth_newBlockFilter')
  expect(await other.request('eth_newBlockFilter')).toHaveProperty('result')
  for (const rpc of [one, other])
    expect(await rpc.request('eth_newBlockFilter')).toMatchObject(FULL)
  expect(await one.request('eth_uninstallFilter', [made.result])).toMatchObject({ result: true })
  expect(await other.request('eth_newBlockFilter')).toHaveProperty('result')
  const somebodyElse = { address: '10.0.0.9' }
  expect(await one.request('eth_newBlockFilter', [], somebodyElse)).toHaveProperty('result')
  expect(await one.request('eth_newBlockFilter', [], { address: '10.0.0.8' })).toMatchObject(FULL)
  expect(one.stats().filters + other.stats().filters).toBe(3)
  releaseEndedConcurrency(memory, 1)
  expect(await one.request('eth_newBlockFilter')).toHaveProperty('result')
})

test('waiting calls count on all front threads, and each reports its own', async () => {
  const { open } = frontThreads()
  const limits = { placeWaitsPerClient: 1, placeWaitMs: 60_000 }
  const [one, other] = [
    testRpc({ limits, concurrencyLimits: open[0] }),
    testRpc({ limits, concurrencyLimits: open[1] }),
  ]
  const leaves = new AbortController()
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] })
  const minFlashblock = JSON.stringify({ ...JSON.parse(body), minFlashblock: '1000:0' })
  const waiting = one.send(minFlashblock, { signal: leaves.signal })
  while (one.stats().flashblockWaits.waiting === 0) await new Promise(setImmediate)
  expect(JSON.parse((await other.send(minFlashblock)).text!)).toMatchObject(FULL)
  expect([one, other].map((rpc) => rpc.stats().flashblockWaits)).toMatchObject([
    { waiting: 1, refused: 0 },
    { waiting: 0, refused: 1 },
  ])
  leaves.abort()
  await waiting
})

async function serverOf(
  limits: Partial<Limits>,
  concurrencyLimits: ReturnType<typeof openSharedConcurrencyLimits>,
) {
  const started = await startServer({ limits, concurrencyLimits })
  onTestFinished(() => started.server.close())
  return started
}
const REQUEST =
  'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n1'
async function isServed(socket: Socket): Promise<boolean> {
  socket.write(REQUEST)
  return Promise.race([
    once(socket, 'data').then(([response]) => String(response).startsWith('HTTP/1.1 200 ')),
    once(socket, 'close').then(() => false),
  ])
}

test('sockets of an address count on all servers', async () => {
  const { memory, open } = frontThreads()
  const limits = { socketsPerClient: 2 }
  const [one, other] = [await serverOf(limits, open[0]), await serverOf(limits, open[1])]
  const first = await from('127.0.0.2', one.port)
  expect(await isServed(first)).toBe(true)
  expect(await isServed(await from('127.0.0.2', other.port))).toBe(true)
  expect(await isServed(await from('127.0.0.2', one.port))).toBe(false)
  expect(await isServed(await from('127.0.0.2', other.port))).toBe(false)
  expect(await isServed(await from('127.0.0.3', other.port))).toBe(true)
  expect([one, other].map(({ server }) => server.sockets.refused)).toEqual([1, 1])
  first.destroy()
  await expect.poll(() => one.server.connections()).toBe(0)
  expect(await isServed(await from('127.0.0.2', other.port))).toBe(true)
  releaseEndedConcurrency(memory, 1)
  for (let n = 0; n < 2; n++) expect(await isServed(await from('127.0.0.2', one.port))).toBe(true)
})

test('refused sockets with a 503 response count on all servers', async () => {
  const { open } = frontThreads()
  const limits = { socketsPerClient: 1, refusedSocketsPerClient: 2 }
  const servers = [await serverOf(limits, open[0]), await serverOf(limits, open[1])]
  expect(await isServed(await from('127.0.0.2', servers[0]!.port))).toBe(true)
  const reported: string[] = []
  for (const { port } of [...servers, ...servers]) {
    const socket = await from('127.0.0.2', port)
    let response = ''
    socket.on('data', (piece) => {
      response += piece
    })
    // Refused sockets keep their half open, so that each counts until the server closes it.
    await Promise.race([once(socket, 'data'), once(socket, 'close')])
    reported.push(response.slice(9, 12))
  }
  expect(reported).toEqual(['503', '503', '', ''])
})

test('without a limit per address only the total of each server applies', async () => {
  const { open } = frontThreads()
  const limits = { socketsPerClient: 0, sockets: 2 }
  const servers = [await serverOf(limits, open[0]), await serverOf(limits, open[1])]
  for (const { port, server } of servers) {
    for (let n = 0; n < 3; n++) expect(await isServed(await from('127.0.0.2', port))).toBe(true)
    expect(server.sockets).toMatchObject({ refused: 0, evicted: 1 })
  }
})

test('WebSockets count on all servers, per address and in total', async () => {
  const { open } = frontThreads()
  const limits = { connectionsPerClient: 1, connectionsTotal: 2 }
  const trust = {
    limits,
    concurrencyLimits: open[0],
    trustedProxies: trustedProxies(['127.0.0.1/32']),
  }
  const servers = [
    await startServer(trust),
    await startServer({ ...trust, concurrencyLimits: open[1] }),
  ]
  for (const { server } of servers) onTestFinished(() => server.close())
  const [one, other] = servers.map(({ port }) => `ws://127.0.0.1:${port}/`)
  const as = (address: string) => ({ 'x-forwarded-for': address })
  const first = await openSocket(one!, as('10.0.0.1'))
  await expect(openSocket(other!, as('10.0.0.1'))).rejects.toThrow('429')
  await openSocket(other!, as('10.0.0.2'))
  await expect(openSocket(one!, as('10.0.0.3'))).rejects.toThrow('503')
  first.close()
  await first.closed
  await expect
    .poll(() => openSocket(other!, as('10.0.0.1')).then(() => 'open', String))
    .toBe('open')
})

test('each kind of concurrency limit is opened once, with its limits', async () => {
  const opened: Record<string, unknown[]> = {}
  const concurrencyLimits: typeof openLocalConcurrencyLimit = (kind, limits) => {
    opened[kind] ??= []
    opened[kind].push([limits.perClient, limits.total])
    return openLocalConcurrencyLimit(kind, limits)
  }
  const source = memoryChain()
  const { reader, lazy } = lazyChain(source, { oldest: 0n })
  const forward: Forward = { forward: async () => ({ result: 'null' }) }
  const forwardingUrl = 'http://127.0.0.1:1'
  testRpc({ source: { ...source, reader }, concurrencyLimits, lazy, forward, forwardingUrl })
  const { server } = await startServer({ concurrencyLimits })
  onTestFinished(() => server.close())
  const limits = DEFAULT_LIMITS
  expect(opened).toEqual({
    filters: [[limits.filtersPerClient, limits.filtersTotal]],
    holds: [[limits.holdsPerClient, limits.holdsTotal]],
    seen: [[limits.holdsPerClient, limits.holdsTotal]],
    flashblockWaits: [[limits.placeWaitsPerClient, limits.placeWaitsTotal]],
    syncSends: [[limits.syncSendsPerClient, limits.syncSendsTotal]],
    forwarding: [[limits.legacyCallsPerClient, limits.legacyCallsTotal]],
    upstream: [[limits.forwardsPerClient, limits.forwardsTotal]],
    connections: [[limits.connectionsPerClient, limits.connectionsTotal]],
    sockets: [[limits.socketsPerClient, Infinity]],
    refusedSockets: [[limits.refusedSocketsPerClient, limits.refusedSocketsTotal]],
  })
  expect(Object.keys(opened).toSorted()).toEqual([...CONCURRENCY_KINDS].toSorted())
})

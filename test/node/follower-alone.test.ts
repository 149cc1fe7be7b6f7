/**
 * A lazy follower starts while its upstream is down: with a stored head it serves that head,
 * without one it waits.
 */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { META } from '../../engine/storage/database/meta.ts'
import { storedLazyMode, storeLazyMode } from '../../engine/storage/lazy/directory.ts'
import { temporaryDirectory } from '../fixtures/databases.ts'
import { openSmall } from '../fixtures/databases-open.ts'
import { freePort } from '../kit/free-port.ts'
import { call, type RunningNode, startNode } from '../kit/node.ts'
import { headOf, readiness, until } from '../outside/follow/nodes.ts'

const FLAGS = ['--rate-limit', 'off', '--pool-threads', '2']
const folder = mkdtempSync(join(tmpdir(), 'flashnode-alone-'))
const leaderData = join(folder, 'leader')
const genesis = join(folder, 'genesis.json')
const nodes: RunningNode[] = []
let port = 0
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop('SIGKILL')
})
afterAll(() => rmSync(folder, { recursive: true }))

async function startLeader(): Promise<RunningNode> {
  const node = await startNode(['--datadir', leaderData, '--port', String(port), ...FLAGS])
  nodes.push(node)
  return node
}
async function follow(name: string, more: readonly string[] = []): Promise<RunningNode> {
  const flags = ['--chain', genesis, '--datadir', join(folder, name), '--state', 'lazy', ...FLAGS]
  const upstream = ['--upstream', `http://127.0.0.1:${port}`, '--feed', 'none']
  const node = await startNode([...flags, ...upstream, ...more], 'follow')
  nodes.push(node)
  return node
}
const LONG_MS = 120_000
const isReady = ({ url }: RunningNode) =>
  until(async () => (await readiness(url)).code === 200, LONG_MS)

beforeAll(async () => {
  port = await freePort()
})

test('a follower serves its own head without an upstream, then follows it again', async () => {
  const leader = await startLeader()
  copyFileSync(join(leaderData, 'genesis.json'), genesis)
  const first = await follow('held')
  expect(await isReady(first)).toBe(true)
  expect(await first.stop()).toBe(0)
  await leader.stop()
  const second = await follow('held')
  const { head } = second
  expect(head).toBeGreaterThanOrEqual(first.head)
  expect(Number(await call(`${second.url}/`, 'eth_blockNumber'))).toBe(head)
  const { code, reasons, mode } = await readiness(second.url)
  expect({ code, mode }).toEqual({ code: 503, mode: 'proven' })
  expect(reasons).toContain(
    `no upstream has answered since the start: answers are those of our own head, block ${head}`,
  )
  const isExplained = async () =>
    (await readiness(second.url)).reasons.join().includes('nothing listens there (ECONNREFUSED)')
  expect(await until(isExplained, LONG_MS)).toBe(true)
  await startLeader()
  expect(await isReady(second)).toBe(true)
  expect(await until(async () => (await headOf(second.url)) > head, LONG_MS)).toBe(true)
})

test('a follower with an empty directory waits for its upstream', async () => {
  const starting = follow('empty')
  await startLeader()
  expect(await isReady(await starting)).toBe(true)
})

test('the lazy mode is stored, and is undefined if it is missing or unknown', async () => {
  const database = await openSmall(join(temporaryDirectory(), 'state'))
  expect(storedLazyMode(database)).toBe(undefined)
  for (const mode of ['proven', 'trusted'] as const) {
    storeLazyMode(database, mode)
    expect(storedLazyMode(database)).toBe(mode)
  }
  const batch = database.batch()
  batch.put('meta', META.lazyMode, new TextEncoder().encode('newer'))
  batch.commit()
  expect(storedLazyMode(database)).toBe(undefined)
  await database.close()
})

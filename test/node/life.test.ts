/** The life of the process, seen from outside: start, refusal to start, end. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { call, type RunningNode, startNode as start } from '../kit/node.ts'

const directories: string[] = []
function directory(): string {
  const path = mkdtempSync(join(tmpdir(), 'flashnode-life-'))
  directories.push(path)
  return path
}
const nodes: RunningNode[] = []
async function startNode(flags: readonly string[]): Promise<RunningNode> {
  const node = await start(flags)
  nodes.push(node)
  return node
}
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop('SIGKILL')
  for (const path of directories.splice(0)) rmSync(path, { recursive: true, force: true })
})

/** Runs a command that is to fail: its exit code and what it says on standard error, log records (JSON) left out. */
async function refused(
  args: readonly string[],
): Promise<{ code: number | NodeJS.Signals; error: string }> {
  const child = spawn(process.execPath, ['workers/main.ts', ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let error = ''
  child.stderr.on('data', (chunk) => {
    error += chunk
  })
  const [status, signal] = (await once(child, 'exit')) as [number, NodeJS.Signals]
  const code = status ?? signal
  const said = error.split('\n').filter((line) => line !== '' && !line.startsWith('{'))
  return { code, error: said.join('\n') }
}
const dev = (path: string, ...flags: string[]) => [
  'dev',
  '--port',
  '0',
  '--admin-port',
  '0',
  '--datadir',
  path,
  ...flags,
]

test('answers, and ends with 0 on SIGTERM under load', async () => {
  const node = await startNode(['--ephemeral', '--rate-limit', 'off'])
  let isGone = false
  let answered = 0
  const clients = Array.from({ length: 8 }, async () => {
    while (!isGone) {
      const wasAnswered = await call(`${node.url}/flashblocks`, 'eth_call', [{}, 'pending']).then(
        () => true,
        () => false,
      )
      if (wasAnswered) answered++
    }
  })
  await expect.poll(() => answered).toBeGreaterThan(20)
  expect(await node.stop('SIGTERM')).toBe(0)
  isGone = true
  await Promise.all(clients)
})

test('keeps its chain over a restart', async () => {
  const path = directory()
  const first = await startNode(['--datadir', path])
  await expect.poll(async () => Number(await call(first.url, 'eth_blockNumber'))).toBeGreaterThan(2)
  const block = (await call(first.url, 'eth_getBlockByNumber', ['0x2', false])) as { hash: string }
  expect(await first.stop('SIGINT')).toBe(0)
  const second = await startNode(['--datadir', path])
  expect(second.head).toBeGreaterThanOrEqual(2)
  expect(await call(second.url, 'eth_getBlockByNumber', ['0x2', false])).toMatchObject(block)
  await second.stop()
})

test('a second signal ends it at once', async () => {
  const node = await startNode(['--ephemeral'])
  node.child.kill('SIGTERM')
  expect([0, 130, 143, 'SIGTERM']).toContain(await node.stop('SIGTERM'))
})

test('refuses a directory that is open', async () => {
  const path = directory()
  const node = await startNode(['--datadir', path])
  const { code, error } = await refused(dev(path))
  expect(code).toBe(1)
  expect(error.split('\n')).toHaveLength(1)
  expect(error).toContain(`open in another process (pid ${node.pid})`)
  expect(await node.stop()).toBe(0)
})

test('refuses a directory of another chain', async () => {
  const path = directory()
  const node = await startNode(['--datadir', path])
  expect(await node.stop()).toBe(0)
  const { code, error } = await refused(dev(path, '--chain', 'xlayer-testnet'))
  expect(code).toBe(1)
  expect(error.split('\n')).toHaveLength(1)
  expect(error).toMatch(/196/)
  expect(error).toMatch(/1952/)
})

test('refuses a directory that is not its own', async () => {
  const path = directory()
  mkdirSync(join(path, 'photos'))
  writeFileSync(join(path, 'letter.txt'), 'dear reader')
  const { code, error } = await refused(dev(path))
  expect(code).toBe(1)
  expect(error.split('\n')).toHaveLength(1)
  expect(error).toContain(path)
})

test('refuses a port that is taken', async () => {
  const node = await startNode(['--ephemeral'])
  const { port } = new URL(node.url)
  const { code, error } = await refused(['dev', '--ephemeral', '--port', port, '--admin-port', '0'])
  expect(code).toBe(1)
  expect(error.split('\n')).toHaveLength(1)
  expect(error).toContain(port)
  await node.stop()
})

test.each([
  [['dev', '--prot', '1'], /--port/],
  [['dev', '--port', 'many'], /--port/],
  [['devv'], /dev/],
])('%j ends with 2 and one line', async (args, said) => {
  const { code, error } = await refused(args)
  expect(code).toBe(2)
  expect(error.split('\n')).toHaveLength(1)
  expect(error).toMatch(said)
})

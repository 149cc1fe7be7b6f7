/** These tests observe the process from outside: start, refusal to start, end. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
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

/**
 * Runs a command that must fail, and gives its exit code and standard error without log records
 * (JSON).
 */
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

test('a node under load has its port to itself, and ends with 0 on SIGTERM', async () => {
  const path = directory()
  const node = await startNode(['--datadir', path, '--rate-limit', 'off'])
  let isGone = false
  let responded = 0
  const clients = Array.from({ length: 8 }, async () => {
    while (!isGone) {
      const hadResponse = await call(`${node.url}/flashblocks`, 'eth_call', [{}, 'pending']).then(
        () => true,
        () => false,
      )
      if (hadResponse) responded++
    }
  })
  await expect.poll(() => responded).toBeGreaterThan(20)
  const { port } = new URL(node.url)
  const taken = await refused(['dev', '--ephemeral', '--port', port, '--admin-port', '0'])
  expect(taken).toEqual({ code: 1, error: expect.stringMatching(new RegExp(`^.*${port}.*$`)) })
  expect(await node.stop('SIGTERM')).toBe(0)
  isGone = true
  await Promise.all(clients)
  const ports = ['--port', '0', '--admin-port', '0']
  const other = await refused(['dev', ...ports, '--datadir', path, '--chain', 'xlayer-testnet'])
  expect(other).toEqual({ code: 1, error: expect.stringMatching(/^.*196.*1952.*$/) })
})

test.each([
  [['dev', '--port', 'many'], /--port/],
  [['devv'], /dev/],
])('the command line %j ends with code 2 and one line', async (args, said) => {
  const { code, error } = await refused(args)
  expect(code).toBe(2)
  expect(error.split('\n')).toHaveLength(1)
  expect(error).toMatch(said)
})

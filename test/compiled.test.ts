/** A node that is killed leaves what V8 compiled to the next start. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import { temporaryDirectory } from './fixtures/databases.ts'

const folder = temporaryDirectory()

function compiledModules(): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  ).length
}

const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started) child.kill('SIGKILL')
})

async function start(): Promise<ChildProcess> {
  const child = spawn(
    process.execPath,
    ['workers/main.ts', 'dev', '--ephemeral', '--port', '0', '--admin-port', '0'],
    { stdio: ['ignore', 'pipe', 'ignore'], env: { ...process.env, NODE_COMPILE_CACHE: folder } },
  )
  started.push(child)
  for await (const chunk of child.stdout) if (/^flashnode ready/m.test(String(chunk))) break
  return child
}

async function end(child: ChildProcess, signal: NodeJS.Signals) {
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}

test('a killed node has written all that a clean end writes', async () => {
  const killed = await start()
  // Main writes when it has said that it is ready, and in one go: its files are there once none is added any more.
  let written = 0
  const isAllWritten = () => {
    const before = written
    written = compiledModules()
    return written > 0 && written === before
  }
  await expect.poll(isAllWritten, { interval: 250, timeout: 10_000 }).toBe(true)
  await end(killed, 'SIGKILL')
  await end(await start(), 'SIGTERM')
  const all = compiledModules()
  expect(written).toBeGreaterThan(all * 0.95)
  expect(written).toBeGreaterThan(100)
}, 30_000)

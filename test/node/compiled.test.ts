/** A start finds compiled code that npm has prepared, and that a killed node has left. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { temporaryDirectory } from '../fixtures/databases.ts'

const folder = temporaryDirectory()
const compiledFiles = () =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

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

test('npm prepares all code of a start, and a killed node has stored its own', async () => {
  execFileSync(process.execPath, ['workers/prepare.ts'], {
    env: { ...process.env, NODE_COMPILE_CACHE: folder },
  })
  const prepared = compiledFiles()
  expect(prepared.length).toBeGreaterThan(100)
  await end(await start(), 'SIGTERM')
  expect(compiledFiles()).toEqual(prepared)

  // The main thread and a pool thread write when the node is ready. The other threads write five
  // seconds after they have loaded.
  const removed = prepared.filter((_, at) => at % 4 === 0)
  for (const file of removed) rmSync(file)
  const killed = await start()
  const missing = () => removed.filter((file) => !existsSync(file)).length
  await expect.poll(missing).toBeLessThan(removed.length * 0.05)
  await end(killed, 'SIGKILL')
})

test('the prepare script succeeds in a folder without sources', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'))
  const elsewhere = { cwd: temporaryDirectory(), encoding: 'utf8' } as const
  const { status, stdout, stderr } = spawnSync('sh', ['-c', scripts.prepare], elsewhere)
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' })
})

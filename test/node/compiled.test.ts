/** What V8 compiled is there for the next start: that of a node which was killed, and all of it when the packages have been installed. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { temporaryDirectory } from '../fixtures/databases.ts'

const [left, prepared] = [temporaryDirectory(), temporaryDirectory()]

function compiledModules(folder = left): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  ).length
}

const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started) child.kill('SIGKILL')
})

async function start(folder = left): Promise<ChildProcess> {
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

/** Main and a pool thread write when it is ready, the others five seconds after they have loaded. */
async function writtenAll(): Promise<number> {
  for (let before = 0; ; ) {
    await sleep(6_000)
    const now = compiledModules()
    if (now > 100 && now === before) return now
    before = now
  }
}

test('a killed node has written all that a clean end writes', async () => {
  const killed = await start()
  const written = await writtenAll()
  await end(killed, 'SIGKILL')
  await end(await start(), 'SIGTERM')
  const all = compiledModules()
  expect(written).toBeGreaterThan(all * 0.95)
})

test('what npm prepares is all that a start loads', async () => {
  execFileSync(process.execPath, ['workers/prepare.ts'], {
    env: { ...process.env, NODE_COMPILE_CACHE: prepared },
  })
  const before = compiledModules(prepared)
  expect(before).toBeGreaterThan(100)
  await end(await start(prepared), 'SIGTERM')
  expect(compiledModules(prepared)).toBe(before)
})

test('where there is nothing to prepare, npm goes on', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'))
  const elsewhere = { cwd: temporaryDirectory(), encoding: 'utf8' } as const
  const { status, stdout, stderr } = spawnSync('sh', ['-c', scripts.prepare], elsewhere)
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' })
})

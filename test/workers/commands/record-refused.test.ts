/** A recording whose node cannot start leaves its file name to the next one. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { freePort } from '../../kit/free-port.ts'
import { run } from '../../outside/operate/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'flashnode-refused-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('a recording without content leaves no file, and says so', async () => {
  const out = join(folder, 'none.flashnode')
  const upstream = `http://127.0.0.1:${await freePort()}`
  const ports = ['--port', '0', '--pool-threads', '2']
  const ended = await run(['record', '--upstream', upstream, '--out', out, ...ports])
  expect(ended.status).toBe(1)
  expect(ended.error).toContain('no upstream answers')
  expect(ended.out).toBe('nothing was recorded\n')
  expect(existsSync(out)).toBe(false)
})

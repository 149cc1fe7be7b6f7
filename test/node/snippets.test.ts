/** Every program of the documents that is marked as one runs as it stands, against a node of its own. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RunningNode, startNode } from '../outside/node-process.ts'

const run = promisify(execFile)
const PAGES = ['docs/start.md']
const MARKED = /<!-- run -->\n```(ts|sh)\n(.*?)```/gs

let node: RunningNode
beforeAll(async () => {
  node = await startNode(['--ephemeral'])
}, 60_000)
afterAll(() => node.stop())

describe.each(PAGES)('%s', (page) => {
  const text = readFileSync(page, 'utf8')
  const found = [...text.matchAll(MARKED)].map(([, language, code]) => ({
    language: language!,
    code: code!,
    line: code!.split('\n').find((one) => one !== '')!,
  }))

  test('every program in it is marked', () => {
    const programs = text.match(/^```(ts|js)$/gm) ?? []
    expect(found.filter(({ language }) => language === 'ts')).toHaveLength(programs.length)
  })

  test.each(found)('$language: $line', { timeout: 60_000 }, async ({ language, code }) => {
    const { host } = new URL(node.url)
    const here = code.replaceAll('127.0.0.1:8545', host)
    const { stdout, stderr } =
      language === 'sh'
        ? await run('bash', ['-euo', 'pipefail', '-c', here])
        : await run(process.execPath, ['--input-type=module-typescript', '--eval', here])
    expect(stdout).not.toBe('')
    expect(stderr).not.toMatch(/error/i)
    if (language === 'sh') expect(JSON.parse(stdout)).toHaveProperty('result')
  })
})

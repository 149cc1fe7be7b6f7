/**
 * Every program of the documents that is marked as one runs as it stands, against a node of its own. Those of a shell need programs that
 * npm does not bring: where one is missing they are skipped, and it is said which.
 */
import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RunningNode, startNode } from '../outside/node-process.ts'

const run = promisify(execFile)
const PAGES = ['docs/start.md']
/** `cast` is there after `npm ci --prefix bench`. */
const PATH = [process.env['PATH'], resolve('bench/node_modules/.bin')].join(delimiter)
const env = { ...process.env, PATH }
const PROGRAMS = ['bash', 'curl', 'cast']
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

  test.for(found)('$language: $line', { timeout: 60_000 }, async ({ language, code }, { skip }) => {
    const missing = language === 'sh' ? missingOf(code) : []
    if (missing.length > 0) {
      const why = `${missing.join(' and ')} not on the PATH: this program of ${page} does not run here`
      process.stderr.write(`SKIPPED: ${why}\n`)
      skip(why)
    }
    const { host } = new URL(node.url)
    const here = code.replaceAll('127.0.0.1:8545', host)
    const { stdout, stderr } =
      language === 'sh'
        ? await run('bash', ['-euo', 'pipefail', '-c', here], { env })
        : await run(process.execPath, ['--input-type=module-typescript', '--eval', here])
    expect(stdout).not.toBe('')
    expect(stderr).not.toMatch(/error/i)
    if (code.startsWith('curl')) expect(JSON.parse(stdout)).toHaveProperty('result')
  })
})

/** Of the programs that it runs. */
function missingOf(code: string): readonly string[] {
  const isRun = (name: string) => name === 'bash' || new RegExp(`^${name} `, 'm').test(code)
  return PROGRAMS.filter(isRun).filter(
    (name) => spawnSync(name, ['--version'], { env }).error !== undefined,
  )
}

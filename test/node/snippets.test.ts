/**
 * Every program of the documents runs against its own node: marked ones unchanged, the others after
 * a few names that their page presupposes. Shell programs need commands that npm does not install;
 * a missing one skips them with its name.
 */
import { execFile, spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import * as viem from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import * as chains from 'viem/chains'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import * as flashnode from '../../workers/package/create-node.ts'
import { openSocket } from '../fixtures/sockets.ts'
import { call, type RunningNode, startNode } from '../kit/node.ts'
import { requireFrom } from '../kit/own-packages.ts'

const run = promisify(execFile)
const PAGES = ['README.md', 'docs/start.md']
const PAGES_OF_PARTS = ['docs/install.md', 'docs/testing.md']
/** `npm ci --prefix bench` installs `cast`. */
const PATH = [process.env['PATH'], resolve('bench/node_modules/.bin')].join(delimiter)
const env = { ...process.env, PATH }
const PROGRAMS = ['bash', 'curl', 'cast']
/** ethers and web3.js are installed here, and viem is in the root. */
const CLIENTS = new URL('../clients/', import.meta.url)
requireFrom(CLIENTS)
const MARKED = /<!-- run -->\n```(ts|sh)\n(.*?)```/gs

let node: RunningNode
beforeAll(async () => {
  node = await startNode(['--ephemeral'])
})
afterAll(() => node.stop())

describe.each(PAGES)('the page %s', (page) => {
  const text = readFileSync(page, 'utf8')
  const found = [...text.matchAll(MARKED)].map(([, language, code]) => ({
    language: language!,
    code: code!,
    line: code!.split('\n').find((one) => one !== '')!,
  }))

  test('marks each of its programs', () => {
    const programs = text.match(/^```(ts|js)$/gm) ?? []
    expect(found.filter(({ language }) => language === 'ts')).toHaveLength(programs.length)
  })

  test.for(found)(
    'has a $language program that runs: $line',
    async ({ language, code }, { skip }) => {
      const missing = language === 'sh' ? missingOf(code) : []
      if (missing.length > 0) {
        const why = `${missing.join(' and ')} not on the PATH: this program of ${page} does not run here`
        process.stderr.write(`SKIPPED: ${why}\n`)
        skip(why)
      }
      const { host } = new URL(node.url)
      const localCode = code.replaceAll('127.0.0.1:8545', host)
      const { stdout, stderr } =
        language === 'sh'
          ? await run('bash', ['-euo', 'pipefail', '-c', localCode], { env })
          : await run(process.execPath, ['--input-type=module-typescript', '--eval', localCode], {
              cwd: CLIENTS,
            })
      expect(stdout).not.toBe('')
      expect(stderr).not.toMatch(/error/i)
      if (code.startsWith('curl')) expect(JSON.parse(stdout)).toHaveProperty('result')
    },
  )

  // The page states how to run it, beside the modules that it imports.
  const asFile = /<!-- as a file -->\n```sh\nnpx (.*?)\n```/.exec(text)
  if (asFile === null) return
  test('has a first program that runs as a file', async () => {
    const [, command] = asFile
    const folder = mkdtempSync(join(tmpdir(), 'flashnode-first-'))
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'))
    const [program, file] = command!.split(' ')
    const { host } = new URL(node.url)
    writeFileSync(join(folder, file!), found[0]!.code.replaceAll('127.0.0.1:8545', host))
    try {
      const { stdout } = await run(resolve('node_modules/.bin', program!), [file!], { cwd: folder })
      expect(stdout).toMatch(/^preconfirmed in block \d+: success\nsealed in block \d+\n$/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

describe.each(PAGES_OF_PARTS)('the page %s', (page) => {
  const parts = [...readFileSync(page, 'utf8').matchAll(/^```ts\n(.*?)^```/gms)].map(
    ([, code], at) => ({ at, code: code! }),
  )
  // A part may leave the chain paused.
  afterEach(async () => void (await call(`${node.url}/flashblocks`, 'dev_resume')))

  test('contains parts of programs', () => expect(parts.length).toBeGreaterThan(0))
  test.for(parts)('has a part $at that runs to its end', async ({ code }, { expect: own }) => {
    own.hasAssertions()
    await runPart(code)
    // The program ran to its end: its transactions are in the chain, or were removed.
    own(await call(node.url, 'eth_blockNumber')).not.toBe('0x0')
  })

  test('has a first part that fails with an added wrong line', async () => {
    await expect(runPart(`${parts[0]!.code}\nawait client.nothing()`)).rejects.toThrow('nothing')
  })
})

const REQUESTS = globSync('docs/*.md').flatMap((page) =>
  [...readFileSync(page, 'utf8').matchAll(/^\{.*"jsonrpc".*"method".*\}$/gm)].map(([text]) => ({
    page,
    text,
  })),
)
test('the documents contain JSON-RPC requests', () => expect(REQUESTS.length).toBeGreaterThan(0))
test.each(REQUESTS)('a request in $page succeeds: $text', async ({ text }) => {
  const socket = await openSocket(`${node.url.replace('http', 'ws')}/flashblocks`)
  socket.send(text)
  expect(JSON.parse(await socket.next())).toMatchObject({ id: 1, result: expect.any(String) })
  socket.close()
  await socket.closed
})

const LIBRARIES: Readonly<Record<string, object>> = { flashnode, viem, 'viem/chains': chains }
const Program = Object.getPrototypeOf(async () => {}).constructor as new (
  ...text: string[]
) => (...values: unknown[]) => Promise<void>

/** Passes imports to the program, and surrounds it with the names that its page presupposes. */
function runPart(code: string): Promise<void> {
  const localCode = code
    .replaceAll('http://127.0.0.1:8545', node.url)
    .replace(/^import (\{.*\}) from ('[^']+')$/gm, 'const $1 = libraries[$2]')
  const account = privateKeyToAccount(
    '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
  )
  const transport = viem.http(`${node.url}/flashblocks`)
  const names = {
    account,
    to: '0x000000000000000000000000000000000000f1f1',
    xLayer: chains.xLayer,
    expect,
    client: viem.createPublicClient({ chain: chains.xLayer, transport }),
    wallet: viem.createWalletClient({ account, chain: chains.xLayer, transport }),
    libraries: LIBRARIES,
  }
  return new Program(...Object.keys(names), `{ ${localCode} }`)(...Object.values(names))
}

/** Lists missing commands of the program. */
function missingOf(code: string): readonly string[] {
  const isRun = (name: string) => name === 'bash' || new RegExp(`^${name} `, 'm').test(code)
  return PROGRAMS.filter(isRun).filter(
    (name) => spawnSync(name, ['--version'], { env }).error !== undefined,
  )
}

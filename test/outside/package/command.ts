/** The command `flashnode` of an installed package must become ready, and end on a signal. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Check } from '../../kit/checks.ts'
import { call } from '../../kit/node.ts'
import { environmentOf, run } from './install.ts'

export const BIN = 'node_modules/flashnode/dist/workers/package/bin.js'
const LIMIT_MS = 180_000

type Installed = {
  readonly folder: string
  /** This Node runs the command. */
  readonly node: string
  readonly name: string
}

/**
 * Starts `flashnode dev` in a folder; gives its address, and a function that stops it by a signal.
 */
export async function startInstalled({ folder, node }: Pick<Installed, 'folder' | 'node'>) {
  const child = spawn(
    node,
    [join(folder, BIN), 'dev', '--ephemeral', '--port', '0', '--admin-port', '0'],
    { cwd: folder, env: environmentOf(), stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const limit = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
  let output = ''
  const url = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output += chunk.toString()
      const line = /^flashnode ready (\S+)/m.exec(output)
      if (line !== null) resolve(line[1]!)
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('exit', (code, signal) => reject(new Error(`${code ?? signal}: ${output}`)))
  })
  clearTimeout(limit)
  return {
    url,
    output: () => output,
    async stop(signal: NodeJS.Signals) {
      const ended = once(child, 'exit')
      child.kill(signal)
      const [code, by] = await ended
      return (code ?? by) as number | string
    },
  }
}

/** Whether no server listens at the address any more. */
export const isGone = (url: string): Promise<boolean> =>
  fetch(url).then(
    () => false,
    () => true,
  )

export async function checkCommand(installed: Installed, check: Check): Promise<void> {
  const { folder, node, name } = installed
  const version = await run(node, [BIN, '--version'], { cwd: folder })
  check(
    `${name}: --version prints the version`,
    /^flashnode \d+\.\d+\.\d+$/m.test(version.out),
    version.err.trim(),
  )
  const wrong = await run(node, [BIN, 'dev', '--prot', '1'], { cwd: folder })
  check(
    `${name}: an unknown flag is named and ends with 2`,
    wrong.status === 2 && wrong.err.includes('unknown flag --prot; nearest: --port'),
    `${wrong.status} ${wrong.err.trim()}`,
  )
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const running = await startInstalled(installed)
    const chain = await call(`${running.url}/flashblocks`, 'eth_chainId')
    check(`${name}: dev becomes ready and answers`, chain === '0xc4', String(chain))
    const status = await running.stop(signal)
    const isDown = await isGone(running.url)
    check(
      `${name}: ${signal} ends the node with 0`,
      status === 0 && isDown,
      `${status}, gone ${isDown}`,
    )
  }
}

/**
 * Checks the status page: its modules must come without types, and its libraries from where npm has
 * installed them.
 */
export async function checkPage(folder: string, check: Check): Promise<void> {
  const running = await startInstalled({ folder, node: process.execPath })
  const page = await fetch(running.url, { headers: { accept: 'text/html' } })
  const html = await page.text()
  const names = [...html.matchAll(/modulepreload" href="([^"]+)"/g)].map((match) => match[1]!)
  const bodies = await Promise.all(
    names.map(async (name) => {
      const response = await fetch(`${running.url}/${name}`)
      return response.ok ? response.text() : `status ${response.status}`
    }),
  )
  const typed = bodies.filter((body) => /^(status|export type|import type)\b/m.test(body))
  check(
    'the status page loads all of its modules, without types',
    names.length > 15 && typed.length === 0,
    `${names.length} modules, ${typed.length} not as they should be`,
  )
  check('a node with the page ends with 0', (await running.stop('SIGTERM')) === 0)
}

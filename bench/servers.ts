/** Starts and measures the two servers of a comparison, flashnode and anvil. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../test/kit/free-port.ts'
import { requireFrom } from '../test/kit/own-packages.ts'
import { readStartScript } from '../test/kit/start-script.ts'

export type Server = {
  readonly name: string
  readonly url: string
  readonly pid: number
  /** User and system seconds that all threads of the process have used so far. */
  cpuSeconds(): number
  stop(): Promise<void>
}

const CLOCK_TICKS = 100
export function cpuSecondsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const end = once(child, 'exit')
  child.kill('SIGTERM')
  await end
}

/**
 * @param allocFile accounts of the genesis
 * @param checkout checkout of flashnode; by default this one
 */
export const startFlashnode = (allocFile: string, checkout = '.'): Promise<Server> =>
  startCommand(['dev', '--ephemeral', '--genesis-alloc', allocFile], checkout)

/** @param argv a command with its own flags, which override the common ones */
export async function startCommand(argv: readonly string[], checkout = '.'): Promise<Server> {
  const [command, ...own] = argv
  const flags = '--port 0 --admin-port 0 --rate-limit off --log-level error'
  const script = readStartScript(checkout)
  const child = spawn(
    process.execPath,
    [...script.execArgv, 'workers/main.ts', command!, ...flags.split(' '), ...own],
    { cwd: checkout, stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...script.env } },
  )
  let output = ''
  const ready = await new Promise<RegExpExecArray>((resolve, reject) => {
    child.stdout.on('data', (chunk) => {
      output += chunk
      const line = /^flashnode ready (\S+) /m.exec(output)
      if (line !== null) resolve(line)
    })
    child.once('exit', () => reject(new Error(`flashnode did not start:\n${output}`)))
  })
  const pid = child.pid!
  return {
    name: checkout === '.' ? 'flashnode' : 'the other',
    url: `${ready[1]}/flashblocks`,
    pid,
    cpuSeconds: () => cpuSecondsOf(pid),
    stop: () => ended(child),
  }
}

/**
 * Starts an anvil whose blocks are as large as those of flashnode's development chain.
 * @param genesisFile genesis in geth's format
 * @param does `hasBlocks`: makes a block each second, or none. `hasSteps`: records the steps of
 * transactions
 */
export const startAnvil = (
  genesisFile: string,
  does: { readonly hasBlocks: boolean; readonly hasSteps?: boolean },
): Promise<Server> =>
  startBareAnvil([
    ...(does.hasBlocks ? ['--block-time', '1'] : ['--no-mining']),
    ...(does.hasSteps ? ['--steps-tracing'] : []),
    ...['--hardfork', 'prague', '--gas-limit', '50000000', '--init', genesisFile],
  ])

/**
 * Finds anvil, which bench/package.json installs; benchmarks call this before they start anything.
 * @returns the path of the program
 */
export function installAnvil(): string {
  const require = requireFrom(new URL('./', import.meta.url))
  return join(require.resolve('@foundry-rs/anvil-linux-amd64/package.json'), '../bin/anvil')
}

export async function startBareAnvil(flags: readonly string[]): Promise<Server> {
  const port = await freePort()
  const child = spawn(
    installAnvil(),
    ['--port', String(port), '--chain-id', '196', '--silent', ...flags],
    { stdio: 'ignore' },
  )
  const url = `http://127.0.0.1:${port}`
  await untilResponding(url, child)
  const pid = child.pid!
  return { name: 'anvil', url, pid, cpuSeconds: () => cpuSecondsOf(pid), stop: () => ended(child) }
}

/** Repeats a request until anvil responds or ends, because anvil gives no other sign. */
async function untilResponding(url: string, child: ChildProcess): Promise<void> {
  const limit = performance.now() + 10_000
  while (performance.now() < limit && child.exitCode === null)
    try {
      await rpc(url, 'eth_chainId', [])
      return
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  throw new Error('anvil did not start')
}

export async function rpc(
  url: string,
  method: string,
  params: readonly unknown[],
): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { result, error } = (await response.json()) as {
    result?: unknown
    error?: { message: string }
  }
  if (error !== undefined) throw new Error(`${method}: ${error.message}`)
  return result
}

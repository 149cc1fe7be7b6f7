/**
 * This module starts a node like a user does: as a process of its own, observed from outside only.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type Edit, editedEnv, editedExecArgv } from './edits.ts'
import { readStartScript } from './start-script.ts'

/**
 * These are the first accounts of the mnemonic `test test test test test test test test test test
 * test junk`, which everybody knows.
 */
export const KEYS = [
  '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
  '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
  '0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a',
  '0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6',
  '0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a',
  '0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba',
] as const

export type RunningNode = {
  readonly url: string
  readonly pid: number
  readonly child: ChildProcess
  /** Milliseconds from spawn to the ready line. */
  readonly readyMs: number
  readonly head: number
  /** Gives the end of the text that the node wrote to standard output and standard error. */
  output(): string
  /** Sends the signal and waits for the end; gives the exit code or the signal. */
  stop(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals>
}

/**
 * Starts `flashnode dev` with the flags; the defaults are `--port 0` and no admin port.
 * @param edits of a test build; none by default
 * @throws when the process ends before it is ready
 */
export async function startNode(
  flags: readonly string[],
  command = 'dev',
  edits: readonly Edit[] = [],
): Promise<RunningNode> {
  const started = performance.now()
  const script = readStartScript()
  const child = spawn(
    process.execPath,
    [
      ...(edits.length > 0 ? editedExecArgv : []),
      ...script.execArgv,
      'workers/main.ts',
      command,
      '--port',
      '0',
      '--admin-port',
      '0',
      ...flags,
    ],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...editedEnv(edits), ...script.env },
    },
  )
  endWithThisProcess(child)
  let output = ''
  const ready = new Promise<RegExpExecArray>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-20_000)
      const line = /^flashnode ready (\S+) chain \d+ head (\d+)$/m.exec(output)
      if (line !== null) resolve(line)
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    // The event 'exit' may come before the last output of the process.
    child.once('close', (code, signal) =>
      reject(new Error(`flashnode ended with ${code ?? signal} before it was ready:\n${output}`)),
    )
  })
  const [, url, head] = await ready
  return {
    url: url!,
    head: Number(head),
    pid: child.pid!,
    child,
    readyMs: performance.now() - started,
    output: () => output,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) {
        const ended = once(child, 'exit')
        child.kill(signal)
        await ended
      }
      return child.exitCode ?? child.signalCode!
    },
  }
}

/** Kills the node when this process ends for any reason. */
function endWithThisProcess(child: ChildProcess): void {
  for (const signal of SIGNALS) if (process.listenerCount(signal) === 0) process.on(signal, stop)
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
}
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
const stop = () => process.exit(1)

/**
 * Runs a command that serves nothing.
 * @throws when the exit code is not 0
 */
export async function runToEnd(argv: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, ['workers/main.ts', ...argv], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let problem = ''
  child.stderr.on('data', (chunk: Buffer) => {
    problem = (problem + chunk.toString()).slice(-2_000)
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`flashnode ${argv.join(' ')} ended with ${code}:\n${problem}`)
}

let nextId = 1
/**
 * Sends one JSON-RPC call.
 * @throws {Error} with the node's code and message
 */
export async function call(
  url: string,
  method: string,
  params: readonly unknown[] = [],
): Promise<unknown> {
  const response = await post(url, { jsonrpc: '2.0', id: nextId++, method, params })
  const { result, error } = response as {
    result?: unknown
    error?: { code: number; message: string }
  }
  if (error !== undefined) throw new Error(`${method}: ${error.code} ${error.message}`)
  return result
}

/**
 * Sends one call for each list of parameters, in batches.
 * @throws for the first call whose response is an error
 */
export async function callMany(
  url: string,
  method: string,
  lists: readonly (readonly unknown[])[],
): Promise<unknown[]> {
  const results: unknown[] = []
  for (let from = 0; from < lists.length; from += BATCH) {
    const batch = lists
      .slice(from, from + BATCH)
      .map((params, id) => ({ jsonrpc: '2.0', id, method, params }))
    const responses = (await post(url, batch)) as {
      id: number
      result?: unknown
      error?: { code: number; message: string }
    }[]
    for (const { error, result } of responses.sort((a, b) => a.id - b.id)) {
      if (error !== undefined) throw new Error(`${method}: ${error.code} ${error.message}`)
      results.push(result)
    }
  }
  return results
}
/** The node's own limit is 100. */
const BATCH = 50

async function post(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return response.json()
}

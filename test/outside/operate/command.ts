/** This module runs a command like an operator. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type Edit, editedEnv, editedExecArgv } from '../../kit/edits.ts'

export type Ended = { readonly status: number | null; readonly out: string; readonly error: string }

/**
 * Runs a command to its end.
 * @param edits of a test build; none by default
 */
export async function run(argv: readonly string[], edits: readonly Edit[] = []): Promise<Ended> {
  const execArgv = edits.length > 0 ? editedExecArgv : []
  const child = spawn(process.execPath, [...execArgv, 'workers/main.ts', ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: edits.length > 0 ? editedEnv(edits) : process.env,
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  let [out, error] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString()
  })
  child.stderr.on('data', (chunk: Buffer) => {
    error += chunk.toString()
  })
  const [status] = (await once(child, 'close')) as [number | null]
  process.off('exit', kill)
  return { status, out, error }
}

/** Runs a command with `--json` and parses the last line. */
export async function runJson<T>(
  argv: readonly string[],
  edits: readonly Edit[] = [],
): Promise<{
  readonly status: number | null
  readonly result: T
}> {
  const { status, out, error } = await run([...argv, '--json'], edits)
  const line = out.trimEnd().split('\n').at(-1) ?? ''
  try {
    return { status, result: JSON.parse(line) as T }
  } catch {
    throw new Error(`${argv.join(' ')} ended with ${status}: ${out}\n${error}`)
  }
}

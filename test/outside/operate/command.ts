/** A command as an operator runs it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

export type Ended = { readonly status: number | null; readonly out: string; readonly error: string }

export async function run(argv: readonly string[]): Promise<Ended> {
  const child = spawn(process.execPath, ['workers/main.ts', ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
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

/** With `--json`: the last line. */
export async function runJson<T>(argv: readonly string[]): Promise<{
  readonly status: number | null
  readonly result: T
}> {
  const { status, out, error } = await run([...argv, '--json'])
  const line = out.trimEnd().split('\n').at(-1) ?? ''
  try {
    return { status, result: JSON.parse(line) as T }
  } catch {
    throw new Error(`${argv.join(' ')} ended with ${status}: ${out}\n${error}`)
  }
}

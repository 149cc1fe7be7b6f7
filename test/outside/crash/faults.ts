/**
 * Runs the suite in which every storage call of a node on one thread fails once, in turn. No call
 * is left out.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/**
 * Gives the suite's line of counts, and whether it passed. `stride` selects one of this many calls.
 */
export async function failCalls(
  stride: number,
): Promise<{ readonly isRight: boolean; readonly detail: string }> {
  const child = spawn('node_modules/.bin/vitest', ['run', 'test/node/node-faults.test.ts'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, FAULTS_STRIDE: String(stride), NO_COLOR: '1' },
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  const [code] = await once(child, 'close')
  const line = /^\d+ of \d+ calls failed once.*$/m.exec(output)?.[0]
  return { isRight: code === 0 && line !== undefined, detail: line ?? output.slice(-2_000) }
}

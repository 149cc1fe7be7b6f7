/** Modules made of the engine's sources, by the compiler in a process of its own. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const COMPILE = fileURLToPath(new URL('compile.ts', import.meta.url))
const FAST = new URL('../../../../engine/evm/fast/', import.meta.url)

/** The module that is committed. */
export const KEPT = new URL('fast.wasm', FAST)

/**
 * @param entries below engine/evm/fast/, what they export is exported; none: the engine's
 * @throws {Error} with what the compiler says
 */
export async function compiled(...entries: readonly string[]): Promise<Buffer> {
  const options = { encoding: 'buffer', maxBuffer: 1 << 24 } as const
  const run = promisify(execFile)(process.execPath, [COMPILE, ...entries], options)
  const { stdout } = await run.catch(({ stderr }: { readonly stderr: Buffer }) => {
    throw new Error(stderr.toString())
  })
  return stdout
}

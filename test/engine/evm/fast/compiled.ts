/** This module compiles the engine's sources in a separate process. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const COMPILE = fileURLToPath(new URL('compile.ts', import.meta.url))
const FAST = new URL('../../../../engine/evm/fast/', import.meta.url)

/** The committed modules. */
export const RETAINED = {
  fast: new URL('fast.wasm', FAST),
  contracts: new URL('../precompiles/contracts.wasm', FAST),
} as const

/**
 * Compiles a module.
 * @param entries below engine/evm/fast/, whose exports are exported; or `--module` and a name
 * @throws {Error} with the compiler's message
 */
export async function compiled(...entries: readonly string[]): Promise<Buffer> {
  const options = { encoding: 'buffer', maxBuffer: 1 << 24 } as const
  const run = promisify(execFile)(process.execPath, [COMPILE, ...entries], options)
  const { stdout } = await run.catch(({ stderr }: { readonly stderr: Buffer }) => {
    throw new Error(stderr.toString())
  })
  return stdout
}

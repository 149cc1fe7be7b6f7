/**
 * What engine/evm/fast/fast.wasm must hold: the sources in asm/, compiled. To standard output, or written with --write. A process of its
 * own: the compiler takes 300 MB.
 * Usage: npm run engine -- [--write] [FILE…, others than asm/index.ts, to try parts alone]
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { requireFrom } from '../../../outside/own-packages.ts'

const folder = new URL('../../../../engine/evm/fast/', import.meta.url)
/**
 * Without debug information, so that the bytes depend on the sources alone. Asserts are of the compiler's library, which the engine does
 * not use; the stub runtime never collects: the engine manages its memory.
 */
const FLAGS = ['--runtime', 'stub', '-O3', '--converge', '--noAssert', '--enable', 'simd']

/** The part of the compiler that is used. */
type Compiler = {
  main(
    args: readonly string[],
    host: {
      readonly stderr: { write(text: string): void }
      readonly writeFile: (name: string, contents: Uint8Array) => void
    },
  ): Promise<{ readonly error: Error | null }>
}

const { values, positionals } = parseArgs({
  options: { write: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const path = requireFrom(folder).resolve('assemblyscript/dist/asc.js')
const compiler: Compiler = await import(pathToFileURL(path).href)
const module = await compile(positionals.length > 0 ? positionals : ['asm/index.ts'])
if (values.write) writeFileSync(new URL('fast.wasm', folder), module)
else process.stdout.write(module)

async function compile(entries: readonly string[]): Promise<Uint8Array> {
  let module: Uint8Array | undefined
  const { error } = await compiler.main(
    [...entries, ...FLAGS, '--baseDir', fileURLToPath(folder), '--outFile', 'fast.wasm'],
    {
      stderr: process.stderr,
      writeFile(name, contents) {
        if (name === 'fast.wasm') module = contents
      },
    },
  )
  if (error !== null) throw error
  return module!
}

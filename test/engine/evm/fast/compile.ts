/**
 * What the committed modules must hold: the sources in engine/evm/fast/asm, compiled. All are written with --write; else one goes to
 * standard output. A process of its own: the compiler takes 300 MB.
 * Usage: npm run engine -- [--write] [--module fast|contracts] [FILE…, others than the module's own, to try parts alone]
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { requireFrom } from '../../../outside/own-packages.ts'

const folder = new URL('../../../../engine/evm/fast/', import.meta.url)
/** Entry and module, below that folder. */
const MODULES = {
  fast: ['asm/index.ts', 'fast.wasm'],
  contracts: ['asm/contracts.ts', '../precompiles/contracts.wasm'],
} as const
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
  options: {
    write: { type: 'boolean', default: false },
    module: { type: 'string', default: 'fast' },
  },
  allowPositionals: true,
})
const path = requireFrom(folder).resolve('assemblyscript/dist/asc.js')
const compiler: Compiler = await import(pathToFileURL(path).href)
if (values.write)
  for (const [entry, file] of Object.values(MODULES))
    writeFileSync(new URL(file, folder), await compile([entry]))
else {
  const entries = positionals.length > 0 ? positionals : [entryOf(values.module)]
  process.stdout.write(await compile(entries))
}

function entryOf(name: string): string {
  if (name === 'fast' || name === 'contracts') return MODULES[name][0]
  throw new Error(`no module ${name}`)
}

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

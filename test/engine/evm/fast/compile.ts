/**
 * What the committed modules must hold: the sources in engine/evm/fast/asm, compiled. All are written with --write; else one goes to
 * standard output. A process of its own: the compiler takes 300 MB.
 * Usage: npm run engine -- [--write] [--module fast|contracts] [--edits JSON, places of the sources that are changed; never with --write]
 *   [FILE…, others than the module's own, to try parts alone]
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { applyEdits, type Edit } from '../../../kit/edits.ts'
import { requireFrom } from '../../../kit/own-packages.ts'

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
/** What is changed runs once: compiling it as it stands is quicker than what it would save. */
const EDITED_FLAGS = ['--runtime', 'stub', '-O1', '--noAssert', '--enable', 'simd']
/** Where edits are: they name files from the repository's root. */
const FOLDER = 'engine/evm/fast/'

/** The part of the compiler that is used. */
type Compiler = {
  main(
    args: readonly string[],
    host: {
      readonly stderr: { write(text: string): void }
      readonly readFile: (name: string, folder: string) => string | null
      readonly writeFile: (name: string, contents: Uint8Array) => void
    },
  ): Promise<{ readonly error: Error | null }>
}

const { values, positionals } = parseArgs({
  options: {
    write: { type: 'boolean', default: false },
    module: { type: 'string', default: 'fast' },
    edits: { type: 'string', default: '[]' },
  },
  allowPositionals: true,
})
const path = requireFrom(folder).resolve('assemblyscript/dist/asc.js')
const compiler: Compiler = await import(pathToFileURL(path).href)
const edits = JSON.parse(values.edits) as readonly Edit[]
if (values.write && edits.length > 0) throw new Error('an edited module is not written')
// Also of a file that is not compiled along.
for (const { file } of edits)
  applyEdits(file, readFileSync(new URL(`../../../../${file}`, import.meta.url), 'utf8'), edits)
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
    [
      ...entries,
      ...(edits.length === 0 ? FLAGS : EDITED_FLAGS),
      ...['--baseDir', fileURLToPath(folder), '--outFile', 'fast.wasm'],
    ],
    {
      stderr: process.stderr,
      readFile: source,
      writeFile(name, contents) {
        if (name === 'fast.wasm') module = contents
      },
    },
  )
  if (error !== null) throw error
  return module!
}

/** null: there is none. */
function source(name: string, within: string): string | null {
  let text: string
  try {
    text = readFileSync(join(within, name), 'utf8')
  } catch {
    return null
  }
  return applyEdits(`${FOLDER}${name}`, text, edits)
}

/**
 * This command compiles the sources in engine/evm/fast/asm into the committed modules. All are
 * written with --write; otherwise one goes to standard output. It is a process of its own, because
 * the compiler takes 300 MB.
 * Usage: npm run engine -- [--write] [--module fast|contracts] [--edits JSON, changed passages of
 * the sources; never with --write] [FILE…, others than the module's own, to try parts alone]
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { applyEdits, type Edit } from '../../../kit/edits.ts'
import { requireFrom } from '../../../kit/own-packages.ts'

const folder = new URL('../../../../engine/evm/fast/', import.meta.url)
/** The entry and the module, below that folder. */
const MODULES = {
  fast: ['asm/index.ts', 'fast.wasm'],
  contracts: ['asm/precompiles/contracts.ts', '../precompiles/contracts.wasm'],
} as const
/**
 * The module has no debug information, so that its bytes depend on the sources alone. The engine
 * does not use the library's asserts. The stub runtime never collects garbage, because the engine
 * manages its memory.
 */
const FLAGS = ['--runtime', 'stub', '-O3', '--converge', '--noAssert', '--enable', 'simd']
/** An edited module runs once, so full optimization would take longer than it saves. */
const EDITED_FLAGS = ['--runtime', 'stub', '-O1', '--noAssert', '--enable', 'simd']
/** Edits name files from the repository's root. */
const FOLDER = 'engine/evm/fast/'

/** Only this part of the compiler is used. */
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
// Edits of files outside of the compilation are checked too.
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

/** Reads a source; null: the file does not exist. */
function source(name: string, within: string): string | null {
  let text: string
  try {
    text = readFileSync(join(within, name), 'utf8')
  } catch {
    return null
  }
  return applyEdits(`${FOLDER}${name}`, text, edits)
}

/**
 * Makes `dist/`, which the package has beside package.json: the JavaScript of the sources, the
 * files that they read by path, and the declarations of the entry. Ends with 1 when a module still
 * names a TypeScript file, which Node could not load there.
 * Usage: npm run build
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { leftovers, namedScripts, rewritten } from './specifiers.ts'

const OUT = 'dist'
const ENTRY = 'workers/package/create-node.d.ts'
const BIN = 'workers/package/bin.js'
/**
 * The sources read these files by path. The page's modules stay TypeScript, because a node strips
 * their types when a browser requests them.
 */
const ASSETS = [
  'engine/contracts/compiled.json',
  'engine/evm/fast/fast.wasm',
  'engine/evm/precompiles/contracts.wasm',
  'rpc/page/*.{ts,html,css,svg}',
]

process.chdir(new URL('../..', import.meta.url).pathname)
rmSync(OUT, { recursive: true, force: true })
tsc(OUT)
const files = globSync(`${OUT}/**/*.js`)
const problems = files.flatMap((file) => {
  const text = rewritten(readFileSync(file, 'utf8'))
  writeFileSync(file, text)
  const missing = namedScripts(text)
    .map((name) => join(dirname(file), name))
    .filter((target) => !existsSync(target))
    .map((target) => `${file} names ${target}, which is not there`)
  return [...leftovers(text).map((name) => `${file} still names ${name}`), ...missing]
})
for (const file of ASSETS.flatMap((pattern) => globSync(pattern))) {
  mkdirSync(dirname(join(OUT, file)), { recursive: true })
  cpSync(file, join(OUT, file))
}
copyDeclarations()
chmodSync(join(OUT, BIN), 0o755)
for (const problem of problems) console.error(problem)
console.log(`${OUT}: ${files.length} modules`)
if (problems.length > 0) process.exitCode = 1

function tsc(folder: string, ...flags: readonly string[]): void {
  const argv = ['-p', 'test/package', '--outDir', folder, ...flags]
  execFileSync('node_modules/.bin/tsc', argv, { stdio: 'inherit' })
}

/** Copies only the declarations that the entry imports, directly or through others. */
function copyDeclarations(): void {
  const work = mkdtempSync(join(tmpdir(), 'flashnode-build-'))
  try {
    tsc(work, '--declaration', '--emitDeclarationOnly', '--removeComments', 'false')
    const seen = new Set<string>()
    const visit = (file: string) => {
      if (seen.has(file)) return
      seen.add(file)
      const text = rewritten(readFileSync(join(work, file), 'utf8'))
      mkdirSync(dirname(join(OUT, file)), { recursive: true })
      writeFileSync(join(OUT, file), text)
      for (const name of namedScripts(text))
        visit(join(dirname(file), name.replace(/\.js$/, '.d.ts')))
    }
    visit(ENTRY)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Code of the predeployed contracts: compiled when it is needed first, then kept in node_modules/.cache under a hash of what it was made from. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { ContractCode } from '../engine/chainspec/predeploys.ts'

/** @param onCompile called before it takes seconds. @throws what the compiler says */
export async function contractCode(onCompile: () => void): Promise<ContractCode> {
  const file = new URL(`contracts-${sourceHash()}.json`, CACHE)
  const cached = readCached(file)
  if (cached !== undefined) return cached
  onCompile()
  const text = await compile()
  const code = JSON.parse(text) as ContractCode
  writeCached(file, text)
  return code
}

const CACHE = new URL('../node_modules/.cache/flashnode/', import.meta.url)
const SOURCES = new URL('../engine/contracts/', import.meta.url)
const COMPILER = new URL('./compile-contracts.ts', import.meta.url)
/** Of the JSON that the compiler's process writes. */
const MAX_BYTES = 1024 * 1024

function sourceHash(): string {
  const { version } = createRequire(import.meta.url)('solc/package.json') as { version: string }
  const hash = createHash('sha256').update(version).update(readFileSync(COMPILER))
  const names = readdirSync(SOURCES).toSorted((a, b) => (a < b ? -1 : 1))
  for (const name of names) hash.update(`\0${name}\0`).update(readFileSync(new URL(name, SOURCES)))
  return hash.digest('hex').slice(0, 32)
}

function readCached(file: URL): ContractCode | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ContractCode
  } catch {
    return undefined
  }
}

/** Whoever else compiles at the same time writes the same: the last rename wins. */
function writeCached(file: URL, text: string): void {
  const next = new URL(`${file.href}.${process.pid}`)
  try {
    mkdirSync(CACHE, { recursive: true })
    writeFileSync(next, text)
    renameSync(next, file)
  } catch {
    // A place that cannot be written costs the next start the same seconds again.
  }
}

function compile(): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      process.execPath,
      [fileURLToPath(COMPILER)],
      { maxBuffer: MAX_BYTES },
      (error, stdout) => {
        process.off('exit', stop)
        if (error === null) resolve(stdout)
        else reject(new Error(`the contracts do not compile: ${error.message}`))
      },
    )
    const stop = () => child.kill()
    process.once('exit', stop)
  })
}

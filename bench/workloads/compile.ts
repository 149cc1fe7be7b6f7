/**
 * Makes bench/workloads/compiled.json: the code of the workloads' contracts and its sources. The
 * text is printed, or written with --write. The compiler is that of test/engine/contracts.
 * Usage: node bench/workloads/compile.ts [--write]
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { requireFrom } from '../../test/kit/own-packages.ts'

const settings = {
  optimizer: { enabled: true, runs: 200 },
  evmVersion: 'cancun',
  metadata: { appendCBOR: false, bytecodeHash: 'none' },
}
type Compiler = { compile(input: string): string; version(): string }
type Output = {
  readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[]
  readonly contracts: Record<
    string,
    Record<string, { readonly evm: { readonly deployedBytecode: { readonly object: string } } }>
  >
}

const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } })
const folder = new URL('./', import.meta.url)
const compiler: Compiler = requireFrom(new URL('../../test/engine/contracts/', import.meta.url))(
  'solc',
)
const files = readdirSync(folder)
  .filter((file) => file.endsWith('.sol'))
  .toSorted()
const sources = Object.fromEntries(
  files.map((file) => [file, { content: readFileSync(new URL(file, folder), 'utf8') }]),
)
const output: Output = JSON.parse(
  compiler.compile(
    JSON.stringify({
      language: 'Solidity',
      sources,
      settings: { ...settings, outputSelection: { '*': { '*': ['evm.deployedBytecode.object'] } } },
    }),
  ),
)
const error = output.errors?.find(({ severity }) => severity === 'error')
if (error !== undefined) throw new Error(error.formattedMessage)
const text = `${JSON.stringify(
  {
    compiler: `solc ${compiler.version()}`,
    settings,
    sources: Object.fromEntries(
      files.map((file) => [
        file,
        createHash('sha256').update(sources[file]!.content).digest('hex'),
      ]),
    ),
    code: Object.fromEntries(
      files.map((file) => {
        const name = file.slice(0, -'.sol'.length)
        return [name, `0x${output.contracts[file]![name]!.evm.deployedBytecode.object}`]
      }),
    ),
  },
  null,
  2,
)}\n`
if (values.write) writeFileSync(new URL('compiled.json', folder), text)
else process.stdout.write(text)

/**
 * This command prints the correct contents of engine/contracts/compiled.json, or writes them with
 * --write: the code of the contracts, and its sources. It is a process of its own, because the
 * compiler takes 200 MB.
 * Usage: npm run contracts -- [--write]
 */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { CONTRACTS, type ContractCode } from '../../../engine/chainspec/predeploys.ts'
import { requireFrom } from '../../kit/own-packages.ts'

const folder = new URL('../../../engine/contracts/', import.meta.url)
const settings = {
  optimizer: { enabled: true, runs: 200 },
  evmVersion: 'prague',
  // The code does not depend on the form of the sources.
  metadata: { appendCBOR: false, bytecodeHash: 'none' },
}
const outputSelection = { '*': { '*': ['evm.deployedBytecode.object'] } }

/** Only this part of solc-js is used: standard JSON in, standard JSON out. */
type Compiler = { compile(input: string): string; version(): string }
type Output = {
  readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[]
  readonly contracts: Record<
    string,
    Record<string, { readonly evm: { readonly deployedBytecode: { readonly object: string } } }>
  >
}

const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } })
const compiler: Compiler = requireFrom(new URL('./', import.meta.url))('solc')
const sources = new Map(
  CONTRACTS.map((name) => [`${name}.sol`, readFileSync(new URL(`${name}.sol`, folder), 'utf8')]),
)
const compiled = {
  compiler: `solc ${compiler.version()}`,
  settings,
  sources: Object.fromEntries([...sources].map(([name, text]) => [name, sha256(text)])),
  code: compile(),
}
const text = `${JSON.stringify(compiled, null, 2)}\n`
if (values.write) writeFileSync(new URL('compiled.json', folder), text)
else process.stdout.write(text)

function compile(): ContractCode {
  const input = {
    language: 'Solidity',
    sources: Object.fromEntries([...sources].map(([name, content]) => [name, { content }])),
    settings: { ...settings, outputSelection },
  }
  const output: Output = JSON.parse(compiler.compile(JSON.stringify(input)))
  const error = output.errors?.find(({ severity }) => severity === 'error')
  if (error !== undefined) throw new Error(error.formattedMessage)
  const code = CONTRACTS.map((name) => {
    const { object } = output.contracts[`${name}.sol`]![name]!.evm.deployedBytecode
    return [name, `0x${object}`]
  })
  return Object.fromEntries(code)
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

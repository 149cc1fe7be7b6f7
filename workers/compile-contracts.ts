/** Compiles engine/contracts/*.sol and writes their code to standard output as JSON. A process of its own: the compiler takes 200 MB and its time. */
import { readdirSync, readFileSync } from 'node:fs'
import solc from 'solc'
import { CONTRACTS } from '../engine/chainspec/predeploys.ts'

const folder = new URL('../engine/contracts/', import.meta.url)
const sources = Object.fromEntries(
  readdirSync(folder).map((name) => [
    name,
    { content: readFileSync(new URL(name, folder), 'utf8') },
  ]),
)
const settings = {
  optimizer: { enabled: true, runs: 200 },
  evmVersion: 'prague',
  // Nothing of the sources' form gets into the code.
  metadata: { appendCBOR: false, bytecodeHash: 'none' },
  outputSelection: { '*': { '*': ['evm.deployedBytecode.object'] } },
}
type Output = {
  readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[]
  readonly contracts: Record<
    string,
    Record<string, { readonly evm: { readonly deployedBytecode: { readonly object: string } } }>
  >
}
const output: Output = JSON.parse(
  solc.compile(JSON.stringify({ language: 'Solidity', sources, settings })),
)
const error = output.errors?.find(({ severity }) => severity === 'error')
if (error !== undefined) throw new Error(error.formattedMessage)
const code = CONTRACTS.map((name) => {
  const { object } = output.contracts[`${name}.sol`]![name]!.evm.deployedBytecode
  return [name, `0x${object}`]
})
process.stdout.write(JSON.stringify(Object.fromEntries(code)))

/** The code of a development chain's contracts is the compiler's output for engine/contracts. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { CONTRACTS } from '../../../engine/chainspec/predeploys.ts'

const folder = new URL('../../../engine/contracts/', import.meta.url)
const retained = readFileSync(new URL('compiled.json', folder), 'utf8')

test('compiled.json has the hash of each contract source', () => {
  const names = readdirSync(folder).filter((name) => name.endsWith('.sol'))
  const sums = names.map((name) => {
    const source = readFileSync(new URL(name, folder))
    return [name, createHash('sha256').update(source).digest('hex')]
  })
  expect(JSON.parse(retained).sources).toEqual(Object.fromEntries(sums))
  expect(Object.keys(JSON.parse(retained).code)).toEqual(CONTRACTS)
})

test('a new compilation gives compiled.json: else npm run contracts -- --write', async () => {
  const compile = fileURLToPath(new URL('compile.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [compile]).catch(
    ({ stderr }: { readonly stderr: string }) => {
      throw new Error(stderr)
    },
  )
  expect(stdout).toBe(retained)
})

/** The code that a development chain is made with is what the compiler makes of engine/contracts. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { CONTRACTS } from '../../../engine/chainspec/predeploys.ts'

const folder = new URL('../../../engine/contracts/', import.meta.url)
const kept = readFileSync(new URL('compiled.json', folder), 'utf8')

test('each source is the one that was compiled', () => {
  const names = readdirSync(folder).filter((name) => name.endsWith('.sol'))
  const sums = names.map((name) => {
    const source = readFileSync(new URL(name, folder))
    return [name, createHash('sha256').update(source).digest('hex')]
  })
  expect(JSON.parse(kept).sources).toEqual(Object.fromEntries(sums))
  expect(Object.keys(JSON.parse(kept).code)).toEqual(CONTRACTS)
})

test('compiled again, it is the same: else npm run contracts -- --write', async () => {
  const compile = fileURLToPath(new URL('compile.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [compile]).catch(
    ({ stderr }: { readonly stderr: string }) => {
      throw new Error(stderr)
    },
  )
  expect(stdout).toBe(kept)
})

/** The engine that runs is what the compiler makes of its sources. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { compiled, KEPT } from './compiled.ts'

const kept = readFileSync(KEPT)

test('compiled again, it is the same: else npm run engine -- --write', {
  timeout: 300_000,
}, async () => {
  expect((await compiled()).equals(kept)).toBe(true)
})

test('it holds no debug information', () => {
  const module = new WebAssembly.Module(kept)
  for (const name of ['name', 'sourceMappingURL', '.debug_info'])
    expect(WebAssembly.Module.customSections(module, name)).toEqual([])
})

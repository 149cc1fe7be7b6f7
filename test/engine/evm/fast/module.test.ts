/** The engine that runs is what the compiler makes of its sources. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { compiled, KEPT } from './compiled.ts'

const modules = Object.entries(KEPT).map(([name, file]) => [name, readFileSync(file)] as const)

test.each(modules)(
  '%s compiled again is the same: else npm run engine -- --write',
  async (name, kept) => {
    expect((await compiled('--module', name)).equals(kept)).toBe(true)
  },
)

test.each(modules)('%s holds no debug information', (_, kept) => {
  const module = new WebAssembly.Module(kept)
  for (const name of ['name', 'sourceMappingURL', '.debug_info'])
    expect(WebAssembly.Module.customSections(module, name)).toEqual([])
})

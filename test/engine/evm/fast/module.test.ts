/** The committed engine is the compiler's output for its sources. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { compiled, RETAINED } from './compiled.ts'

const modules = Object.entries(RETAINED).map(([name, file]) => [name, readFileSync(file)] as const)

test.each(modules)(
  'the committed %s module equals its compiled sources (else: npm run engine -- --write)',
  async (name, retained) => {
    expect((await compiled('--module', name)).equals(retained)).toBe(true)
  },
)

test.each(modules)('the committed %s module has no debug information', (_, retained) => {
  const module = new WebAssembly.Module(retained)
  for (const name of ['name', 'sourceMappingURL', '.debug_info'])
    expect(WebAssembly.Module.customSections(module, name)).toEqual([])
})

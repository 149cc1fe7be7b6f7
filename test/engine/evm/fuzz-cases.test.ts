/**
 * The fuzzer's fixed cases run on every engine: each shows the right line, and all show the same
 * lines.
 */
import { expect, test } from 'vitest'
import { referenceEngine } from '../../fixtures/engine.ts'
import { describeEngines } from '../../fixtures/engines.ts'
import { FUZZ_CASES } from '../../fixtures/fuzz-cases.ts'
import { observe } from '../../outside/fuzz/observe.ts'

describeEngines((engine) => {
  test.each(FUZZ_CASES)(
    'gives the line of the case and the lines of the reference engine: %s',
    async (_, one, line) => {
      const lines = await observe(engine, one, { repeats: 2 })
      expect(lines).toContain(line)
      expect(lines).toEqual(await observe(referenceEngine, one))
    },
  )
})

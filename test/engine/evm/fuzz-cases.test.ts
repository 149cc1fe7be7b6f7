/** The fuzzer's fixed cases on every engine: what is right is in what each says, and all say the same. */
import { expect, test } from 'vitest'
import { referenceEngine } from '../../fixtures/engine.ts'
import { describeEngines } from '../../fixtures/engines.ts'
import { FUZZ_CASES } from '../../fixtures/fuzz-cases.ts'
import { observe } from '../../outside/fuzz/observe.ts'

describeEngines((engine) => {
  test.each(FUZZ_CASES)('%s', async (_, one, line) => {
    const lines = await observe(engine, one, { repeats: 2 })
    expect(lines).toContain(line)
    expect(lines).toEqual(await observe(referenceEngine, one))
  })
})

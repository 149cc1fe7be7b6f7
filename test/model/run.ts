/**
 * Proves each rule of the shared views by switching it off, and measures a start on many blocks.
 * Usage: npm run model -- [--short] [--seed S] [--seconds N]
 */
import { checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { blockStates } from './block-states.ts'
import { histories, rulesOff } from './histories/part.ts'
import { manyBlocks } from './many-blocks/part.ts'
import type { Part } from './part.ts'
import { protocol } from './protocol/part.ts'

const parts: readonly Part[] = [blockStates, protocol, histories, rulesOff, manyBlocks]

const options = runOptions('model', { full: 600, short: 45 })
const { check, close } = checks('model')
for (const part of parts) {
  console.log(`-- ${part.name}`)
  await part.run(options, check)
}
close()

/**
 * The constant parts of steps that the module writes as text (asm/host/step-text.ts): go-ethereum's
 * struct log as JSON.
 */
import type { StepText } from '../engine.ts'
import { opcodeName } from '../opcodes.ts'
import type { Instance } from './instance.ts'

/** Bytes of an entry; the last byte is the text's length. */
const TEXT_BYTES = 48

/** Texts after those of the opcodes, in the module's order. A step starts with a comma. */
const PARTS = [
  ',{"pc":',
  ',"gasCost":',
  ',"depth":',
  ',"stack":[',
  ',"returnData":"0x',
  ',"memory":[',
  ',"refund":',
]

/** Makes the module write the steps of the following traced runs. */
export function writeSteps(instance: Instance, stepText: StepText): void {
  const { layout, exports } = instance
  if (!instance.hasTexts) putTexts(instance)
  const fields =
    (stepText.hasStack ? layout.SHOWS_STACK : 0) |
    (stepText.hasReturnData ? layout.SHOWS_RETURN_DATA : 0) |
    (stepText.hasMemory ? layout.SHOWS_MEMORY : 0)
  exports.setText(fields, Number(stepText.hasStorage))
}

function putTexts(instance: Instance): void {
  const names = Array.from({ length: 256 }, (_, op) => `,"op":"${opcodeName(op)}","gas":`)
  const texts = Buffer.alloc((names.length + PARTS.length) * TEXT_BYTES)
  for (const [index, text] of [...names, ...PARTS].entries()) {
    texts.write(text, index * TEXT_BYTES, 'latin1')
    texts[(index + 1) * TEXT_BYTES - 1] = text.length
  }
  instance.bytes.set(texts, instance.layout.TEXTS)
  instance.hasTexts = true
}

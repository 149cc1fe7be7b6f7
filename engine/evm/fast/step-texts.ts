/** The constant parts of steps that the module writes as text (asm/step-text.ts): go-ethereum's struct log as JSON. */
import type { StepText } from '../engine.ts'
import { opcodeName } from '../opcodes.ts'
import type { Instance } from './instance.ts'

/** The last byte is the length. */
const TEXT_BYTES = 48

/** Those behind the opcodes', in the module's order. A step begins with the comma before it. */
const PARTS = [
  ',{"pc":',
  ',"gasCost":',
  ',"depth":',
  ',"stack":[',
  ',"returnData":"0x',
  ',"memory":[',
  ',"refund":',
]

/** The module writes the steps of traced runs from now on. */
export function writeSteps(instance: Instance, shown: StepText): void {
  const { layout, exports } = instance
  if (!instance.hasTexts) putTexts(instance)
  const shows =
    (shown.hasStack ? layout.SHOWS_STACK : 0) |
    (shown.hasReturnData ? layout.SHOWS_RETURN_DATA : 0) |
    (shown.hasMemory ? layout.SHOWS_MEMORY : 0)
  exports.setText(shows, Number(shown.hasStorage))
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

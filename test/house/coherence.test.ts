/** Which runs of a third-party checker are tried again. */
import { expect, test } from 'vitest'
import { asksBackwards } from '../kit/coherence.ts'

const line = (error: string) => `    34063.3 ms flashblocks eth_getLogs[{}] -> error ${error}\n`
const BACKWARDS = `VIOLATION logs-boundary: eth_getLogs over the boundary failed\n${line('{"message":"invalid block range params"}')}`

test.each([
  ['a backwards range', BACKWARDS, true],
  ['two of them', `seed 1\n${BACKWARDS}${BACKWARDS}\nok receipt-tx\n`, true],
  ['nothing wrong', 'ok   receipt-tx 393 right\n', false],
  [
    'another refusal',
    `VIOLATION logs-boundary: eth_getLogs over the boundary failed\n${line('{"message":"no"}')}`,
    false,
  ],
  ['another rule too', `${BACKWARDS}VIOLATION tx-once: lost\n    1 ms\n`, false],
])('%s', (_, output, isAgain) => {
  expect(asksBackwards(output)).toBe(isAgain)
})

/** These tests say which failed runs of the third-party checker are tried again. */
import { expect, test } from 'vitest'
import { requestsBackwards } from '../kit/coherence.ts'

const line = (error: string) => `    34063.3 ms flashblocks eth_getLogs[{}] -> error ${error}\n`
const BACKWARDS = `VIOLATION logs-boundary: eth_getLogs over the boundary failed\n${line('{"message":"invalid block range params"}')}`

test.each([
  ['a backwards range', BACKWARDS, true],
  ['two backwards ranges', `seed 1\n${BACKWARDS}${BACKWARDS}\nok receipt-tx\n`, true],
  ['no failure', 'ok   receipt-tx 393 right\n', false],
  [
    'another refusal',
    `VIOLATION logs-boundary: eth_getLogs over the boundary failed\n${line('{"message":"no"}')}`,
    false,
  ],
  [
    'a backwards range and another failure',
    `${BACKWARDS}VIOLATION tx-once: lost\n    1 ms\n`,
    false,
  ],
])('only a run that fails by backwards ranges alone is repeated: %s', (_, output, isRepeated) => {
  expect(requestsBackwards(output)).toBe(isRepeated)
})

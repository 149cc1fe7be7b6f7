/** Methods of a development chain that break its promises on demand. */

import { invalidParameter } from '../../core/errors.ts'
import { hashesText } from '../../json/json.ts'
import { booleanResult, textResult } from '../../json/results.ts'
import { boolean, strictObject } from '../../json/schema.ts'
import { frontMethod, type Method, optional, param } from '../../method/method.ts'
import { CONTROL, headText, natural, positionText, type SendControl } from './controls.ts'

/** Maximum silence: ten minutes. */
const MAX_MS = 600_000n
const MAX_DEPTH = 100_000n

const reorgOptions = strictObject('ReorgOptions', { depth: natural, keep: boolean })
const equivocateOptions = strictObject('EquivocateOptions', { keep: boolean })
const silenceOptions = strictObject('SilenceOptions', { ms: natural })

/**
 * Creates the methods. With `keep`, removed transactions return to the txpool; otherwise they are
 * lost.
 */
export const breakControls = (send: SendControl): readonly Method[] => [
  frontMethod({
    ...CONTROL,
    name: 'dev_reorg',
    summary: 'Removes the block in progress and the newest "depth" blocks (default 1).',
    params: [optional('Options', reorgOptions, {})],
    result: textResult('Head, removed blocks, dropped transactions', { type: 'object' }),
    async handler(_context, { depth = 1n, keep = false }) {
      if (depth > MAX_DEPTH)
        throw invalidParameter(0, `expected at most ${MAX_DEPTH}, got ${depth}`, '.depth')
      const done = await send({ type: 'reorg', depth: Number(depth), isRequeued: keep })
      const { removed = [], dropped = [] } = done
      return `{"head":${headText(done)},"removed":${hashesText(removed)},"dropped":${hashesText(dropped)}}`
    },
  }),
  frontMethod({
    ...CONTROL,
    name: 'dev_equivocate',
    summary: 'Sends a second version of the newest flashblock that has transactions, without them.',
    params: [optional('Options', equivocateOptions, {})],
    result: textResult('Flashblock position, dropped transactions', { type: 'object' }),
    async handler(_context, { keep = false }) {
      const done = await send({ type: 'equivocate', isRequeued: keep })
      return `{"flashblock":${positionText(done)},"dropped":${hashesText(done.dropped ?? [])}}`
    },
  }),
  frontMethod({
    ...CONTROL,
    name: 'dev_gap',
    summary: 'Omits the next flashblock from every feed.',
    params: [],
    result: booleanResult('Done'),
    handler: () => send({ type: 'gap' }).then(() => true),
  }),
  frontMethod({
    ...CONTROL,
    name: 'dev_silence',
    summary: 'Silences the feed for "ms" milliseconds; the chain continues.',
    params: [param('Options', silenceOptions)],
    result: booleanResult('Done'),
    async handler(_context, { ms }) {
      if (ms === undefined) throw invalidParameter(0, 'expected a whole number, got nothing', '.ms')
      if (ms > MAX_MS) throw invalidParameter(0, `expected at most ${MAX_MS}, got ${ms}`, '.ms')
      await send({ type: 'silence', ms: Number(ms) })
      return true
    },
  }),
]

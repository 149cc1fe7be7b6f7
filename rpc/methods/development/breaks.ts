/** What only a development chain has: it breaks its promises on demand. */
import { hashesText } from '../../json/json.ts'
import { booleanResult, textResult } from '../../json/results.ts'
import { boolean, strictObject } from '../../json/schema.ts'
import { frontMethod, type Method, optional, param } from '../../method/method.ts'
import { invalidParameter } from '../../seam/errors.ts'
import { CONTROL, headText, natural, placeText, type SendControl } from './controls.ts'

/** Of silence: ten minutes. */
const MOST_MS = 600_000n
const MOST_DEPTH = 100_000n

const reorgOptions = strictObject('ReorgOptions', { depth: natural, keep: boolean })
const keepOptions = strictObject('EquivocateOptions', { keep: boolean })
const silenceOptions = strictObject('SilenceOptions', { ms: natural })

/** `keep`: what is taken back waits in the txpool again; otherwise it is gone. */
export const breakControls = (send: SendControl): readonly Method[] => [
  frontMethod({
    ...CONTROL,
    name: 'dev_reorg',
    summary: 'Takes back the newest blocks, and the one in progress; 0: that one alone.',
    params: [optional('Options', reorgOptions, {})],
    result: textResult('Head, removed blocks, dropped transactions', { type: 'object' }),
    async handler(_context, { depth = 1n, keep = false }) {
      if (depth > MOST_DEPTH) throw invalidParameter(0, `depth is at most ${MOST_DEPTH}`)
      const done = await send({ type: 'reorg', depth: Number(depth), isKept: keep })
      const { removed = [], dropped = [] } = done
      return `{"head":${headText(done)},"removed":${hashesText(removed)},"dropped":${hashesText(dropped)}}`
    },
  }),
  frontMethod({
    ...CONTROL,
    name: 'dev_equivocate',
    summary: 'Sends the newest flashblock with transactions again, without them.',
    params: [optional('Options', keepOptions, {})],
    result: textResult('Place of the flashblock, dropped transactions', { type: 'object' }),
    async handler(_context, { keep = false }) {
      const done = await send({ type: 'equivocate', isKept: keep })
      return `{"flashblock":${placeText(done)},"dropped":${hashesText(done.dropped ?? [])}}`
    },
  }),
  frontMethod({
    ...CONTROL,
    name: 'dev_gap',
    summary: 'The next flashblock is in no feed.',
    params: [],
    result: booleanResult('Done'),
    handler: () => send({ type: 'gap' }).then(() => true),
  }),
  frontMethod({
    ...CONTROL,
    name: 'dev_silence',
    summary: 'The feed says nothing for so many milliseconds; blocks go on.',
    params: [param('Options', silenceOptions)],
    result: booleanResult('Done'),
    async handler(_context, { ms }) {
      if (ms === undefined) throw invalidParameter(0, 'expected a whole number, got nothing', '.ms')
      if (ms > MOST_MS) throw invalidParameter(0, `ms is at most ${MOST_MS}`)
      await send({ type: 'silence', ms: Number(ms) })
      return true
    },
  }),
]

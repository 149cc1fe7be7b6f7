/** Flags of `flashnode replay`. */
import { flag, integer, option, optional, orWord } from '../../config/option.ts'
import { JSON_OUT } from '../../config/options.ts'
import { SERVING } from '../../config/serving-options.ts'

const { chain: _, ...serving } = SERVING

export const FLAGS = {
  ...serving,
  datadir: { ...SERVING.datadir, defaultText: 'a temporary one, removed on exit' },
  port: { ...SERVING.port, fallback: 0, defaultText: 'a free one' },
  speed: option('N|full', orWord('full', integer(1, 1_000)), {
    fallback: 'full' as const,
    text: 'factor of the recorded speed; full is as fast as possible',
  }),
  until: option('BLOCK[:INDEX]', optional(flashblockPosition), {
    fallback: undefined,
    text: 'stop after this flashblock or a later one',
    defaultText: 'the end of the recording',
  }),
  stay: flag('after the stop, answer requests at its position until a signal ends the process'),
  atOnce: option('N', integer(1, 1_024), {
    fallback: 16,
    text: 'recorded requests that are repeated at the same time',
  }),
  json: JSON_OUT,
}

function flashblockPosition(wire: string) {
  const [, number, index = '0'] = /^(\d{1,15})(?::(\d{1,5}))?$/.exec(wire) ?? []
  if (number !== undefined) return { number: Number(number), index: Number(index) }
  throw new Error('expected a block number with an optional flashblock index, such as 1234:3')
}

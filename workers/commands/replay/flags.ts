/** What a replay can be told. */
import { flag, integer, option, optional, orWord } from '../../config/option.ts'
import { JSON_OUT } from '../../config/options.ts'
import { SERVING } from '../../config/serving.ts'

const { chain: _, ...serving } = SERVING

export const FLAGS = {
  ...serving,
  datadir: { ...SERVING.datadir, shown: 'a temporary one, removed on exit' },
  port: { ...SERVING.port, fallback: 0, shown: 'a free one' },
  speed: option('N|full', orWord('full', integer(1, 1_000)), {
    fallback: 'full' as const,
    text: 'how many times as fast as it was recorded: 1 is as it was, full as fast as it goes',
  }),
  until: option('BLOCK[:INDEX]', optional(place), {
    fallback: undefined,
    text: 'stops once this flashblock, or one after it, is shown',
    shown: 'the end of the record',
  }),
  stay: flag('goes on to answer from where it stopped, until a signal ends it'),
  atOnce: option('N', integer(1, 1_024), {
    fallback: 16,
    text: "clients' requests that are asked again at a time",
  }),
  json: JSON_OUT,
}

function place(wire: string) {
  const [, number, index = '0'] = /^(\d{1,15})(?::(\d{1,5}))?$/.exec(wire) ?? []
  if (number !== undefined) return { number: Number(number), index: Number(index) }
  throw new Error('expected a block and the index of a flashblock of it, such as 1234:3')
}

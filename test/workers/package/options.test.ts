/** Wrong options of createNode are refused with their names and their valid values. */
import { expect, test } from 'vitest'
import { argvOf } from '../../../workers/package/options.ts'

const wrong: [options: unknown, message: string][] = [
  [{ port: 'abc' }, 'option port: expected a port number or \'none\', got "abc"'],
  [{ port: null }, "option port: expected a port number or 'none', got null"],
  [{ port: true }, "option port: expected a port number or 'none', got true"],
  [{ feed: 'script' }, "option feed: expected 'clock' or 'scripted', got \"script\""],
  [{ feed: null }, "option feed: expected 'clock' or 'scripted', got null"],
  [{ datadir: null }, 'option datadir: expected a text, got null'],
  [{ datadir: 5 }, 'option datadir: expected a text, got 5'],
  [{ chain: 5 }, 'option chain: expected a text, got 5'],
  [{ ephemeral: 'yes' }, 'option ephemeral: expected true or false, got "yes"'],
  [{ cors: [{}] }, 'option cors: expected a text, or a list of texts, got an array'],
  [{ blockTimeMs: false }, 'option blockTimeMs: expected a text or a number, got false'],
  [{ bogus: false }, 'option bogus: expected a text or a number, got false'],
  [{ bogus: [] }, 'option bogus: expected a text or a number, got an array'],
  [null, 'createNode: expected an object of options, got null'],
  ['x', 'createNode: expected an object of options, got "x"'],
]
test.each(wrong)('createNode refuses the options %j', (options, message) => {
  expect(() => argvOf(options as never)).toThrow(new Error(message))
})

test('createNode turns valid options into flags', () => {
  const options = { port: 'none', feed: 'scripted', blockTimeMs: 2_000, cors: ['*'] } as const
  expect(argvOf(options)).toEqual(
    expect.arrayContaining(['--port=0', '--block-time-ms=2000', '--cors=*', '--ephemeral']),
  )
})

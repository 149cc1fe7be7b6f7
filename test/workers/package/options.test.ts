/** Options of createNode: wrong ones are refused by name, with what they take. */
import { expect, test } from 'vitest'
import { argvOf } from '../../../workers/package/options.ts'

const wrong: [options: unknown, message: string][] = [
  [{ port: 'abc' }, 'option port: expected a port number or \'none\', got "abc"'],
  [{ port: null }, "option port: expected a port number or 'none', got null"],
  [{ port: true }, "option port: expected a port number or 'none', got true"],
  [{ feed: 'script' }, "option feed: expected 'clock' or 'scripted', got \"script\""],
  [{ feed: null }, "option feed: expected 'clock' or 'scripted', got null"],
  [
    { datadir: null },
    'option datadir: expected a text, a number, true, false, or a list of texts, got null',
  ],
  [
    { cors: [{}] },
    'option cors: expected a text, a number, true, false, or a list of texts, got an array',
  ],
  [null, 'createNode: expected an object of options, got null'],
  ['x', 'createNode: expected an object of options, got "x"'],
]
test.each(wrong)('%j', (options, message) => {
  expect(() => argvOf(options as never)).toThrow(new Error(message))
})

test('right ones become flags', () => {
  const options = { port: 'none', feed: 'scripted', blockTimeMs: 2_000, cors: ['*'] } as const
  expect(argvOf(options)).toEqual(
    expect.arrayContaining(['--port=0', '--block-time-ms=2000', '--cors=*', '--ephemeral']),
  )
})

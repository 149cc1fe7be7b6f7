/**
 * Test files share processes. A file that leaves its process changed fails itself, so that no later
 * file fails for it.
 */
import { afterAll, beforeAll, expect } from 'vitest'

/** Reads the state of the process that some tests change and others rely on. */
const processState = () => ({
  setTimeout,
  setInterval,
  setImmediate,
  clearTimeout,
  clearInterval,
  Date,
  fetch,
  WebSocket,
  now: performance.now,
  cwd: process.cwd(),
  exitCode: process.exitCode,
  TMPDIR: process.env['TMPDIR'],
})
const KEY = Symbol.for('flashnode.processState')
const retained = globalThis as { [KEY]?: ReturnType<typeof processState> }
retained[KEY] ??= processState()

/** Names the state that differs from the state before the first file. */
const changed = () => {
  const now = Object.entries(processState())
  return now.flatMap(([name, value]) =>
    Object.is(value, Reflect.get(retained[KEY]!, name)) ? [] : [name],
  )
}
beforeAll(() =>
  expect(changed(), 'changed by an earlier file, or by the imports of this one').toEqual([]),
)
afterAll(() => expect(changed(), 'what this file leaves changed').toEqual([]))

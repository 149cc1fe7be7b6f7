/**
 * Test files share processes: one that leaves its process changed fails, instead of one that comes
 * after it.
 */
import { afterAll, beforeAll, expect } from 'vitest'

/** State of the process that some tests change and others rely on. */
const processState = () => ({
  ...{ setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, Date, fetch, WebSocket },
  ...{ now: performance.now, cwd: process.cwd(), exitCode: process.exitCode },
  TMPDIR: process.env['TMPDIR'],
})
const KEY = Symbol.for('flashnode.processState')
const kept = globalThis as { [KEY]?: ReturnType<typeof processState> }
kept[KEY] ??= processState()

/** Names of what is otherwise than before the first file. */
const changed = () => {
  const now = Object.entries(processState())
  return now.flatMap(([name, value]) =>
    Object.is(value, Reflect.get(kept[KEY]!, name)) ? [] : [name],
  )
}
beforeAll(() =>
  expect(changed(), 'changed by an earlier file, or by the imports of this one').toEqual([]),
)
afterAll(() => expect(changed(), 'what this file leaves changed').toEqual([]))

/** No flag is dead: every limit is set to another value than its default, and seen acting. */
import { expect, test } from 'vitest'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/seam/limits.ts'
import { BOOTSTRAP } from './bootstrap.ts'
import { DEVELOPMENT } from './development.ts'
import { EVENTS } from './events.ts'
import { LAZY } from './lazy.ts'
import { LEGACY } from './legacy.ts'
import { METHODS } from './methods.ts'
import { PAGE } from './page.ts'
import { REQUESTS } from './requests.ts'
import type { Row, Rows } from './row.ts'
import { SOCKETS } from './sockets.ts'
import { WORKERS } from './workers.ts'

/** A limit without a row is an error of types here. */
const ROWS: Rows = {
  ...REQUESTS,
  ...METHODS,
  ...EVENTS,
  ...LAZY,
  ...LEGACY,
  ...DEVELOPMENT,
  ...PAGE,
  ...SOCKETS,
  ...WORKERS,
  ...BOOTSTRAP,
}

test('every limit has a row', () => {
  expect(Object.keys(ROWS).toSorted()).toEqual(Object.keys(DEFAULT_LIMITS).toSorted())
})

test.each(Object.entries(ROWS) as [keyof Limits, Row][])(
  '%s',
  async (name, { value, see, acts }) => {
    expect(value).not.toBe(DEFAULT_LIMITS[name])
    const [seen, byDefault] = await Promise.all([see({ [name]: value }), see({})])
    expect(seen).toEqual(acts)
    expect(byDefault).not.toEqual(acts)
  },
)

/**
 * Every limit's flag must work: each is set to another value than its default, and its effect is
 * checked.
 */
import { expect, test } from 'vitest'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import { BOOTSTRAP } from './bootstrap.ts'
import { DEVELOPMENT } from './development.ts'
import { EVENTS } from './events.ts'
import { FORWARDING } from './forwarding.ts'
import { LAZY } from './lazy.ts'
import { METHODS } from './methods.ts'
import { PAGE } from './page.ts'
import { REQUESTS } from './requests.ts'
import type { Row, Rows } from './row.ts'
import { SOCKETS } from './sockets.ts'
import { WORKERS } from './workers.ts'

/** A missing row is a type error here. */
const ROWS: Rows = {
  ...REQUESTS,
  ...METHODS,
  ...EVENTS,
  ...LAZY,
  ...FORWARDING,
  ...DEVELOPMENT,
  ...PAGE,
  ...SOCKETS,
  ...WORKERS,
  ...BOOTSTRAP,
}

test('every limit has a row in this test', () => {
  expect(Object.keys(ROWS).toSorted()).toEqual(Object.keys(DEFAULT_LIMITS).toSorted())
})

test.each(Object.entries(ROWS) as [keyof Limits, Row][])(
  'the limit %s has its effect when it is changed',
  async (name, { value, see, acts }) => {
    expect(value).not.toBe(DEFAULT_LIMITS[name])
    const [seen, byDefault] = await Promise.all([see({ [name]: value }), see({})])
    expect(seen).toEqual(acts)
    expect(byDefault).not.toEqual(acts)
  },
)

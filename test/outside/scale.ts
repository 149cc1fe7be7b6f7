/**
 * Several replicas behind HAProxy, with the file that operators get, and what they tell each other over Redis. Needs `haproxy` and
 * `redis-server` (Debian: apt-get install haproxy redis-server).
 * Usage: npm run scale
 */
import { checks } from './checks.ts'
import { filters } from './scale/filters.ts'
import { proxy } from './scale/proxy.ts'
import { together } from './scale/together.ts'

const { check, skip, close } = checks('scale')
for (const [name, part] of Object.entries({ proxy, filters, together }))
  try {
    await part({ check, skip })
  } catch (error) {
    check(name, false, (error as Error).stack)
  }
close()
process.exit()

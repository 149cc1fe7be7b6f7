/**
 * Several replicas run behind HAProxy with the file that operators get, and share data over Redis.
 * The check needs `haproxy` and `redis-server` (Debian: apt-get install haproxy redis-server).
 * Usage: npm run scale [-- --part proxy,filters,together,chaos,conformance] [--seconds N of chaos,
 * 600 by hand] [--seed S] Without --part, all parts but conformance run; that part takes the
 * third-party sets ($CONFORMANCE_DIR) through HAProxy.
 */
import { checks } from '../kit/checks.ts'
import { mulberry32, runOptions } from '../kit/run-options.ts'
import { chaos } from './scale/chaos.ts'
import { conformance } from './scale/conformance.ts'
import { filters } from './scale/filters.ts'
import { proxy } from './scale/proxy.ts'
import type { Checks } from './scale/section.ts'
import { together } from './scale/together.ts'

const SECONDS = 90
const options = runOptions('scale', { full: SECONDS, short: SECONDS }, { part: { type: 'string' } })
const PARTS: Readonly<Record<string, (checks: Checks) => Promise<void>>> = {
  proxy,
  filters,
  together,
  chaos: (counting) => chaos(counting, { ...options, clientRandom: mulberry32(options.seed + 1) }),
  conformance,
}

const wanted = String(options.own['part'] ?? 'proxy,filters,together,chaos').split(',')
const unknown = wanted.filter((name) => !(name in PARTS))
if (unknown.length > 0) throw new Error(`no such part: ${unknown.join(', ')}`)
const { check, skip, close } = checks('scale')
for (const name of wanted)
  try {
    await PARTS[name]!({ check, skip })
  } catch (error) {
    check(name, false, (error as Error).stack)
  }
close()
process.exit()

/**
 * Several replicas behind HAProxy, with the file that operators get. Needs `haproxy` (Debian: apt-get install haproxy).
 * Usage: npm run scale
 */
import { checks } from './checks.ts'
import { proxy } from './scale/proxy.ts'

const { check, skip, close } = checks('scale')
try {
  await proxy({ check, skip })
} catch (error) {
  check('proxy', false, (error as Error).stack)
}
close()
process.exit()

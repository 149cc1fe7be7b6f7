/**
 * Checks that one client does no harm to others. Inputs: no request, however long or wrong, holds
 * the front for more than 20 ms at a stretch. Rows: a hostile client within a public node's default
 * limits for some seconds of each kind; honest clients beside it are answered, the flashblocks come on
 * time, and memory comes back. A server that does nothing is asked beside them: what it takes, the
 * machine takes.
 * Usage: npm run hostile [-- --only REGEX] [--part inputs|rows] [--http llhttp|node]
 *   [--front-threads N, of the rows] [--seed S] [--seconds N, of each row; 3, or 2 with --short]
 * Over Node the rows are those of HTTP and its sockets alone.
 */
import { checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { DOOR_ROWS, ROWS } from './hostile/attacker.ts'
import { sufferInputs } from './hostile/held.ts'
import { sufferRows } from './hostile/rows.ts'

const { seconds, seed, own } = runOptions(
  'hostile',
  { full: 3, short: 2 },
  {
    ...{ only: { type: 'string' }, part: { type: 'string' }, http: { type: 'string' } },
    'front-threads': { type: 'string' },
  },
)
const wanted = new RegExp(String(own['only'] ?? ''))
const part = own['part'] ?? 'both'
/** The way of plain requests. */
const http = String(own['http'] ?? 'llhttp')
/** As a public node has them. */
const limits = ['--http', http, '--limit-sockets-per-client', '256']
const flags = ['--front-threads', String(own['front-threads'] ?? 1), ...limits]
const { check, close } = checks(http === 'node' ? 'hostile, over Node' : 'hostile')
if (part !== 'rows') await sufferInputs(check, wanted, limits)
const rows = (http === 'node' ? DOOR_ROWS : ROWS).filter(({ name }) => wanted.test(name))
if (part !== 'inputs' && rows.length > 0) await sufferRows(check, rows, { seconds, seed, flags })
close()

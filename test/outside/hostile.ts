/**
 * This check proves that one client does no harm to others. Inputs: no request, however long or
 * wrong, occupies the front for more than 20 ms at a stretch. Rows: a hostile client acts within a
 * public node's default limits for some seconds of each kind. Honest clients get their responses,
 * the flashblocks come on time, and memory is freed again. An idle server is measured beside the
 * node, because its delays come from the machine.
 * Usage: npm run hostile [-- --only REGEX] [--part inputs|rows] [--http llhttp|node]
 * [--front-threads N, of the rows] [--seed S] [--seconds N, of each row; 3, or 2 with --short] With
 * `--http node` only the rows of HTTP and its sockets run.
 */
import { checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { ROWS, SERVER_ROWS } from './hostile/attacker.ts'
import { sufferRows } from './hostile/rows.ts'
import { sufferInputs } from './hostile/throttled.ts'

const { seconds, seed, own } = runOptions(
  'hostile',
  { full: 3, short: 2 },
  {
    only: { type: 'string' },
    part: { type: 'string' },
    http: { type: 'string' },
    'front-threads': { type: 'string' },
  },
)
const wanted = new RegExp(String(own['only'] ?? ''))
const part = own['part'] ?? 'both'
/** The parser of plain requests. */
const http = String(own['http'] ?? 'llhttp')
/** A public node has these limits. */
const limits = ['--http', http, '--limit-sockets-per-client', '256']
const flags = ['--front-threads', String(own['front-threads'] ?? 1), ...limits]
const { check, close } = checks(http === 'node' ? 'hostile, over Node' : 'hostile')
if (part !== 'rows') await sufferInputs(check, wanted, limits)
const rows = (http === 'node' ? SERVER_ROWS : ROWS).filter(({ name }) => wanted.test(name))
if (part !== 'inputs' && rows.length > 0) await sufferRows(check, rows, { seconds, seed, flags })
close()

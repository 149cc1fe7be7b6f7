/**
 * What a crash may not cost: a node and its keeper are killed at chosen places, again and again; what was shown before, and a plain
 * execution of the whole chain, are the measure of what is there afterwards.
 * Usage: node test/outside/crash.ts [--short] [--seed S] [--seconds N]
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { fillDisk } from './crash/disk.ts'
import { failCalls } from './crash/faults.ts'
import { killKeepers } from './crash/keeper-kills.ts'
import { killMigrations } from './crash/migration-kills.ts'
import { killNodes } from './crash/node-kills.ts'

const options = runOptions('crash', { full: 900, short: 75 })
const { isShort, random, isTimed } = options
const startedAt = performance.now()
const { check, skip, close } = checks('crash')

/** Whether a part of the time is still left: the parts share it, and what is done once is not counted against it. */
const isInTime = (share: number) => () =>
  !isTimed || performance.now() - startedAt < options.seconds * 1_000 * share

const list = (lines: readonly string[]): string =>
  lines
    .slice(0, 5)
    .map((line) => `\n       ${line}`)
    .join('')

/** Each place `wanted` times; at least once where `--seconds` leaves no time for more. */
function checkKills(what: string, kills: ReadonlyMap<string, number>, wanted: number): void {
  const counts = [...kills.values()]
  const least = Math.min(...counts)
  const missed = [...kills].filter(([, count]) => count < (isTimed ? 1 : wanted))
  const total = counts.reduce((sum, count) => sum + count)
  check(
    `${what}: killed ${total} times at ${counts.length} places, each at least ${least} times`,
    missed.length === 0,
    missed.map(([name, count]) => `${name}: ${count}`).join(', '),
  )
}

const datadir = mkdtempSync(join(tmpdir(), 'flashnode-crash-'))
process.once('exit', () => rmSync(datadir, { recursive: true, force: true }))

const wantedOfNode = isShort ? 1 : 10
const node = await killNodes({ datadir, rounds: wantedOfNode, random, isInTime: isInTime(0.7) })
checkKills('a node under load', node.kills, wantedOfNode)
check(
  'what was shown before a kill is shown after it',
  node.differences.found.length === 0,
  `${node.differences.hashes} hashes, ${node.differences.receipts} receipts, ${node.differences.edits} edits, ${node.accepted} accepted transactions, ${node.differences.found.length} differences${list(node.differences.found)}`,
)
check(
  'the database that each kill leaves holds what a plain execution gives',
  node.stored.length === 0,
  `${node.lives} openings, ${node.blocks} blocks executed again, ${node.rows} rows of state, tries, history and indexes, ${node.stored.length} differences${list(node.stored)}`,
)
check(
  'the node reads what a plain execution gives',
  node.reads > 0,
  `${node.reads} balances, nonces and slots, at the newest and at older blocks`,
)
check(
  'there was load',
  node.accepted > node.lives && node.blocks > node.lives,
  `${node.accepted} transactions, ${node.blocks} blocks in ${node.lives} lives, slowest start ${Math.round(node.slowestStartMs)} ms`,
)

const wantedOfKeeper = isShort ? 1 : 5
const keeper = await killKeepers({ rounds: wantedOfKeeper, random, isInTime: isInTime(0.85) })
checkKills('a keeper that changes branches and prunes', keeper.kills, wantedOfKeeper)
check(
  'it opens on a whole chain, every state that is kept is right, no row is left over',
  keeper.found.length === 0,
  `${keeper.states} states, ${keeper.rows} rows, ${keeper.found.length} differences${list(keeper.found)}`,
)

const wantedOfMigration = isShort ? 1 : 5
const migration = await killMigrations({
  ...{ datadir, rounds: wantedOfMigration, random },
  isInTime: isInTime(0.9),
})
checkKills('a migration of that node', migration.kills, wantedOfMigration)
check(
  'it goes on where it was cut off, is refused until then, and leaves every row as it was',
  migration.found.length === 0,
  `${migration.rows} rows, ${migration.refused} starts refused, ${migration.found.length} differences${list(migration.found)}`,
)

const faults = await failCalls(isShort ? 29 : 1)
check(
  'storage calls that fail: a right answer, an error or a stop that says what to do, and a whole chain after it',
  faults.isRight,
  faults.detail,
)

const disk = await fillDisk({ rounds: isShort ? 1 : 3, seed: Math.floor(random() * 2 ** 31) })
if (disk === undefined) skip('a full disk', 'this system lets nobody mount a small file system')
else
  check(
    'a full disk: not ready with what to do, reads go on, the node ends with 1; with space again nothing is lost',
    disk.problems.length === 0,
    `${disk.notes.join('; ')}${list(disk.problems)}`,
  )

close()

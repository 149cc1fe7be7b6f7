/**
 * This check proves what a crash may not cost. A node and its persistence thread are killed at
 * chosen points, again and again. The state afterwards is compared with everything that was visible
 * before, and with a plain execution of the whole chain.
 * Usage: node test/outside/crash.ts [--short] [--seed S] [--seconds N]
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { fillDisk } from './crash/disk.ts'
import { failCalls } from './crash/faults.ts'
import { killMigrations } from './crash/migration-kills.ts'
import { killNodes } from './crash/node-kills.ts'
import { killPersistence } from './crash/persistence-kills.ts'

const options = runOptions('crash', { full: 900, short: 75 })
const { isShort, random, isTimed } = options
const startedAt = performance.now()
const { check, skip, close } = checks('crash')

/**
 * Whether a part of the time is still left. The parts share the time, and work that is done once
 * does not count.
 */
const isInTime = (share: number) => () =>
  !isTimed || performance.now() - startedAt < options.seconds * 1_000 * share

const list = (lines: readonly string[]): string =>
  lines
    .slice(0, 5)
    .map((line) => `\n       ${line}`)
    .join('')

/** Checks that each point was hit `wanted` times; `--seconds` demands one time only. */
function checkKills(what: string, kills: ReadonlyMap<string, number>, wanted: number): void {
  const counts = [...kills.values()]
  const min = Math.min(...counts)
  const missed = [...kills].filter(([, count]) => count < (isTimed ? 1 : wanted))
  const total = counts.reduce((sum, count) => sum + count)
  check(
    `${what}: killed ${total} times at ${counts.length} points, each at least ${min} times`,
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
  'everything visible before a kill is visible after it',
  node.differences.found.length === 0,
  `${node.differences.hashes} hashes, ${node.differences.receipts} receipts, ${node.differences.edits} edits, ${node.accepted} accepted transactions, ${node.differences.found.length} differences${list(node.differences.found)}`,
)
check(
  'the database after each kill holds the same as a plain execution',
  node.stored.length === 0,
  `${node.lives} openings, ${node.blocks} blocks executed again, ${node.rows} rows of state, tries, history and indexes, ${node.stored.length} differences${list(node.stored)}`,
)
check(
  'the node reads the same state as a plain execution',
  node.reads > 0,
  `${node.reads} balances, nonces and slots, at the newest and at older blocks`,
)
check(
  'the node accepted more transactions and made more blocks than it had starts',
  node.accepted > node.lives && node.blocks > node.lives,
  `${node.accepted} transactions, ${node.blocks} blocks in ${node.lives} lives, slowest start ${Math.round(node.slowestStartMs)} ms`,
)

const wantedOfPersistence = isShort ? 1 : 5
const persistence = await killPersistence({
  rounds: wantedOfPersistence,
  random,
  isInTime: isInTime(0.85),
})
checkKills(
  'a persistence thread that changes branches and prunes',
  persistence.kills,
  wantedOfPersistence,
)
check(
  'the database opens on a complete chain with the right states and no stray row',
  persistence.found.length === 0,
  `${persistence.states} states, ${persistence.rows} rows, ${persistence.found.length} differences${list(persistence.found)}`,
)

const wantedOfMigration = isShort ? 1 : 5
const migration = await killMigrations({
  datadir,
  rounds: wantedOfMigration,
  random,
  isInTime: isInTime(0.9),
})
checkKills('a migration of that node', migration.kills, wantedOfMigration)
check(
  'a cut migration continues, no node starts before its end, and every row stays as it was',
  migration.found.length === 0,
  `${migration.rows} rows, ${migration.refused} starts refused, ${migration.found.length} differences${list(migration.found)}`,
)

const faults = await failCalls(isShort ? 29 : 1)
check(
  'after failing storage calls responses are right or errors, and the chain is complete',
  faults.isRight,
  faults.detail,
)

const disk = await fillDisk({ rounds: isShort ? 1 : 3, seed: Math.floor(random() * 2 ** 31) })
if (disk === undefined) skip('a full disk', 'this system lets nobody mount a small file system')
else
  check(
    'on a full disk reads go on and the node ends with 1; with space again nothing is lost',
    disk.problems.length === 0,
    `${disk.remarks.join('; ')}${list(disk.problems)}`,
  )

close()

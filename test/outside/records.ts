/**
 * `record` and `replay`: a node that follows a chain with a reorg and broken promises is recorded, and its record ends in the same views,
 * receipts and ledger, each time, and in the same answers to what clients asked meanwhile. `bench`: what it says of a node and of proxies of it.
 * Usage: npm run records [-- --short] [--seed S] [--form xlayer|plain|subblocks]
 */
import { WIRE_FORMS } from '../../engine/flashblocks/codec.ts'
import { checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { headOf, startLeader, until } from './follow/nodes.ts'
import { checkBench } from './records/bench.ts'
import { checkFiles } from './records/files.ts'
import { PLANTED_ANSWERS } from './records/planted.ts'
import { checkPlanted, checkReplays } from './records/replays.ts'
import { record } from './records/world.ts'

const { random, seconds, own, isShort } = runOptions(
  'records',
  { full: 60, short: 16 },
  { form: { type: 'string' } },
)
/** Transactions a second. */
const RATE = 30
/** Blocks before the state begins: some of it has to be fetched. */
const BLOCKS = 5

/** Replays of each record to a node that is read. The files and plants replay them too. */
const times = isShort ? 1 : 3

const { check, close } = checks('records')
const drawn = WIRE_FORMS[Math.floor(random() * WIRE_FORMS.length)]!
const form = String(own['form'] ?? drawn)
console.log(`the feed is in the form ${form}`)
const leader = await startLeader(random, RATE, ['--feed-form', form])
const isThere = await until(async () => (await headOf(leader.node.url)) >= BLOCKS, 60_000)
check('there are blocks', isThere)
const { lazy, whole } = await record(leader, { seconds, check, random })
// The chain stands still: it can be asked meanwhile.
await Promise.all([
  checkBench(leader.node.url, check),
  checkReplays(lazy, { check, times })
    .then(() => checkReplays(whole, { check, times }))
    .then(() => checkFiles(lazy, { check, random })),
])
for (const [at, planted] of PLANTED_ANSWERS.entries())
  await checkPlanted([whole, lazy][at % 2]!, planted, check)
check('a node ends with 0', (await leader.node.stop()) === 0)
close()

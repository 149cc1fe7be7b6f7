/**
 * This check tests `record`, `replay` and `bench`. A node that follows a chain with a reorg and
 * broken promises is recorded. Each replay must end in the same views, receipts and ledger, and in
 * the same responses to the clients. `bench` is checked against a node and against proxies before
 * it.
 * Usage: npm run records [-- --short] [--seed S] [--form xlayer|plain|subblocks]
 */
import { WIRE_FORMS } from '../../engine/flashblocks/codec.ts'
import { checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { headOf, startLeader, until } from './follow/nodes.ts'
import { checkBench } from './records/bench.ts'
import { checkFiles } from './records/files.ts'
import { PLANTED_RESPONSES } from './records/planted.ts'
import { checkPlanted, checkReplays } from './records/replays.ts'
import { record } from './records/world.ts'

const { random, seconds, own, isShort } = runOptions(
  'records',
  { full: 60, short: 16 },
  { form: { type: 'string' } },
)
/** The load has this many transactions a second. */
const RATE = 30
/** This many blocks precede the start of the state, so that a part of it has to be fetched. */
const BLOCKS = 5

/**
 * This many replays of each recording serve a node that is read. The checks of files and plants
 * replay the recordings too.
 */
const times = isShort ? 1 : 3

const { check, close } = checks('records')
const drawn = WIRE_FORMS[Math.floor(random() * WIRE_FORMS.length)]!
const form = String(own['form'] ?? drawn)
console.log(`the feed is in the form ${form}`)
const leader = await startLeader(random, RATE, ['--feed-form', form])
const isThere = await until(async () => (await headOf(leader.node.url)) >= BLOCKS, 60_000)
check('the chain reaches the wanted number of blocks', isThere)
const { lazy, full } = await record(leader, { seconds, check, random })
// The chain stands still, so it can be read meanwhile.
await Promise.all([
  checkBench(leader.node.url, check),
  checkReplays(lazy, { check, times })
    .then(() => checkReplays(full, { check, times }))
    .then(() => checkFiles(lazy, { check, random })),
])
for (const [at, planted] of PLANTED_RESPONSES.entries())
  await checkPlanted([full, lazy][at % 2]!, planted, check)
check('the chain ends with 0', (await leader.node.stop()) === 0)
close()

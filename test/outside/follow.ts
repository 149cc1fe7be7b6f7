/**
 * A follower runs beside the development chain that it follows. Both get the same requests at the
 * same flashblock.
 * Usage: npm run follow-test [-- --only whole,faults-whole,whole:kill+silence,…] [--except NAME,…]
 * [--short] [--log] [--seed S] [--together N, sections at a time]
 */
import { checks } from '../kit/checks.ts'
import { runOptions } from '../kit/run-options.ts'
import { CHECKERS } from './follow/checkers.ts'
import { ENRICHED } from './follow/enriched.ts'
import { FAULTS, someFaults } from './follow/faults.ts'
import { MODES } from './follow/modes.ts'
import { startLeader } from './follow/nodes.ts'
import { RECEIPTS } from './follow/receipts.ts'
import { RELAYS } from './follow/relays.ts'
import type { Section } from './follow/section.ts'
import { STARTS } from './follow/starts.ts'

const SECTIONS: Readonly<Record<string, Section>> = {
  // The longest sections come first, because several run at a time.
  ...CHECKERS,
  ...FAULTS,
  ...MODES,
  ...STARTS,
  ...RELAYS,
  ...ENRICHED,
  ...RECEIPTS,
}
const sectionOf = (name: string): Section | undefined => SECTIONS[name] ?? someFaults(name)
/** The load has this many transactions a second. */
const RATE = 8

const { random, isShort, own } = runOptions(
  'follow',
  { full: 0, short: 0 },
  {
    only: { type: 'string' },
    except: { type: 'string' },
    together: { type: 'string' },
    log: { type: 'boolean' },
  },
)
const namesOf = (flag: string) => (own[flag] === undefined ? [] : String(own[flag]).split(','))
const except = namesOf('except')
const wanted = own['only'] === undefined ? Object.keys(SECTIONS) : namesOf('only')
const only = wanted.filter((name) => !except.includes(name))
const unknown = [...only, ...except].filter((name) => sectionOf(name) === undefined)
if (unknown.length > 0)
  throw new Error(`--only: ${unknown.join(', ')}; there are ${Object.keys(SECTIONS).join(', ')}`)
const { check, skip, close } = checks('follow-test')

const leader = await startLeader(random, RATE)
const around = {
  leader,
  random,
  check,
  skip,
  isLogged: own['log'] === true,
  ...(isShort ? { comparisons: 2_000, restarts: 1 } : { comparisons: 10_000, restarts: 3 }),
}
const left = [...only]
const work = async () => {
  for (let name = left.shift(); name !== undefined; name = left.shift()) {
    const started = performance.now()
    console.log(`-- ${name}`)
    await sectionOf(name)!(around).catch((error: Error) => check(name!, false, error.stack))
    console.log(`   ${name} took ${Math.round((performance.now() - started) / 1_000)} s`)
  }
}
// Each section mostly waits for blocks, and all of them need the one chain.
await Promise.all(Array.from({ length: Number(own['together'] ?? 1) }, work))
await leader.load
  .stop()
  .catch((error: Error) => check('the load runs to its end', false, error.message))
console.log(`load: ${JSON.stringify(leader.load.sent)}`)
check('the followed chain ends with 0', (await leader.node.stop()) === 0)
close()
// The process exits here even if a section has left something open.
process.exit()

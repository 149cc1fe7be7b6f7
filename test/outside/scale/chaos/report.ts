/** The report turns each count into a check. */
import type { Checks } from '../section.ts'
import { judge } from './listeners.ts'
import type { Run } from './run.ts'
import { wrongHeights } from './stock.ts'

/** These events move clients from one replica to another, which may be behind. */
const MOVING: readonly string[] = ['kill', 'stop', 'drain', 'new']

export async function report(checks: Checks, run: Run): Promise<void> {
  const { check } = checks
  const { observations, journal } = run
  console.log(`     ${observations.timeline()}`)
  const none = (what: string, list: readonly string[], detail = '') =>
    check(what, list.length === 0, `${list.length}${detail}${observations.listed(list)}`)
  const counted = (what: string) => `${what}: ${observations.counted(what)}`
  none('the sequencer withdrew nothing', journal.faults)
  none(
    'wrong answers',
    observations.faults('wrong'),
    ` of ${counted('compared on pending')}, ${counted('compared on blocks')}, ${counted('receipts')}; ${counted('at a flashblock that the sequencer itself did not show')}`,
  )
  check(
    'enough responses were compared',
    observations.counted('compared on pending') > 500 &&
      observations.counted('compared on blocks') > 200,
  )
  none(
    'refusals',
    observations.faults('refused'),
    `; ${counted('late')}, ${counted('not that new yet')}`,
  )
  none(
    'pending that went back although the client named a minimum flashblock',
    observations.faults('backwards although asked'),
  )
  backwards(check, run)
  none(
    'requests without a response, except those to a replica that was killed',
    observations.lostElsewhere(),
    `; ${observations.lostWithKilled()} on their way, of ${observations.counted('requests')}`,
  )
  none('WebSockets that closed while their replica ran', observations.faults('ended'))
  none('subscriptions that were notified of a gap', observations.faults('gap'))
  none('logs that were removed but never sent', observations.faults('subscription'))
  for (const one of run.listeners) {
    const { wrong, overtaken, renamed } = judge(one, journal)
    const late = overtaken === 0 ? '' : `; ${overtaken} flashblocks whose block was there before`
    const other =
      renamed.length === 0 ? '' : `; ${renamed.length} with another header: ${renamed[0]}`
    none(
      `${one.kind.name} of ${one.from}: everything once, in order`,
      wrong,
      ` in ${one.emitted.length} over ${one.joins.length} connections${late}${other}`,
    )
  }
  none(
    'errors of viem and ethers',
    observations.faults('client'),
    `; ${counted('receipts by viem')}`,
  )
  for (const one of run.watchers) {
    const isComplete = !/websocket/i.test(one.name)
    none(`${one.name}: every block`, wrongHeights(one, isComplete), ` in ${one.heights.length}`)
  }
  missing(check, run)
  await limits(checks, run)
}

type Check = Checks['check']

/**
 * Checks the documented rule: a client may see less than before only after it moved to another
 * replica.
 */
function backwards(check: Check, { observations }: Run): void {
  const moves = observations.happenings.filter(({ kind }) => MOVING.includes(kind)).length
  const list = observations.faults('backwards')
  const max = Math.max(
    0,
    ...Array.from({ length: 255 }, (_, at) => observations.counted(`backwards 127.0.23.${at}`)),
  )
  check(
    'pending of clients without a minimum goes back at most once for each move',
    max <= moves,
    `${list.length}, of one client ${max}, ${moves} moves${observations.listed(list)}`,
  )
}

function missing(check: Check, { sent, journal, observations }: Run): void {
  const lost = sent.filter((hash) => journal.of(hash) === undefined)
  check(
    'every accepted transaction is in the chain',
    lost.length === 0 && sent.length > 50,
    `${sent.length} taken, ${lost.length} not in it${observations.listed(lost)}`,
  )
}

async function limits({ check, skip }: Checks, { limited, observations }: Run): Promise<void> {
  const { windows, wrong, left, served } = (await limited).report()
  if (windows === 0) {
    skip(
      'one limit over all replicas',
      `in each of ${left} windows Redis was away or a node stood still`,
    )
    return
  }
  check(
    'a caller has its points over all replicas, to 1 %, while Redis runs',
    wrong.length === 0,
    `${served} in ${windows} windows; ${left} while Redis was away or a node stood still${observations.listed(wrong)}`,
  )
}

/** What was counted, each a check. */
import type { Checks } from '../section.ts'
import { judge } from './listeners.ts'
import type { Run } from './run.ts'
import { wrongHeights } from './stock.ts'

/** Events that move clients from one replica to another, which may be behind it. */
const MOVING: readonly string[] = ['kill', 'stop', 'drain', 'new']

export async function report(checks: Checks, run: Run): Promise<void> {
  const { check } = checks
  const { notes, journal } = run
  console.log(`     ${notes.timeline()}`)
  const none = (what: string, list: readonly string[], detail = '') =>
    check(what, list.length === 0, `${list.length}${detail}${notes.told(list)}`)
  const counted = (what: string) => `${what}: ${notes.counted(what)}`
  none('the sequencer took nothing back', journal.faults)
  none(
    'wrong answers',
    notes.faults('wrong'),
    ` of ${counted('compared on pending')}, ${counted('compared on blocks')}, ${counted('receipts')}; ${counted('at a flashblock that the sequencer itself did not show')}`,
  )
  check(
    'there was something to compare',
    notes.counted('compared on pending') > 500 && notes.counted('compared on blocks') > 200,
  )
  none('refusals', notes.faults('refused'), `; ${counted('late')}, ${counted('not that new yet')}`)
  none(
    'pending that went back although the client said what it had seen',
    notes.faults('backwards although asked'),
  )
  backwards(check, run)
  none(
    'requests that nobody answered but those on their way to a replica that was killed',
    notes.lostElsewhere(),
    `; ${notes.lostWithKilled()} on their way, of ${notes.counted('requests')}`,
  )
  none('WebSockets that ended while their replica went on', notes.faults('ended'))
  none('subscriptions that were told of a gap', notes.faults('gap'))
  none('logs that were taken back and had not been told', notes.faults('subscription'))
  for (const one of run.listeners) {
    const { wrong, overtaken, renamed } = judge(one, journal)
    const late = overtaken === 0 ? '' : `; ${overtaken} flashblocks whose block was there before`
    const other =
      renamed.length === 0 ? '' : `; ${renamed.length} with another header: ${renamed[0]}`
    none(
      `${one.kind.name} of ${one.from}: everything once, in order`,
      wrong,
      ` in ${one.told.length} over ${one.joins.length} connections${late}${other}`,
    )
  }
  none('viem and ethers', notes.faults('client'), `; ${counted('receipts by viem')}`)
  for (const one of run.watchers) {
    const isWhole = !/websocket/i.test(one.name)
    none(`${one.name}: every block`, wrongHeights(one, isWhole), ` in ${one.heights.length}`)
  }
  missing(check, run)
  await limits(checks, run)
}

type Check = Checks['check']

/** As documented: a client may see less than before where it comes to another replica. */
function backwards(check: Check, { notes }: Run): void {
  const moves = notes.happenings.filter(({ kind }) => MOVING.includes(kind)).length
  const list = notes.faults('backwards')
  const most = Math.max(
    0,
    ...Array.from({ length: 255 }, (_, at) => notes.counted(`backwards 127.0.23.${at}`)),
  )
  check(
    'pending that went back for clients that do not say: at most once for each move',
    most <= moves,
    `${list.length}, of one client ${most}, ${moves} moves${notes.told(list)}`,
  )
}

function missing(check: Check, { sent, journal, notes }: Run): void {
  const lost = sent.filter((hash) => journal.of(hash) === undefined)
  check(
    'every transaction that was taken is in the chain',
    lost.length === 0 && sent.length > 50,
    `${sent.length} taken, ${lost.length} not in it${notes.told(lost)}`,
  )
}

async function limits({ check, skip }: Checks, { limited, notes }: Run): Promise<void> {
  const { windows, wrong, left, served } = (await limited).report()
  if (windows === 0) {
    skip(
      'one limit over all replicas',
      `in each of ${left} windows Redis was away or a node stood still`,
    )
    return
  }
  check(
    'over all replicas a caller has its points, to 1 %, while Redis is there',
    wrong.length === 0,
    `${served} in ${windows} windows; ${left} while Redis was away or a node stood still${notes.told(wrong)}`,
  )
}

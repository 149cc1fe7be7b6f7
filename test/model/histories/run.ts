/** One history from its first step to its last, checked after each of them. */
import { clearThread, FLOOR } from '../../../engine/views/arena.ts'
import { mulberry32 } from '../../kit/run-options.ts'
import type { Random } from './blocks.ts'
import { checkAll, checkSample, Mismatch } from './check.ts'
import type { Counts } from './counts.ts'
import { Died, type Directory } from './directory.ts'
import {
  branch,
  canonical,
  dropPending,
  flashblock,
  payload,
  produce,
  runAhead,
  seal,
} from './drive.ts'
import { checkInvariants } from './invariants.ts'
import { FRONT, FRONT_OF, Machine, READERS, WORKERS } from './machine.ts'
import type { History, Step } from './steps.ts'

const MAX_HELD = 6

/**
 * `check`: 'some' asks each view a few questions after each step, 'all' whatever can be asked, and nothing in between.
 * @throws {Mismatch} {Error} at the first step after which something is wrong, its number in the message.
 */
export async function runHistory(
  { setup, steps }: History,
  { directory, counts, check }: Run,
): Promise<void> {
  const machine = await Machine.open(setup, directory, counts)
  const all: readonly Step[] = [['grow', setup.blocks, 1], ...steps, ['settle', 0, 2]]
  for (const [at, step] of all.entries()) {
    const random = randomOf(step[2])
    try {
      await runStep(machine, step, random)
      if (check === 'some') checkNow(machine, random)
      else checkEverything(machine, random)
    } catch (error) {
      const { stack } = error as Error
      throw new Error(`step ${at} of ${all.length}, ${step}: ${stack}`)
    }
  }
  checkEverything(machine, randomOf(setup.blocks))
}
export type Run = {
  readonly directory: Directory
  readonly counts: Counts
  readonly check: 'some' | 'all'
}

function checkEverything(machine: Machine, random: Random): void {
  checkInvariants(machine)
  for (const held of machine.held) checkAll(machine, held, random)
  for (const endpoint of ['flashblocks', 'standard'] as const) {
    const held = machine.lease(FRONT, endpoint)
    checkAll(machine, held, random)
    held.leased.release()
  }
}

function randomOf(seed: number): Random {
  const random = mulberry32(seed)
  return (below) => Math.floor(random() * below)
}

/** A process that dies in the middle of its work is started again. */
async function runStep(machine: Machine, step: Step, random: Random): Promise<void> {
  machine.clock.ms += 25
  releaseCancelled(machine)
  try {
    await act(machine, step, random)
    machine.take()
    await machine.decide()
  } catch (error) {
    if (!(error instanceof Died)) throw error
    die(machine, random)
  }
}

function die(machine: Machine, random: Random): void {
  const { raised, answered } = machine.unfolds
  machine.counts.add('died')
  if (raised > answered) machine.counts.add('died in an unfold')
  else if (machine.isFolding()) machine.counts.add('died in a fold')
  restart(machine, random)
}

async function act(machine: Machine, step: Step, random: Random): Promise<void> {
  const [name, count] = step
  const between = () => checkBetween(machine, random)
  switch (name) {
    case 'payload':
      return payload(machine, count, random)
    case 'flashblock':
      return flashblock(machine, count, random)
    case 'seal':
      return seal(machine)
    case 'flush':
      return dropPending(machine)
    case 'ahead':
      return runAhead(machine, count, { random, between })
    case 'canonical':
      return canonical(machine, count)
    case 'grow':
      return produce(machine, count, { random, between })
    case 'replace':
      return void (await branch(machine, 0, random))
    case 'reorg':
      return void (await branch(machine, count, random))
    case 'keeper':
      for (let n = 0; n < count && machine.keeperTurn(random(4) === 0); n++) between()
      return
    case 'answers':
      for (let n = 0; n < count && machine.answerTurn(); n++) await machine.decide()
      return
    case 'settle':
      return machine.settle(undefined, between)
    case 'lease':
      return lease(machine, random)
    case 'adopt':
      return adopt(machine, random)
    case 'release':
      for (const { leased } of machine.held.splice(random(machine.held.length + 1), 1))
        leased.release()
      return
    case 'ended':
      return endThread(machine, count)
    case 'die':
      machine.directory.fuse = count
      return
    case 'restart':
      machine.counts.add('restarted')
      return restart(machine, random)
    case 'reopen':
      await machine.directory.reopen()
      machine.counts.add('directory closed and opened')
      return restart(machine, random)
  }
}

function lease(machine: Machine, random: Random): void {
  if (machine.held.length >= MAX_HELD) return
  const thread = READERS[random(READERS.length)]!
  const held = machine.lease(thread, random(3) === 0 ? 'standard' : 'flashblocks')
  machine.held.push(held)
  machine.counts.add('lease')
}

/** A worker is told a record: one that its front holds, which it must get, or any other, which may be gone. */
function adopt(machine: Machine, random: Random): void {
  const { held, readers, counts, arena } = machine
  if (held.length >= MAX_HELD) return
  const newest = readers[FRONT]!.newestRecord()
  const thread = WORKERS[random(WORKERS.length)]!
  const covered = held.filter((each) => each.thread === FRONT_OF[thread])
  const record =
    covered.length > 0 && random(3) > 0
      ? covered[random(covered.length)]!.leased.record
      : Math.max(1, newest - random(20))
  const leased = readers[thread]!.adopt(record, 'flashblocks')
  const isCovered = covered.some((each) => each.leased.record <= record)
  if (leased !== undefined) {
    held.push({ leased, endpoint: 'flashblocks', shown: machine.shown.get(record)!, thread })
    counts.add(isCovered ? 'adopted under the front' : 'adopted')
    return
  }
  const floor = Atomics.load(arena.words, FLOOR)
  const isOwn = held.some((each) => each.thread === thread && each.leased.record <= record)
  if (isCovered || isOwn || floor <= record)
    throw new Mismatch(`record ${record} was refused, the floor is ${floor}`)
  counts.add('adoption refused')
}

/** Its leases go with it; only then its row. */
function endThread(machine: Machine, thread: number): void {
  machine.held = machine.held.filter((each) => each.thread !== thread)
  clearThread(machine.views, thread)
  machine.readers[thread] = machine.openReader(thread)
  machine.counts.add('thread ended')
}

/** The pool stops the readers that the writer names when pages run out. */
function releaseCancelled(machine: Machine): void {
  if (machine.cancelled === 0) return
  for (const held of machine.held)
    if (held.leased.record <= machine.cancelled) {
      held.leased.release()
      machine.counts.add('lease cancelled')
    }
  machine.held = machine.held.filter((each) => each.leased.record > machine.cancelled)
  machine.cancelled = 0
}

/** Another process over the same data: the canonical block that was shown is there, or one that was being made so. */
function restart(machine: Machine, random: Random): void {
  const { directory } = machine
  machine.onRead = undefined
  directory.fuse = random(3) === 0 ? random(3) : undefined
  const { canonical: shown } = machine.newest
  const { handed } = machine.state
  const next = handed === undefined ? undefined : machine.nodeOf(handed)
  for (;;)
    try {
      machine.start()
      break
    } catch (error) {
      if (error instanceof Died) machine.counts.add('died while it started')
      else if (error instanceof Error && /^no view memory for/.test(error.message)) {
        machine.counts.add('more memory for a start')
        machine.pages *= 2
      } else throw error
    }
  directory.fuse = undefined
  const { canonical, pending } = machine.newest
  if (canonical !== shown && canonical !== next)
    throw new Mismatch(`block ${shown.number} was canonical, after the start ${canonical.number}`)
  if (pending !== canonical) throw new Mismatch('the first record shows more than is durable')
  if (machine.keeper.opened.dropped.length > 0) throw new Mismatch('the start dropped a block')
}

/** After each step: the invariants, the newest view, and every lease, with other threads at work between the reads of some. */
function checkNow(machine: Machine, random: Random): void {
  try {
    checkInvariants(machine)
    machine.counts.add('invariants')
    for (const held of machine.held) {
      if (random(2) === 0) machine.onRead = othersAtWork(machine, random)
      checkSample(machine, held, random)
      machine.onRead = undefined
    }
    checkNewest(machine, random)
  } catch (error) {
    if (!(error instanceof Died)) throw error
    die(machine, random)
  } finally {
    machine.onRead = undefined
  }
}

function checkNewest(machine: Machine, random: Random): void {
  const held = machine.lease(
    READERS[random(READERS.length)]!,
    random(3) ? 'flashblocks' : 'standard',
  )
  try {
    checkSample(machine, held, random)
  } finally {
    held.leased.release()
  }
}

/** Now and then inside a step. */
function checkBetween(machine: Machine, random: Random): void {
  const held = machine.held[random(machine.held.length * 6 + 2)]
  if (held !== undefined) checkSample(machine, held, random)
}

/** After some more reads the keeper goes on, and the writer takes what it answers. */
function othersAtWork(machine: Machine, random: Random): () => void {
  let left = random(24)
  return () => {
    if (left-- > 0) return
    left = random(12)
    machine.counts.add('work between two reads')
    for (let turns = random(3); turns >= 0; turns--)
      if (random(5) === 0) machine.answerTurn()
      else machine.keeperTurn(random(4) === 0)
  }
}

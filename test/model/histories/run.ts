/** Runs one history from its first step to its last, with checks after each step. */
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
  runLeading,
  seal,
} from './drive.ts'
import { checkInvariants } from './invariants.ts'
import { FRONT, FRONT_OF, Machine, READERS, WORKERS } from './machine.ts'
import type { History, Step } from './steps.ts'

const MAX_PINNED = 6

/**
 * `check`: 'some' asks each view a few questions after each step. 'all' asks every possible
 * question after each step, but then no other thread works between two reads.
 * @throws {Error} at the first step after which something is wrong, with its number in the message.
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
  for (const pinned of machine.pinned) checkAll(machine, pinned, random)
  for (const endpoint of ['flashblocks', 'standard'] as const) {
    const pinned = machine.lease(FRONT, endpoint)
    checkAll(machine, pinned, random)
    pinned.leased.release()
  }
}

function randomOf(seed: number): Random {
  const random = mulberry32(seed)
  return (below) => Math.floor(random() * below)
}

/** Runs a step. A process that dies in the middle of its work is restarted. */
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
  const { raised, responded } = machine.unwinds
  machine.counts.add('died')
  if (raised > responded) machine.counts.add('died in an unwind')
  else if (machine.isPersisting()) machine.counts.add('died in a persist pass')
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
      return runLeading(machine, count, { random, between })
    case 'canonical':
      return canonical(machine, count)
    case 'grow':
      return produce(machine, count, { random, between })
    case 'replace':
      return void (await branch(machine, 0, random))
    case 'reorg':
      return void (await branch(machine, count, random))
    case 'persistence':
      for (let n = 0; n < count && machine.persistenceTurn(random(4) === 0); n++) between()
      return
    case 'answers':
      for (let n = 0; n < count && machine.responseTurn(); n++) await machine.decide()
      return
    case 'settle':
      return machine.settle(undefined, between)
    case 'lease':
      return lease(machine, random)
    case 'adopt':
      return adopt(machine, random)
    case 'release':
      for (const { leased } of machine.pinned.splice(random(machine.pinned.length + 1), 1))
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
  if (machine.pinned.length >= MAX_PINNED) return
  const thread = READERS[random(READERS.length)]!
  const pinned = machine.lease(thread, random(3) === 0 ? 'standard' : 'flashblocks')
  machine.pinned.push(pinned)
  machine.counts.add('lease')
}

/**
 * Offers a snapshot to a worker. The worker must get one that its front holds; any other one may be
 * gone.
 */
function adopt(machine: Machine, random: Random): void {
  const { pinned, readers, counts, arena } = machine
  if (pinned.length >= MAX_PINNED) return
  const newest = readers[FRONT]!.newestSnapshot()
  const thread = WORKERS[random(WORKERS.length)]!
  const covered = pinned.filter((each) => each.thread === FRONT_OF[thread])
  const snapshot =
    covered.length > 0 && random(3) > 0
      ? covered[random(covered.length)]!.leased.snapshot
      : Math.max(1, newest - random(20))
  const leased = readers[thread]!.adopt(snapshot, 'flashblocks')
  const isCovered = covered.some((each) => each.leased.snapshot <= snapshot)
  if (leased !== undefined) {
    pinned.push({
      leased,
      endpoint: 'flashblocks',
      visible: machine.visible.get(snapshot)!,
      thread,
    })
    counts.add(isCovered ? 'adopted under a lease of the front' : 'adopted')
    return
  }
  const floor = Atomics.load(arena.words, FLOOR)
  const isOwn = pinned.some((each) => each.thread === thread && each.leased.snapshot <= snapshot)
  if (isCovered || isOwn || floor <= snapshot)
    throw new Mismatch(`snapshot ${snapshot} was refused, the floor is ${floor}`)
  counts.add('adoption refused')
}

/** Ends a thread: first its leases go, then its row is cleared. */
function endThread(machine: Machine, thread: number): void {
  machine.pinned = machine.pinned.filter((each) => each.thread !== thread)
  clearThread(machine.views, thread)
  machine.readers[thread] = machine.openReader(thread)
  machine.counts.add('thread ended')
}

/** The pool stops the readers that the writer names when pages run out. */
function releaseCancelled(machine: Machine): void {
  if (machine.cancelled === 0) return
  for (const pinned of machine.pinned)
    if (pinned.leased.snapshot <= machine.cancelled) {
      pinned.leased.release()
      machine.counts.add('lease cancelled')
    }
  machine.pinned = machine.pinned.filter((each) => each.leased.snapshot > machine.cancelled)
  machine.cancelled = 0
}

/**
 * Starts another process over the same data. Its canonical block is the visible one or the
 * submitted one.
 */
function restart(machine: Machine, random: Random): void {
  const { directory } = machine
  machine.onRead = undefined
  directory.fuse = random(3) === 0 ? random(3) : undefined
  const { canonical: visible } = machine.newest
  const { submitted } = machine.state
  const next = submitted === undefined ? undefined : machine.nodeOf(submitted)
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
  if (canonical !== visible && canonical !== next)
    throw new Mismatch(`block ${visible.number} was canonical, after the start ${canonical.number}`)
  if (pending !== canonical) throw new Mismatch('the first snapshot shows more than is durable')
  if (machine.persistence.opened.dropped.length > 0) throw new Mismatch('the start dropped a block')
}

/**
 * After each step, checks the invariants, the newest view and every lease. For some leases other
 * threads work between the reads.
 */
function checkNow(machine: Machine, random: Random): void {
  try {
    checkInvariants(machine)
    machine.counts.add('invariants')
    for (const pinned of machine.pinned) {
      if (random(2) === 0) machine.onRead = othersAtWork(machine, random)
      checkSample(machine, pinned, random)
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
  const pinned = machine.lease(
    READERS[random(READERS.length)]!,
    random(3) ? 'flashblocks' : 'standard',
  )
  try {
    checkSample(machine, pinned, random)
  } finally {
    pinned.leased.release()
  }
}

/** Checks a view now and then in the middle of a step. */
function checkBetween(machine: Machine, random: Random): void {
  const pinned = machine.pinned[random(machine.pinned.length * 6 + 2)]
  if (pinned !== undefined) checkSample(machine, pinned, random)
}

/** Between some reads the persistence thread works, or the writer takes a response. */
function othersAtWork(machine: Machine, random: Random): () => void {
  let left = random(24)
  return () => {
    if (left-- > 0) return
    left = random(12)
    machine.counts.add('work between two reads')
    for (let turns = random(3); turns >= 0; turns--)
      if (random(5) === 0) machine.responseTurn()
      else machine.persistenceTurn(random(4) === 0)
  }
}

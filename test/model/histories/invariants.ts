/**
 * Invariants between any two steps: the heads are on one chain, every canonical block is durable,
 * and each page has one owner.
 */
import { equalBytes } from '../../../engine/primitives/words.ts'
import { OLDEST } from '../../../engine/views/arena.ts'
import { type Position, readSnapshot } from '../../../engine/views/chain-snapshot.ts'
import { parentHeightOf, parentOf } from '../../../engine/views/diff-layer.ts'
import { Mismatch } from './check.ts'
import { GENESIS, type Machine, undoWindowOf } from './machine.ts'
import { isAncestor } from './truth.ts'

export function checkInvariants(machine: Machine): void {
  checkHeads(machine)
  checkDurable(machine)
  checkPages(machine)
}

/** The snapshot itself must say base ≤ canonical ≤ complete ≤ pending along one chain. */
function checkHeads({ arena, readers, truth }: Machine): void {
  const snapshot = readSnapshot(arena, readers[0]!.newestSnapshot())
  const { base, canonical, complete, pending } = snapshot
  const line = [base, canonical, complete, pending]
  for (const [at, head] of line.entries()) {
    const below = line[at - 1]
    if (below === undefined) continue
    if (below.height > head.height || !isAncestor(truth.byId(below.id), truth.byId(head.id)))
      throw new Mismatch(`snapshot ${snapshot.number}: head ${at} does not stand on the one below`)
  }
}

/**
 * The canonical block is durable, the persisted blocks are on the durable chain, and the horizon is
 * within its limit.
 */
function checkDurable(machine: Machine): void {
  const { store, truth, unwinds, state, setup, arena } = machine
  const durable = truth.byHash(store.durableHead().hash)
  const { canonical } = machine.newest
  const submitted = state.submitted && truth.find(state.submitted.handle.id)
  if (durable !== canonical && durable !== submitted)
    throw new Mismatch(`block ${durable.number} is durable, ${canonical.number} is canonical`)
  const persisted = truth.byHash(store.persistedHead().hash)
  // During an unwind the persisted head is on the branch that the chain leaves.
  if (unwinds.raised === unwinds.responded && !isAncestor(persisted, durable))
    throw new Mismatch(`block ${persisted.number} is persisted, ${durable.number} is durable`)
  const hash = store.hashOfNumber(persisted.number)
  if (hash === undefined || !equalBytes(hash, persisted.final!.hash))
    throw new Mismatch(`number ${persisted.number} of the persisted head has another hash`)
  machine.highestPersisted = Math.max(machine.highestPersisted, persisted.number)
  const { historyBlocks } = setup
  const retained = historyBlocks === undefined ? machine.highestPersisted : historyBlocks
  const lowest = Math.max(
    GENESIS,
    machine.highestPersisted - Math.max(retained, undoWindowOf(setup)),
  )
  const oldest = Atomics.load(arena.words, OLDEST)
  if (oldest < GENESIS || oldest > lowest || oldest < store.oldestState())
    throw new Mismatch(`oldest state is ${oldest}, expected at most ${lowest}`)
}

/**
 * In the newest snapshot and in every leased one, each reachable page belongs to one diff layer.
 */
function checkPages(machine: Machine): void {
  const { arena, pinned, readers } = machine
  const { pages, freePages, ownedPages, pinnedPages } = machine.publisher.stats()
  if (freePages + ownedPages + pinnedPages !== pages)
    throw new Mismatch(
      `${freePages} free, ${ownedPages} owned, ${pinnedPages} held pages of ${pages}`,
    )
  const owners = new Map<number, number>()
  const snapshots = new Set([
    readers[0]!.newestSnapshot(),
    ...pinned.map((each) => each.leased.snapshot),
  ])
  for (const number of snapshots) {
    const { base, canonical, complete, pending } = readSnapshot(arena, number)
    for (const head of [canonical, complete, pending])
      for (const diffLayer of diffLayersOf(machine, head, base.height))
        ownPages(machine, owners, diffLayer)
  }
  if (owners.size > ownedPages + pinnedPages)
    throw new Mismatch(`${owners.size} pages are reached, ${ownedPages + pinnedPages} are in use`)
}

function* diffLayersOf({ arena }: Machine, head: Position, base: number): Generator<number> {
  if (head.diffLayer !== 0) yield head.diffLayer
  let { diffLayer, height } = head
  while (height > base) {
    height = parentHeightOf(arena, diffLayer)
    diffLayer = parentOf(arena, diffLayer)
    if (height > base) yield diffLayer
  }
}

function ownPages({ arena }: Machine, owners: Map<number, number>, diffLayer: number): void {
  for (let page = diffLayer; page !== 0; page = arena.words[page]!) {
    const owner = owners.get(page)
    if (owner === diffLayer) return
    if (owner !== undefined) throw new Mismatch(`page ${page} belongs to ${owner} and ${diffLayer}`)
    owners.set(page, diffLayer)
  }
}

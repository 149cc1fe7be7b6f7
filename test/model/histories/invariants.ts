/** What must hold between any two steps, whoever reads: heads on one chain, nothing shown that is not durable, one owner for each page. */
import { equalBytes } from '../../../engine/primitives/words.ts'
import { OLDEST } from '../../../engine/views/arena.ts'
import { type Position, readRecord } from '../../../engine/views/record.ts'
import { parentHeightOf, parentOf } from '../../../engine/views/table.ts'
import { Mismatch } from './check.ts'
import { GENESIS, type Machine, undoWindowOf } from './machine.ts'
import { isAncestor } from './truth.ts'

export function checkInvariants(machine: Machine): void {
  checkHeads(machine)
  checkDurable(machine)
  checkPages(machine)
}

/** base ≤ canonical ≤ complete ≤ pending along one chain, as the record itself says. */
function checkHeads({ arena, readers, truth }: Machine): void {
  const record = readRecord(arena, readers[0]!.newestRecord())
  const { base, canonical, complete, pending } = record
  const line = [base, canonical, complete, pending]
  for (const [at, head] of line.entries()) {
    const below = line[at - 1]
    if (below === undefined) continue
    if (below.height > head.height || !isAncestor(truth.byId(below.id), truth.byId(head.id)))
      throw new Mismatch(`record ${record.number}: head ${at} does not stand on the one below`)
  }
}

/** What is canonical is durable; folded blocks are, too, and the horizon is no higher than it was asked to be. */
function checkDurable(machine: Machine): void {
  const { store, truth, unfolds, state, setup, arena } = machine
  const durable = truth.byHash(store.durableHead().hash)
  const { canonical } = machine.newest
  const handed = state.handed && truth.find(state.handed.handle.id)
  if (durable !== canonical && durable !== handed)
    throw new Mismatch(`block ${durable.number} is durable, ${canonical.number} is canonical`)
  const folded = truth.byHash(store.foldHead().hash)
  // While an unfold goes on the fold head is on the branch that is left.
  if (unfolds.raised === unfolds.answered && !isAncestor(folded, durable))
    throw new Mismatch(`block ${folded.number} is folded, ${durable.number} is durable`)
  const hash = store.hashOfNumber(folded.number)
  if (hash === undefined || !equalBytes(hash, folded.final!.hash))
    throw new Mismatch(`number ${folded.number} of the fold head has another hash`)
  machine.highestFolded = Math.max(machine.highestFolded, folded.number)
  const { historyBlocks } = setup
  const kept = historyBlocks === undefined ? machine.highestFolded : historyBlocks
  const lowest = Math.max(GENESIS, machine.highestFolded - Math.max(kept, undoWindowOf(setup)))
  const oldest = Atomics.load(arena.words, OLDEST)
  if (oldest < GENESIS || oldest > lowest || oldest < store.oldestState())
    throw new Mismatch(`oldest state is ${oldest}, expected at most ${lowest}`)
}

/** Of the newest record and of every leased one: each page that a walk can reach belongs to one table. */
function checkPages(machine: Machine): void {
  const { arena, held, readers } = machine
  const { pages, freePages, ownedPages, heldPages } = machine.publisher.stats()
  if (freePages + ownedPages + heldPages !== pages)
    throw new Mismatch(
      `${freePages} free, ${ownedPages} owned, ${heldPages} held pages of ${pages}`,
    )
  const owners = new Map<number, number>()
  const records = new Set([readers[0]!.newestRecord(), ...held.map((each) => each.leased.record)])
  for (const number of records) {
    const { base, canonical, complete, pending } = readRecord(arena, number)
    for (const head of [canonical, complete, pending])
      for (const table of tablesOf(machine, head, base.height)) ownPages(machine, owners, table)
  }
  if (owners.size > ownedPages + heldPages)
    throw new Mismatch(`${owners.size} pages are reached, ${ownedPages + heldPages} are in use`)
}

function* tablesOf({ arena }: Machine, head: Position, base: number): Generator<number> {
  if (head.table !== 0) yield head.table
  let { table, height } = head
  while (height > base) {
    height = parentHeightOf(arena, table)
    table = parentOf(arena, table)
    if (height > base) yield table
  }
}

function ownPages({ arena }: Machine, owners: Map<number, number>, table: number): void {
  for (let page = table; page !== 0; page = arena.words[page]!) {
    const owner = owners.get(page)
    if (owner === table) return
    if (owner !== undefined) throw new Mismatch(`page ${page} belongs to ${owner} and ${table}`)
    owners.set(page, table)
  }
}

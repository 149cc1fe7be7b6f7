/** Tables, records and pages as engine/views/{build,publisher,pages,record}.ts have them. */
import { assertShown } from '../../../engine/chain/life.ts'
import { Fault, type Step } from '../explore.ts'
import { allowed } from './allowed.ts'
import type { HeadName, Key } from './scenario.ts'
import {
  type Block,
  type Position,
  type State,
  type Table,
  TORN,
  type World,
  type Writer,
} from './state.ts'

/** PublisherState.begin and Builder.cursorOf: a page is there (pages.take). */
export function openTable(world: World, state: State, id: number): State {
  const { tables, writer } = state
  const block = writer.blocks[id]!
  const own = block.tables.at(-1)
  const parent = writer.blocks[block.parent]
  const below = parent?.tables.at(-1) ?? 0
  const link = own ?? (world.rules.linkParent ? below : 0)
  const table: Table = {
    id,
    block: block.block,
    height: block.number,
    parent: link,
    parentHeight: own === undefined ? block.number - 1 : block.number,
    entries: {},
  }
  const opened = { ...block, tables: [...block.tables, tables.length] }
  return {
    ...state,
    tables: [...tables, table],
    writer: { ...writer, blocks: { ...writer.blocks, [id]: opened } },
  }
}

/** putEntry of engine/views/table.ts: the entry, then its index word. Off: its index word leads to what is not written. */
export function put(
  state: State,
  at: { readonly table: number; readonly key: Key; readonly tag: number; readonly value: string },
): State {
  const { table, key, tag, value } = at
  const written = state.tables[table]
  if (written === null || written === undefined)
    throw new Fault(`the writer writes into table ${table}, whose page is recycled`)
  const older = (written.entries[key] ?? []).filter(([, text]) => text !== TORN)
  const entries = { ...written.entries, [key]: [[tag, value] as const, ...older] }
  return { ...state, tables: state.tables.with(table, { ...written, entries }) }
}

/** PublisherState.publish: record, head word, then what later records do not reach. */
export function publish(world: World, state: State): State {
  const { rules, scenario } = world
  const { writer, words } = state
  checkHeads(world, writer)
  const number = words.head + 1
  const base = baseOf(world, state)
  const block = writer.blocks[base]!
  const record = {
    base: { id: base, height: block.number, block: block.block },
    unfolds: rules.unfoldFromAck ? writer.unfolds : words.unfolds,
    canonical: positionOf(world, state, writer.canonical),
    complete: positionOf(world, state, writer.complete),
    pending: positionOf(world, state, writer.pending),
  }
  const { [number - scenario.ring]: _, ...records } = state.records
  const published = {
    ...state,
    records: { ...records, [number]: record },
    words: { ...words, head: number },
  }
  return forgetRecords(retire(world, published, number))
}

/** Whether record `head + 1` may take its place in the ring (publishRecord). */
export function hasRoomInRing({ rules, scenario }: World, { words, writer }: State): boolean {
  const overwritten = words.head + 1 - scenario.ring
  return overwritten < 1 || overwritten < (rules.ringBound ? writer.bound : words.floor)
}

/** Each head stands on the one below it, and is what life.ts lets it be. */
function checkHeads({ truth }: World, { base, canonical, complete, pending, blocks }: Writer) {
  const heads = { canonical, complete, pending }
  let below = blocks[base]
  for (const head of ['canonical', 'complete', 'pending'] as const) {
    const block = blocks[heads[head]]
    if (below === undefined || block === undefined)
      throw new Fault('a head is a block that is not held')
    if (!truth.isAncestor(below.block, block.block))
      throw new Fault(`a head at ${block.block} does not stand on the one at ${below.block}`)
    allowed(() => assertShown(head, block.state))
    below = block
  }
}

/** Off: whatever the fold word names, as soon as it does. */
function baseOf({ rules }: World, { writer, words }: State): number {
  const { base, blocks, canonical } = writer
  if (rules.baseFromAnswer) return base
  const named = blocks[words.fold]
  return named !== undefined && lineOf(writer, canonical).includes(words.fold) ? words.fold : base
}

function positionOf({ rules }: World, { writer, tables }: State, id: number): Position {
  const { block, number, tag, tables: own } = writer.blocks[id]!
  const table = own.at(-1) ?? 0
  if (table !== 0 && (tables[table] ?? null) === null && (rules.headIsBase || id !== writer.base))
    throw new Fault(`a record names the table of ${block}, whose page is recycled`)
  return { id, height: number, table, tag, block }
}

/** A block and those below it that are not folded, or the folded one at the end. */
export function lineOf({ blocks }: Writer, id: number): readonly number[] {
  const line: number[] = []
  for (let at = id; blocks[at] !== undefined; at = blocks[at]!.parent) line.push(at)
  return line
}

/** PublisherState.#retire. */
function retire({ rules }: World, state: State, number: number): State {
  const { writer } = state
  const base = state.records[number]!.base.id
  const heads = (['canonical', 'complete', 'pending'] satisfies HeadName[]).map((h) => writer[h])
  const live = new Set<number>()
  const reach = (from: number) => {
    for (const id of lineOf(writer, from)) {
      if (id === base || writer.blocks[id]!.state === 'folded') break
      live.add(id)
    }
  }
  for (const head of heads) {
    reach(head)
    if (rules.headIsBase) live.add(head)
  }
  const kept = [rules.handed ? writer.handed : 0, writer.whole, writer.job?.id ?? 0]
  for (const id of kept) if (writer.blocks[id] !== undefined) reach(id)
  const blocks: Record<number, Block> = {}
  const retired = [...writer.retired]
  for (const [name, block] of Object.entries(writer.blocks)) {
    const id = Number(name)
    if (live.has(id)) {
      blocks[id] = block
      continue
    }
    for (const table of block.tables) retired.push({ table, record: number })
    if (block.state !== 'dropped') blocks[id] = { ...block, tables: [] }
  }
  return { ...state, writer: { ...writer, blocks, retired } }
}

export const freePages = ({ scenario }: World, { tables }: State): number =>
  scenario.pages - tables.filter((table) => table !== null).length

/** Whether a look at the rows would free a page now: without this the model would look for ever. */
export function isWorthLooking({ writer, words }: State): boolean {
  const rows = words.rows.filter((row) => row !== 0).map(Math.abs)
  const oldest = Math.min(words.head, ...rows)
  return writer.retired.some(({ record }) => record <= oldest)
}

export const beginRecycle = (state: State): State => ({
  ...state,
  writer: { ...state.writer, recycle: { at: 0, oldest: state.words.head } },
})

/** Pages.recycle: all rows, the floor, all rows again, the pages. A row is one load. */
export function recycleStep({ rules }: World, state: State): Step<State> {
  const { writer, words } = state
  const { at, oldest } = writer.recycle!
  const count = words.rows.length
  const next = (change: Partial<Writer>, more: Partial<State> = {}): State => ({
    ...state,
    ...more,
    writer: { ...writer, ...change },
  })
  const look = (row: number): Step<State> => ({
    label: `writer reads row ${row}`,
    run: () => {
      const seen = Math.abs(words.rows[row]!)
      const least = seen === 0 ? oldest : Math.min(oldest, seen)
      return next({ recycle: { at: at + 1, oldest: least } })
    },
  })
  if (at < count) return look(at)
  if (at === count)
    return {
      label: 'writer raises the floor',
      run: () => {
        const floor = Math.max(words.floor, oldest)
        const step = rules.rescan ? at + 1 : 2 * count + 1
        return next({ recycle: { at: step, oldest } }, { words: { ...words, floor } })
      },
    }
  const second = at - count - 1
  if (second < count) return look(rules.frontFirst ? second : count - 1 - second)
  return {
    label: 'writer recycles pages',
    run: () => {
      const gone = new Set(
        writer.retired.filter(({ record }) => record <= oldest).map(({ table }) => table),
      )
      return next(
        {
          recycle: null,
          bound: Math.max(writer.bound, oldest),
          retired: writer.retired.filter(({ table }) => !gone.has(table)),
        },
        { tables: state.tables.map((table, number) => (gone.has(number) ? null : table)) },
      )
    },
  }
}

/** Records that nobody can ask for any more are the same to everybody. */
export function forgetRecords(state: State): State {
  const { front, worker, secondFront, secondWorker, words, task, secondTask } = state
  const wanted = new Set([words.head, task?.record ?? 0, secondTask?.record ?? 0])
  for (const { number, leases } of [front, worker, secondFront, secondWorker])
    for (const n of [number, ...leases]) wanted.add(n)
  const kept = Object.entries(state.records).filter(([number]) => wanted.has(Number(number)))
  if (kept.length === Object.keys(state.records).length) return state
  return { ...state, records: Object.fromEntries(kept) }
}

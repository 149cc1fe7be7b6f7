/** Diff layers, snapshots and pages, as in engine/views. */
import { assertAllowedAs } from '../../../engine/chain/block-state.ts'
import { Fault, type Step } from '../explore.ts'
import { allowed } from './allowed.ts'
import {
  type Block,
  type DiffLayer,
  type Position,
  type State,
  TORN,
  type World,
  type Writer,
} from './model-state.ts'
import type { HeadName, Key } from './scenario.ts'

/**
 * Models PublisherState.start and Builder.#cursorOf. The caller has checked that a page is free.
 */
export function openDiffLayer(world: World, state: State, id: number): State {
  const { diffLayers, writer } = state
  const block = writer.blocks[id]!
  const own = block.diffLayers.at(-1)
  const parent = writer.blocks[block.parent]
  const below = parent?.diffLayers.at(-1) ?? 0
  const link = own ?? (world.rules.linkParent ? below : 0)
  const diffLayer: DiffLayer = {
    id,
    block: block.block,
    height: block.number,
    parent: link,
    parentHeight: own === undefined ? block.number - 1 : block.number,
    entries: {},
  }
  const opened = { ...block, diffLayers: [...block.diffLayers, diffLayers.length] }
  return {
    ...state,
    diffLayers: [...diffLayers, diffLayer],
    writer: { ...writer, blocks: { ...writer.blocks, [id]: opened } },
  }
}

/**
 * Models putEntry of engine/views/diff-layer.ts: the entry, then its index word. With the rule off,
 * the index word comes first and leads to an unwritten entry.
 */
export function put(
  state: State,
  at: {
    readonly diffLayer: number
    readonly key: Key
    readonly tag: number
    readonly value: string
  },
): State {
  const { diffLayer, key, tag, value } = at
  const written = state.diffLayers[diffLayer]
  if (written === null || written === undefined)
    throw new Fault(`the writer writes into diff layer ${diffLayer}, whose page is recycled`)
  const older = (written.entries[key] ?? []).filter(([, text]) => text !== TORN)
  const entries = { ...written.entries, [key]: [[tag, value] as const, ...older] }
  return { ...state, diffLayers: state.diffLayers.with(diffLayer, { ...written, entries }) }
}

/**
 * Models PublisherState.publish: the snapshot, the head word, then the diff layers that later
 * snapshots do not reach.
 */
export function publish(world: World, state: State): State {
  const { rules, scenario } = world
  const { writer, words } = state
  checkHeads(world, writer)
  const number = words.head + 1
  const base = baseOf(world, state)
  const block = writer.blocks[base]!
  const snapshot = {
    base: { id: base, height: block.number, block: block.block },
    unwinds: rules.unwindFromAck ? writer.unwinds : words.unwinds,
    canonical: positionOf(world, state, writer.canonical),
    complete: positionOf(world, state, writer.complete),
    pending: positionOf(world, state, writer.pending),
  }
  const { [number - scenario.ring]: _, ...snapshots } = state.snapshots
  const published = {
    ...state,
    snapshots: { ...snapshots, [number]: snapshot },
    words: { ...words, head: number },
  }
  return forgetSnapshots(retire(world, published, number))
}

/**
 * Returns whether snapshot `head + 1` may overwrite the oldest one in the ring (publishSnapshot).
 */
export function hasCapacityInRing({ rules, scenario }: World, { words, writer }: State): boolean {
  const overwritten = words.head + 1 - scenario.ring
  return overwritten < 1 || overwritten < (rules.ringBound ? writer.bound : words.floor)
}

/** Each head stands on the one below it, in a state that block-state.ts allows for it. */
function checkHeads({ truth }: World, { base, canonical, complete, pending, blocks }: Writer) {
  const heads = { canonical, complete, pending }
  let below = blocks[base]
  for (const head of ['canonical', 'complete', 'pending'] as const) {
    const block = blocks[heads[head]]
    if (below === undefined || block === undefined)
      throw new Fault('a head is a block that is not held')
    if (!truth.isAncestor(below.block, block.block))
      throw new Fault(`a head at ${block.block} does not stand on the one at ${below.block}`)
    allowed(() => assertAllowedAs(head, block.state))
    below = block
  }
}

/**
 * With the rule off, the base is the block in the persisted-id word, from the moment of that store.
 */
function baseOf({ rules }: World, { writer, words }: State): number {
  const { base, blocks, canonical } = writer
  if (rules.baseFromResponse) return base
  const named = blocks[words.persistedId]
  return named !== undefined && lineOf(writer, canonical).includes(words.persistedId)
    ? words.persistedId
    : base
}

function positionOf({ rules }: World, { writer, diffLayers }: State, id: number): Position {
  const { block, number, tag, diffLayers: own } = writer.blocks[id]!
  const diffLayer = own.at(-1) ?? 0
  if (
    diffLayer !== 0 &&
    (diffLayers[diffLayer] ?? null) === null &&
    (rules.headIsBase || id !== writer.base)
  )
    throw new Fault(`a snapshot names the diff layer of ${block}, whose page is recycled`)
  return { id, height: number, diffLayer, tag, block }
}

/** Lists a block and its ancestors down to the persisted one. */
export function lineOf({ blocks }: Writer, id: number): readonly number[] {
  const line: number[] = []
  for (let at = id; blocks[at] !== undefined; at = blocks[at]!.parent) line.push(at)
  return line
}

/** Models PublisherState.#retire. */
function retire({ rules }: World, state: State, number: number): State {
  const { writer } = state
  const base = state.snapshots[number]!.base.id
  const heads = (['canonical', 'complete', 'pending'] satisfies HeadName[]).map((h) => writer[h])
  const live = new Set<number>()
  const reach = (from: number) => {
    for (const id of lineOf(writer, from)) {
      if (id === base || writer.blocks[id]!.state === 'persisted') break
      live.add(id)
    }
  }
  for (const head of heads) {
    reach(head)
    if (rules.headIsBase) live.add(head)
  }
  const retained = [rules.submitted ? writer.submitted : 0, writer.fullBlock, writer.job?.id ?? 0]
  for (const id of retained) if (writer.blocks[id] !== undefined) reach(id)
  const blocks: Record<number, Block> = {}
  const retired = [...writer.retired]
  for (const [name, block] of Object.entries(writer.blocks)) {
    const id = Number(name)
    if (live.has(id)) {
      blocks[id] = block
      continue
    }
    for (const diffLayer of block.diffLayers) retired.push({ diffLayer, snapshot: number })
    if (block.state !== 'dropped') blocks[id] = { ...block, diffLayers: [] }
  }
  return { ...state, writer: { ...writer, blocks, retired } }
}

export const freePages = ({ scenario }: World, { diffLayers }: State): number =>
  scenario.pages - diffLayers.filter((diffLayer) => diffLayer !== null).length

/**
 * Returns whether a read of the rows would free a page now. Without this the model would read them
 * for ever.
 */
export function isWorthLooking({ writer, words }: State): boolean {
  const rows = words.rows.filter((row) => row !== 0).map(Math.abs)
  const oldest = Math.min(words.head, ...rows)
  return writer.retired.some(({ snapshot }) => snapshot <= oldest)
}

export const startRecycle = (state: State): State => ({
  ...state,
  writer: { ...state.writer, recycle: { at: 0, oldest: state.words.head } },
})

/** Models Pages.recycle: all rows, the floor, all rows again, the pages. A row is one load. */
export function recycleStep({ rules }: World, state: State): Step<State> {
  const { writer, words } = state
  const { at, oldest } = writer.recycle!
  const count = words.rows.length
  const next = (change: Partial<Writer>, more: Partial<State> = {}): State => ({
    ...state,
    ...more,
    writer: { ...writer, ...change },
  })
  const readHead = (row: number): Step<State> => ({
    label: `writer reads row ${row}`,
    run: () => {
      const seen = Math.abs(words.rows[row]!)
      const min = seen === 0 ? oldest : Math.min(oldest, seen)
      return next({ recycle: { at: at + 1, oldest: min } })
    },
  })
  if (at < count) return readHead(at)
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
  if (second < count) return readHead(rules.frontFirst ? second : count - 1 - second)
  return {
    label: 'writer recycles pages',
    run: () => {
      const gone = new Set(
        writer.retired
          .filter(({ snapshot }) => snapshot <= oldest)
          .map(({ diffLayer }) => diffLayer),
      )
      return next(
        {
          recycle: null,
          bound: Math.max(writer.bound, oldest),
          retired: writer.retired.filter(({ diffLayer }) => !gone.has(diffLayer)),
        },
        {
          diffLayers: state.diffLayers.map((diffLayer, number) =>
            gone.has(number) ? null : diffLayer,
          ),
        },
      )
    },
  }
}

/** Snapshots that no thread can request any more must not make two states differ. */
export function forgetSnapshots(state: State): State {
  const { front, worker, secondFront, secondWorker, words, task, secondTask } = state
  const wanted = new Set([words.head, task?.snapshot ?? 0, secondTask?.snapshot ?? 0])
  for (const { number, leases } of [front, worker, secondFront, secondWorker])
    for (const n of [number, ...leases]) wanted.add(n)
  const retained = Object.entries(state.snapshots).filter(([number]) => wanted.has(Number(number)))
  if (retained.length === Object.keys(state.snapshots).length) return state
  return { ...state, snapshots: Object.fromEntries(retained) }
}

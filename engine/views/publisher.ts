/** The writer's side of the shared views: tables, records, and which tables later records no longer reach (ADR 3). */
import type { Bytes } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { equalBytes } from '../primitives/words.ts'
import { type Arena, FOLD, HEAD, openArena, RECORDS, SHOWN, UNFOLDS } from './arena.ts'
import { type Build, Builder } from './build.ts'
import { openPages } from './pages.ts'
import { type Position, publishRecord, type ViewRecord } from './record.ts'
import { type Behind, Showing } from './showing.ts'
import { FINAL } from './table.ts'
import type { BlockHandle, Publisher, SharedViews } from './types.ts'
import { indexOf } from './walk.ts'
import { WHOLE_INDEX } from './whole-index.ts'

/**
 * Opens the writer's side of a fresh arena. `base`: the fold head; it gets the first block id, and the fold word names it. Nothing can
 * be read before the first publish. `behind`: clients are shown records later; left out: at once.
 * @throws {Error} when the arena has a writer already.
 */
export function openPublisher(
  shared: SharedViews,
  base: { readonly number: number; readonly hash: Bytes },
  behind?: Behind,
): Publisher {
  const arena = openArena(shared)
  if (Atomics.load(arena.words, FOLD) !== 0) throw new Error('views: this arena has a writer')
  const state = new PublisherState(arena, base, behind)
  return {
    get base() {
      return state.base
    },
    showing: state.showing,
    stored: (block) => state.stored(block),
    begin: (parent, payloadId) => state.begin(parent, payloadId),
    add: (block, increment) => state.builder.add(state.find(block), increment),
    finish: (block, header, hash) => state.builder.finish(state.find(block), header, hash),
    settle: (block, header) => state.builder.settle(state.find(block), header),
    drop: (block) => state.drop(block),
    publish: (heads) => state.publish(heads),
    handOver: (block) => {
      state.find(block).isHanded = true
    },
    answered: (block) => {
      const build = state.find(block)
      build.isHanded = false
      build.isAwaited = false
    },
    folded: (block) => state.folded(block),
    unfolded: (to) => state.unfolded(to),
    stats: () => ({
      pages: arena.pageCount,
      freePages: state.pages.freeCount(),
      heldPages: state.pages.heldCount(),
      ...state.tableStats(),
      records: Atomics.load(arena.words, HEAD),
      oldestLease: state.pages.oldestLease(),
    }),
  }
}

class PublisherState {
  readonly arena: Arena
  readonly pages: ReturnType<typeof openPages>
  readonly builder: Builder
  /** Blocks whose tables are not retired, and the base. */
  readonly builds = new Map<number, Build>()
  readonly showing: Showing | undefined
  base: Build
  /** Of the last record. */
  #last: { readonly pending: BlockHandle; readonly unfolds: number } | undefined
  #nextId = 1
  #unfolds: number

  constructor(
    arena: Arena,
    base: { readonly number: number; readonly hash: Bytes },
    behind: Behind | undefined,
  ) {
    this.arena = arena
    this.showing = behind && new Showing(behind, (record) => this.#show(record))
    this.pages = openPages(arena)
    this.builder = new Builder(arena, this.pages)
    this.#unfolds = Atomics.load(arena.words, UNFOLDS)
    this.base = baseBuild(this.#nextId++, base)
    this.builds.set(this.base.id, this.base)
    Atomics.store(arena.words, FOLD, this.base.id)
  }

  stored(block: { readonly number: number; readonly hash: Bytes }): Build {
    return baseBuild(this.#nextId++, block)
  }

  begin(parent: BlockHandle, payloadId: string | undefined): Build {
    // A folded parent needs no table, any other must have kept its own: a link left out would be a hole in the chain.
    const below = this.builds.get(parent.id) ?? (parent as Build)
    if (!below.isFolded) this.find(parent)
    if (below.tag !== FINAL)
      throw new Error(`views: block ${parent.number} is not finished, it cannot have a child`)
    const payload = payloadId === undefined ? undefined : hexToBytes(payloadId)
    if (payload !== undefined && payload.length !== 8)
      throw new RangeError(`views: payload id of ${payload.length} bytes, expected 8`)
    const build: Build = {
      ...baseBuild(this.#nextId++, { number: parent.number + 1, hash: undefined }),
      parent,
      payload,
      tag: -1,
      isAwaited: true,
      isFolded: false,
    }
    this.builds.set(build.id, build)
    return build
  }

  drop(block: BlockHandle): void {
    const build = this.builds.get(block.id)
    if (build !== undefined) build.isAwaited = false
  }

  /** @throws {Error} for a block whose tables are retired. */
  find(block: BlockHandle): Build {
    const build = this.builds.get(block.id)
    if (build === undefined)
      throw new Error(`views: block ${block.number} (id ${block.id}) is retired`)
    return build
  }

  publish(heads: Parameters<Publisher['publish']>[0]): number {
    const { arena, base } = this
    const canonical = this.find(heads.canonical)
    const complete = this.find(heads.complete)
    const pending = this.find(heads.pending)
    this.#checkChain([pending, complete, canonical, base])
    for (const whole of [canonical, complete])
      if (whole.tag !== FINAL) throw new Error(`views: block ${whole.number} is not finished`)
    if (pending.tag < 0) throw new Error(`views: block ${pending.number} has no increment`)
    const number = Atomics.load(arena.words, HEAD) + 1
    if (number - RECORDS >= this.pages.unreadBelow()) this.pages.recycle()
    const record = {
      number,
      base: { id: base.id, height: base.number, hash: base.hash! },
      unfolds: this.#unfolds,
      safe: heads.safe,
      finalized: heads.finalized,
      canonical: positionOf(canonical),
      complete: positionOf(complete),
      pending: positionOf(pending),
    }
    publishRecord(arena, record, this.pages.unreadBelow())
    this.#tellShown(record, pending)
    this.#retire(number, [canonical, complete, pending])
    return number
  }

  #show(record: number): void {
    Atomics.store(this.arena.words, SHOWN, record)
  }

  #tellShown({ number, pending: head, unfolds }: ViewRecord, pending: Build): void {
    if (this.showing === undefined) {
      this.#show(number)
      return
    }
    const before = this.#last
    this.#last = { pending, unfolds }
    const isContinued =
      before !== undefined && before.unfolds === unfolds && goesOnFrom(pending, before.pending)
    const index = pending.payload === undefined ? WHOLE_INDEX : indexOf(this.arena, head)
    this.showing.published(number, { height: head.height, index }, isContinued)
  }

  folded(block: BlockHandle): void {
    const build = this.find(block)
    if (build.tag !== FINAL) throw new Error(`views: folded block ${build.number} is not finished`)
    build.isFolded = true
    build.parent = undefined
    this.base = build
  }

  unfolded(to: Parameters<Publisher['unfolded']>[0]): BlockHandle {
    this.#unfolds = to.unfolds
    const known = this.builds.get(to.id)
    this.base = known?.isFolded === true ? known : baseBuild(to.id, to)
    this.builds.set(to.id, this.base)
    this.#nextId = Math.max(this.#nextId, to.id + 1)
    // A branch was begun on the folded block by the name it had then; the keeper may have given it another.
    for (const build of this.builds.values()) {
      const parent = build.parent as Build | undefined
      if (parent?.hash !== undefined && equalBytes(parent.hash, to.hash)) build.parent = this.base
    }
    return this.base
  }

  tableStats(): { readonly tables: number; readonly ownedPages: number } {
    let tables = 0
    let ownedPages = 0
    for (const { pages } of this.builds.values()) {
      if (pages.length > 0) tables++
      ownedPages += pages.length
    }
    return { tables, ownedPages }
  }

  /** Each block of the list descends from the next or is it. */
  #checkChain(blocks: readonly Build[]): void {
    let at: BlockHandle | undefined = blocks[0]
    for (const want of blocks) {
      while (at !== undefined && at.id !== want.id) at = at.parent
      if (at === undefined)
        throw new Error(`views: block ${want.number} is no ancestor of the heads above it`)
    }
  }

  /** Every table that record `number` and later ones cannot reach, and that nobody else needs. */
  #retire(number: number, heads: readonly Build[]): void {
    const live = new Set<number>([this.base.id])
    for (const head of heads) {
      // A head's own table is read even when it is the base: header, transactions, receipts.
      live.add(head.id)
      head.isAwaited = false
      for (let at: BlockHandle | undefined = head; at !== undefined; at = at.parent) {
        if (at.id === this.base.id) break
        live.add(at.id)
        const build = this.builds.get(at.id)
        if (build !== undefined) build.isAwaited = false
      }
    }
    for (const build of this.builds.values())
      if (build.isHanded || build.isAwaited) this.#mark(build, live)
    for (const build of this.builds.values()) {
      const isHead = heads.includes(build)
      if (live.has(build.id) && (build.id !== this.base.id || isHead)) continue
      if (build.pages.length > 0) this.pages.retire(build.pages.slice(), number)
      build.pages.length = 0
      build.cursor = undefined
      if (build.id !== this.base.id) this.builds.delete(build.id)
    }
  }

  #mark(build: Build, live: Set<number>): void {
    let at: BlockHandle | undefined = build
    while (at !== undefined && this.builds.get(at.id)?.isFolded === false) {
      live.add(at.id)
      at = at.parent
    }
  }
}

/** The block itself, which has only grown, or one that stands on it. */
function goesOnFrom(block: BlockHandle, before: BlockHandle): boolean {
  let at: BlockHandle | undefined = block
  while (at !== undefined && at.number > before.number) at = at.parent
  return at?.id === before.id
}

/** A block that only the store knows. */
const baseBuild = (
  id: number,
  base: { readonly number: number; readonly hash: Bytes | undefined },
): Build => ({
  id,
  number: base.number,
  parent: undefined,
  payload: undefined,
  pages: [],
  cursor: undefined,
  tag: FINAL,
  header: 0,
  transactions: 0,
  logs: 0,
  hash: base.hash,
  isHanded: false,
  isAwaited: false,
  isFolded: true,
})

const positionOf = (build: Build): Position => ({
  id: build.id,
  height: build.number,
  table: build.cursor?.table ?? 0,
  tag: build.tag,
  header: build.cursor === undefined ? 0 : build.header,
  transactions: build.transactions,
})

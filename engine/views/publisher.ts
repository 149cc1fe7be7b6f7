/**
 * The writer's side of the shared views: diff layers, snapshots, and the retirement of unreachable
 * diff layers (ADR 3).
 */
import type { Bytes } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { equalBytes } from '../primitives/words.ts'
import { type Arena, HEAD, openArena, PERSISTED_ID, SNAPSHOTS, UNWINDS, VISIBLE } from './arena.ts'
import { type Build, Builder } from './build.ts'
import { type ChainSnapshot, type Position, publishSnapshot } from './chain-snapshot.ts'
import { FINAL } from './diff-layer.ts'
import { openPages } from './pages.ts'
import { type BlockHandle, FULL_BLOCK_INDEX, type Publisher, type SharedViews } from './types.ts'
import { type FlashblockLag, Visibility } from './visibility.ts'
import { indexOf } from './walk.ts'

/**
 * Opens the writer's side of a fresh arena. Nothing can be read before the first publish.
 * @param base the persisted head; it gets the first block id, which is also stored as the persisted
 * id
 * @param lag delay before clients see a snapshot; without it, snapshots are visible at once
 * @throws {Error} when the arena has a writer already
 */
export function openPublisher(
  shared: SharedViews,
  base: { readonly number: number; readonly hash: Bytes },
  lag?: FlashblockLag,
): Publisher {
  const arena = openArena(shared)
  if (Atomics.load(arena.words, PERSISTED_ID) !== 0)
    throw new Error('views: this arena has a writer')
  const state = new PublisherState(arena, base, lag)
  return {
    get base() {
      return state.base
    },
    visibility: state.visibility,
    stored: (block) => state.stored(block),
    start: (parent, payloadId) => state.start(parent, payloadId),
    add: (block, increment) => state.builder.add(state.find(block), increment),
    finish: (block, header, hash) => state.builder.finish(state.find(block), header, hash),
    settle: (block, header) => state.builder.settle(state.find(block), header),
    drop: (block) => state.drop(block),
    publish: (heads) => state.publish(heads),
    submitForPersistence: (block) => {
      state.find(block).isSubmitted = true
    },
    onResponse: (block) => {
      const build = state.find(block)
      build.isSubmitted = false
      build.isAwaited = false
    },
    persisted: (block) => state.persisted(block),
    unwound: (to) => state.unwound(to),
    stats: () => ({
      pages: arena.pageCount,
      freePages: state.pages.freeCount(),
      pinnedPages: state.pages.pinnedCount(),
      ...state.diffLayerStats(),
      snapshots: Atomics.load(arena.words, HEAD),
      oldestLease: state.pages.oldestLease(),
    }),
  }
}

class PublisherState {
  readonly arena: Arena
  readonly pages: ReturnType<typeof openPages>
  readonly builder: Builder
  /** The base, and all blocks whose diff layers are not retired. */
  readonly builds = new Map<number, Build>()
  readonly visibility: Visibility | undefined
  base: Build
  /** Pending block and unwinds of the last snapshot. */
  #last: { readonly pending: BlockHandle; readonly unwinds: number } | undefined
  #nextId = 1
  #unwinds: number

  constructor(
    arena: Arena,
    base: { readonly number: number; readonly hash: Bytes },
    lag: FlashblockLag | undefined,
  ) {
    this.arena = arena
    this.visibility = lag && new Visibility(lag, (snapshot) => this.#display(snapshot))
    this.pages = openPages(arena)
    this.builder = new Builder(arena, this.pages)
    this.#unwinds = Atomics.load(arena.words, UNWINDS)
    this.base = baseBuild(this.#nextId++, base)
    this.builds.set(this.base.id, this.base)
    Atomics.store(arena.words, PERSISTED_ID, this.base.id)
  }

  stored(block: { readonly number: number; readonly hash: Bytes }): Build {
    return baseBuild(this.#nextId++, block)
  }

  start(parent: BlockHandle, payloadId: string | undefined): Build {
    /*
     * An unpersisted parent needs its diff layers, because a missing link would be a hole in the
     * chain.
     */
    const below = this.builds.get(parent.id) ?? (parent as Build)
    if (!below.isPersisted) this.find(parent)
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
      isPersisted: false,
    }
    this.builds.set(build.id, build)
    return build
  }

  drop(block: BlockHandle): void {
    const build = this.builds.get(block.id)
    if (build !== undefined) build.isAwaited = false
  }

  /** @throws {Error} for a block whose diff layers are retired */
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
    for (const finished of [canonical, complete])
      if (finished.tag !== FINAL) throw new Error(`views: block ${finished.number} is not finished`)
    if (pending.tag < 0) throw new Error(`views: block ${pending.number} has no increment`)
    const number = Atomics.load(arena.words, HEAD) + 1
    if (number - SNAPSHOTS >= this.pages.unreadBelow()) this.pages.recycle()
    const snapshot = {
      number,
      base: { id: base.id, height: base.number, hash: base.hash! },
      unwinds: this.#unwinds,
      safe: heads.safe,
      finalized: heads.finalized,
      canonical: positionOf(canonical),
      complete: positionOf(complete),
      pending: positionOf(pending),
    }
    publishSnapshot(arena, snapshot, this.pages.unreadBelow())
    this.#updateVisible(snapshot, pending)
    this.#retire(number, [canonical, complete, pending])
    return number
  }

  #display(snapshot: number): void {
    Atomics.store(this.arena.words, VISIBLE, snapshot)
  }

  #updateVisible({ number, pending: head, unwinds }: ChainSnapshot, pending: Build): void {
    if (this.visibility === undefined) {
      this.#display(number)
      return
    }
    const before = this.#last
    this.#last = { pending, unwinds }
    const isContinued =
      before !== undefined && before.unwinds === unwinds && goesOnFrom(pending, before.pending)
    const index = pending.payload === undefined ? FULL_BLOCK_INDEX : indexOf(this.arena, head)
    this.visibility.published(number, { height: head.height, index }, isContinued)
  }

  persisted(block: BlockHandle): void {
    const build = this.find(block)
    if (build.tag !== FINAL)
      throw new Error(`views: persisted block ${build.number} is not finished`)
    build.isPersisted = true
    build.parent = undefined
    this.base = build
  }

  unwound(to: Parameters<Publisher['unwound']>[0]): BlockHandle {
    this.#unwinds = to.unwinds
    const known = this.builds.get(to.id)
    this.base = known?.isPersisted === true ? known : baseBuild(to.id, to)
    this.builds.set(to.id, this.base)
    this.#nextId = Math.max(this.#nextId, to.id + 1)
    /*
     * A branch may refer to the persisted block by its old id. The persistence thread may have
     * given a new one.
     */
    for (const build of this.builds.values()) {
      const parent = build.parent as Build | undefined
      if (parent?.hash !== undefined && equalBytes(parent.hash, to.hash)) build.parent = this.base
    }
    return this.base
  }

  diffLayerStats(): { readonly diffLayers: number; readonly ownedPages: number } {
    let diffLayers = 0
    let ownedPages = 0
    for (const { pages } of this.builds.values()) {
      if (pages.length > 0) diffLayers++
      ownedPages += pages.length
    }
    return { diffLayers, ownedPages }
  }

  /** Checks that each block of the list descends from the next one or is equal to it. */
  #checkChain(blocks: readonly Build[]): void {
    let at: BlockHandle | undefined = blocks[0]
    for (const want of blocks) {
      while (at !== undefined && at.id !== want.id) at = at.parent
      if (at === undefined)
        throw new Error(`views: block ${want.number} is no ancestor of the heads above it`)
    }
  }

  /**
   * Retires each diff layer that is not needed and that snapshot `number` and later ones cannot
   * reach.
   */
  #retire(number: number, heads: readonly Build[]): void {
    const live = new Set<number>([this.base.id])
    for (const head of heads) {
      /*
       * Requests read header, transactions and receipts from a head's own diff layer, even when the
       * head is the base.
       */
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
      if (build.isSubmitted || build.isAwaited) this.#mark(build, live)
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
    while (at !== undefined && this.builds.get(at.id)?.isPersisted === false) {
      live.add(at.id)
      at = at.parent
    }
  }
}

/** Returns whether `block` is `before` itself, with more flashblocks, or a descendant. */
function goesOnFrom(block: BlockHandle, before: BlockHandle): boolean {
  let at: BlockHandle | undefined = block
  while (at !== undefined && at.number > before.number) at = at.parent
  return at?.id === before.id
}

/** Makes a handle for a block that only the store has. */
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
  isSubmitted: false,
  isAwaited: false,
  isPersisted: true,
})

const positionOf = (build: Build): Position => ({
  id: build.id,
  height: build.number,
  diffLayer: build.cursor?.diffLayer ?? 0,
  tag: build.tag,
  header: build.cursor === undefined ? 0 : build.header,
  transactions: build.transactions,
})

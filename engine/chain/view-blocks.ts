/**
 * This module finds the blocks of one view by number, hash or FlashblockId, with their positions
 * for state. It also finds the growth of a block, flashblock by flashblock, while its diff layers
 * exist.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { decodeHeader } from '../primitives/header.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { equalBytes } from '../primitives/words.ts'
import {
  FlashblockUnavailableError,
  type RetainedFlashblockId,
  ViewError,
} from '../state/reader.ts'
import type { Arena } from '../views/arena.ts'
import type { Position } from '../views/chain-snapshot.ts'
import { FINAL, payloadOf } from '../views/diff-layer.ts'
import type { Lease } from '../views/lease.ts'
import { assertLeased, assertValid, type ViewThread } from '../views/reader.ts'
import { blockAt, blocksOf, findHash, indexOf, payloadAt, prefixOf } from '../views/walk.ts'
import { type DecodedBlocks, diffLayerBlock, hasLogs, storedBlock } from './block.ts'
import { packLogRows } from './log-rows.ts'
import type { LogRowsCache } from './log-rows-cache.ts'
import type { PersistedHashes } from './persisted-caches.ts'
import type { Block, Endpoint, FlashblockId, Growth, LogRows } from './types.ts'

/** Maximum depth at which an old partial hash is still found. */
const PARTIAL_HEADER_BLOCKS = 64
const NEWEST_BLOCKS = 8

export type BlocksContext = {
  readonly thread: ViewThread
  readonly decoded: DecodedBlocks
  readonly persistedHashes: PersistedHashes
  readonly logRows: LogRowsCache
  readonly lease: Lease
  readonly endpoint: Endpoint
}

/**
 * Finds the blocks of a view. A prefix of a block that only the store has gets no position, because
 * its state is gone.
 */
export class ViewBlocks {
  /** The newest block of this endpoint. */
  readonly top: Position
  readonly #context: BlocksContext
  readonly #positions = new WeakMap<Block, Position | 'unknown'>()
  /** Keyed by height, or by id, tag and header of a diff layer. */
  readonly #newest = new Map<string, Block>()
  /** Rows that were read together for the next calls of `logRows`. */
  readonly #prefetched = new Map<number, LogRows>()

  constructor(context: BlocksContext, top: Position) {
    this.#context = context
    this.top = top
  }

  at(position: Position): Block {
    const { thread, lease, decoded } = this.#context
    const { base } = lease.snapshot
    if (position.diffLayer === 0) return this.#stored(base.hash, base.height)
    return this.#once(`${position.id} ${position.tag} ${position.header}`, () =>
      this.#remember(diffLayerBlock(thread, lease, position, decoded), position),
    )
  }

  byNumber(number: bigint): Block | undefined {
    const { thread, lease } = this.#context
    const { arena } = thread
    const { base } = lease.snapshot
    if (number < 0n || number > BigInt(this.top.height)) return undefined
    const height = Number(number)
    const found = blockAt(arena, this.top, base.height, height)
    if (found !== undefined) return this.at(found)
    if (height === base.height) return this.#stored(base.hash, height)
    const hash = this.#hashOfPersisted(height)
    return hash === undefined ? undefined : this.#stored(hash, height)
  }

  /**
   * Finds a flashblock; undefined: it has not come, or its block was dropped.
   * @throws {FlashblockUnavailableError} when the view does not retain the flashblock any more
   */
  byFlashblock({ number, index, payloadId }: FlashblockId): Block | undefined {
    const { thread, lease } = this.#context
    const { arena } = thread
    const { base } = lease.snapshot
    if (number > BigInt(this.top.height)) return undefined
    const name = `flashblock ${index} of block ${number}`
    /*
     * Persisted blocks have no flashblocks, because flat state has complete blocks only. This is
     * true even while a diff layer is left.
     */
    if (number <= BigInt(base.height))
      throw this.#flashblockUnavailable('gone', `${name} is not held any more`)
    const block = blockAt(arena, this.top, base.height, Number(number))
    const payload = block && payloadAt(arena, block)
    if (block === undefined || payload === undefined)
      throw this.#flashblockUnavailable(
        'gone',
        `${name} is not held: that block came without flashblocks`,
      )
    if (payloadId !== undefined && payloadId !== payload)
      throw this.#flashblockUnavailable('replaced', `${name} is of payload ${payload} here`)
    if (index >= FINAL) return undefined
    const found = prefixOf(arena, block, index)
    return found && this.at(found)
  }

  byHash(hash: Bytes): Block | undefined {
    const { thread, lease, endpoint } = this.#context
    const found = findHash(thread.arena, hash, this.top, lease.snapshot.base.height)
    const isVisible = found !== undefined && (endpoint === 'flashblocks' || found.tag === FINAL)
    if (isVisible) return this.at(found)
    const stored =
      this.#byFinalHash(hash) ??
      (endpoint === 'flashblocks' ? this.#byPartialHash(hash) : undefined)
    if (stored === undefined) assertValid(thread.arena, lease.snapshot)
    return stored
  }

  /** Reads the logs of the stored blocks together, for the next calls of `logRows`. */
  prefetch(numbers: readonly bigint[]): void {
    const { thread, lease, logRows } = this.#context
    assertLeased(lease)
    this.#prefetched.clear()
    const { base, unwinds } = lease.snapshot
    const unknown: number[] = []
    for (const number of numbers) {
      const height = Number(number)
      if (height >= base.height) break
      const rows = logRows.get(height, unwinds)
      if (rows === undefined) unknown.push(height)
      else this.#prefetched.set(height, rows)
    }
    const stored = unknown.length === 0 ? [] : thread.store.blocksOf(unknown, hasLogs)
    // Without an unwind since, numbers below the base still have the same hashes.
    assertValid(thread.arena, lease.snapshot)
    for (const one of stored) {
      const rows = packLogRows(one, logRows.slab)
      // A block with missing rows is left out here; reading the block reports the error.
      if (rows === undefined) continue
      this.#prefetched.set(rows.number, rows)
      logRows.set(rows, unwinds)
    }
  }

  /**
   * Returns the logs of a prefetched block; undefined: the block is not persisted, or some of its
   * rows are missing.
   */
  logRows(number: bigint): LogRows | undefined {
    return this.#prefetched.get(Number(number))
  }

  /** Returns the position of a block; undefined: a prefix that only the store has. */
  positionOf(block: Block): Position | undefined {
    const position = this.#positions.get(block)
    if (position === undefined) throw new Error(`block ${block.number} is not of this view`)
    return position === 'unknown' ? undefined : position
  }

  #hashOfPersisted(height: number): Bytes | undefined {
    const { thread, lease, persistedHashes } = this.#context
    const { unwinds } = lease.snapshot
    const cached = persistedHashes.get(height, unwinds)
    const hash = cached ?? thread.store.hashOfNumber(height)
    // Without an unwind since, numbers below the base still have the same hashes.
    assertValid(thread.arena, lease.snapshot)
    if (cached === undefined && hash !== undefined) persistedHashes.set(height, unwinds, hash)
    return hash
  }

  #flashblockUnavailable(
    why: FlashblockUnavailableError['why'],
    message: string,
  ): FlashblockUnavailableError {
    const { thread, lease } = this.#context
    return new FlashblockUnavailableError(
      why,
      message,
      retainedFlashblockIds(thread.arena, this.top, lease.snapshot.base.height),
    )
  }

  #remember(block: Block, position: Position | 'unknown'): Block {
    this.#positions.set(block, position)
    return block
  }

  /**
   * Returns the same object for the same key, so that lazily decoded parts are made once. Only few
   * blocks are cached.
   */
  #once(key: string, make: () => Block): Block {
    const known = this.#newest.get(key)
    if (known !== undefined) return known
    const block = make()
    if (this.#newest.size === NEWEST_BLOCKS) this.#newest.delete(this.#newest.keys().next().value!)
    this.#newest.set(key, block)
    return block
  }

  /** Returns a full block of this chain at or below the base. */
  #stored(hash: Bytes, height: number): Block {
    return this.#once(`${height}`, () => this.#read(hash, height))
  }

  #read(hash: Bytes, height: number): Block {
    const { store } = this.#context.thread
    const { decoded } = this.#context
    const missing = this.#missingAt(height)
    return this.#remember(storedBlock({ store, decoded, hash, height, missing }), {
      id: 0,
      height,
      diffLayer: 0,
      tag: FINAL,
      header: 0,
      transactions: 0,
    })
  }

  /** Makes the error for a missing row. Blocks that an unwind dropped are deleted after a while. */
  #missingAt(height: number): (what: string) => never {
    const { thread, lease } = this.#context
    return (what) => {
      assertValid(thread.arena, lease.snapshot)
      if (height <= thread.store.oldestState())
        throw new ViewError('pruned', `the ${what} is not here, only its state was loaded`)
      throw new Error(`store: no ${what}`)
    }
  }

  /** Finds a persisted block of this chain by its final hash. */
  #byFinalHash(hash: Bytes): Block | undefined {
    const { thread, lease } = this.#context
    const { base } = lease.snapshot
    if (equalBytes(hash, base.hash)) return this.#stored(hash, base.height)
    const rlp = thread.store.header(hash)
    if (rlp === undefined) return undefined
    const number = Number(decodeHeader(rlp).number)
    if (number >= base.height) return undefined
    const canonical = this.#hashOfPersisted(number)
    return canonical !== undefined && equalBytes(canonical, hash)
      ? this.#stored(hash, number)
      : undefined
  }

  /** Finds the prefix with this partial hash. */
  #byPartialHash(hash: Bytes): Block | undefined {
    const { thread, lease, decoded } = this.#context
    const { arena, store } = thread
    const partialHeader = store.partialHeader(hash)
    if (partialHeader === undefined) return undefined
    const { blockHash } = partialHeader
    const position = findHash(arena, blockHash, this.top, lease.snapshot.base.height)
    const number = position?.height ?? this.#byFinalHash(blockHash)?.number
    if (number === undefined) return undefined
    const height = Number(number)
    if (height <= this.top.height - PARTIAL_HEADER_BLOCKS) return undefined
    // The store may have lost the body after a reorg, but a leased diff layer still has it.
    if (position !== undefined)
      return this.#remember(
        diffLayerBlock(thread, lease, position, decoded, partialHeader),
        'unknown',
      )
    const missing = this.#missingAt(height)
    return this.#remember(
      storedBlock({ store, decoded, hash: blockHash, height, partialHeader, missing }),
      'unknown',
    )
  }
}

/**
 * Returns the oldest and newest retained flashblock. All between them are retained, except in
 * blocks without flashblocks.
 */
function retainedFlashblockIds(
  arena: Arena,
  top: Position,
  base: number,
): FlashblockUnavailableError['retained'] {
  let newest: RetainedFlashblockId | undefined
  let oldest: RetainedFlashblockId | undefined
  for (const block of blocksOf(arena, top, base)) {
    const payloadId = block.height > base ? payloadAt(arena, block) : undefined
    if (payloadId === undefined) continue
    const number = BigInt(block.height)
    newest ??= { number, index: indexOf(arena, block), payloadId }
    oldest = { number, index: 0, payloadId }
  }
  return oldest && newest && { oldest, newest }
}

/** Returns the prefixes of a block. Prefixes below flashblock index `from` are left out. */
export function growthOf(
  { thread: { arena }, endpoint }: BlocksContext,
  blocks: ViewBlocks,
  { block, from }: { readonly block: Block; readonly from: number },
): Growth {
  const position = blocks.positionOf(block)
  if (position === undefined || position.diffLayer === 0)
    return { id: undefined, payloadId: undefined, flashblocks: [block] }
  const last = indexOf(arena, position)
  // The standard endpoint has no prefixes, and a block without a feed never had any.
  const payload = endpoint === 'standard' ? undefined : payloadOf(arena, position.diffLayer)
  const flashblocks: Block[] = []
  if (payload === undefined && from <= last) flashblocks.push(block)
  let index = from
  while (payload !== undefined && index <= last) {
    const prefix = prefixOf(arena, position, index)
    if (prefix !== undefined) flashblocks.push(blocks.at(prefix))
    // The content that came without a flashblock has a far higher index.
    index = prefix === undefined && index < last ? last : index + 1
  }
  return { id: position.id, payloadId: payload && bytesToHex(payload), flashblocks }
}

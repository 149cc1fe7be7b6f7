/** The blocks of one view: found by number, hash or place, and where each is, for state. */
import type { Bytes } from '../primitives/bytes.ts'
import { decodeHeader } from '../primitives/header-codec.ts'
import { equalBytes } from '../primitives/words.ts'
import { type HeldPlace, PlaceError, ViewError } from '../state/reader.ts'
import type { Arena } from '../views/arena.ts'
import type { Lease } from '../views/lease.ts'
import { assertHeld, assertValid, type ViewThread } from '../views/reader.ts'
import type { Position } from '../views/record.ts'
import { FINAL } from '../views/table.ts'
import { blockAt, blocksOf, findHash, indexOf, payloadAt, prefixOf } from '../views/walk.ts'
import { type DecodedBlocks, hasLogs, storedBlock, tableBlock } from './block.ts'
import type { FoldedHashes } from './folded-hashes.ts'
import type { KeptLogRows } from './kept-log-rows.ts'
import { packLogRows } from './log-rows.ts'
import type { Block, Endpoint, FlashblockPlace, LogRows } from './types.ts'

/** How far back an old momentary hash still answers. */
const MOMENTARY_BLOCKS = 64
/** Blocks that a view gives again as they are. */
const NEWEST_BLOCKS = 8

export type BlocksContext = {
  readonly thread: ViewThread
  readonly decoded: DecodedBlocks
  readonly foldedHashes: FoldedHashes
  readonly logRows: KeptLogRows
  readonly lease: Lease
  readonly endpoint: Endpoint
}

/** A prefix of a block that only the store knows has no place: nothing has its state. */
export class ViewBlocks {
  /** The newest block this endpoint shows. */
  readonly top: Position
  readonly #context: BlocksContext
  readonly #places = new WeakMap<Block, Position | 'unknown'>()
  /** By place: height, or id, tag and header of a table. */
  readonly #newest = new Map<string, Block>()
  /** Read together, for whoever asks for them next. */
  readonly #ahead = new Map<number, LogRows>()

  constructor(context: BlocksContext, top: Position) {
    this.#context = context
    this.top = top
  }

  at(position: Position): Block {
    const { thread, lease, decoded } = this.#context
    const { base } = lease.record
    if (position.table === 0) return this.#stored(base.hash, base.height)
    return this.#once(`${position.id} ${position.tag} ${position.header}`, () =>
      this.#remember(tableBlock(thread, lease, position, decoded), position),
    )
  }

  byNumber(number: bigint): Block | undefined {
    const { thread, lease } = this.#context
    const { arena } = thread
    const { base } = lease.record
    if (number < 0n || number > BigInt(this.top.height)) return undefined
    const height = Number(number)
    const found = blockAt(arena, this.top, base.height, height)
    if (found !== undefined) return this.at(found)
    if (height === base.height) return this.#stored(base.hash, height)
    const hash = this.#hashOfFolded(height)
    return hash === undefined ? undefined : this.#stored(hash, height)
  }

  /** undefined: it has not come, or its block was dropped. @throws {PlaceError} when the view does not hold it any more */
  byPlace({ number, index, payloadId }: FlashblockPlace): Block | undefined {
    const { thread, lease } = this.#context
    const { arena } = thread
    const { base } = lease.record
    if (number > BigInt(this.top.height)) return undefined
    const name = `flashblock ${index} of block ${number}`
    // Flat state has whole blocks, so what is folded has no flashblocks, also where its table is still there.
    if (number <= BigInt(base.height)) throw this.#noPlace('gone', `${name} is not held any more`)
    const block = blockAt(arena, this.top, base.height, Number(number))
    const payload = block && payloadAt(arena, block)
    if (block === undefined || payload === undefined)
      throw this.#noPlace('gone', `${name} is not held: that block came without flashblocks`)
    if (payloadId !== undefined && payloadId !== payload)
      throw this.#noPlace('replaced', `${name} is of payload ${payload} here`)
    if (index >= FINAL) return undefined
    const found = prefixOf(arena, block, index)
    return found && this.at(found)
  }

  byHash(hash: Bytes): Block | undefined {
    const { thread, lease, endpoint } = this.#context
    const found = findHash(thread.arena, hash, this.top, lease.record.base.height)
    const isShown = found !== undefined && (endpoint === 'flashblocks' || found.tag === FINAL)
    if (isShown) return this.at(found)
    const stored =
      this.#byFinalHash(hash) ??
      (endpoint === 'flashblocks' ? this.#byMomentaryHash(hash) : undefined)
    if (stored === undefined) assertValid(thread.arena, lease.record)
    return stored
  }

  /** Reads the logs of those that are in the store together, for whoever asks for them next. */
  readAhead(numbers: readonly bigint[]): void {
    const { thread, lease, logRows } = this.#context
    assertHeld(lease)
    this.#ahead.clear()
    const { base, unfolds } = lease.record
    const unknown: number[] = []
    for (const number of numbers) {
      const height = Number(number)
      if (height >= base.height) break
      const rows = logRows.get(height, unfolds)
      if (rows === undefined) unknown.push(height)
      else this.#ahead.set(height, rows)
    }
    const stored = unknown.length === 0 ? [] : thread.store.blocksOf(unknown, hasLogs)
    // Without an unfold since, no number below the base has got another hash.
    assertValid(thread.arena, lease.record)
    for (const one of stored) {
      const rows = packLogRows(one, logRows.slab)
      // Whoever looks at its block is told what is not here.
      if (rows === undefined) continue
      this.#ahead.set(rows.number, rows)
      logRows.keep(rows, unfolds)
    }
  }

  /** Of a block that was read ahead; undefined: it is not folded, or has logs that are not here. */
  logRows(number: bigint): LogRows | undefined {
    return this.#ahead.get(Number(number))
  }

  /** undefined: a prefix that only the store knows. */
  positionOf(block: Block): Position | undefined {
    const place = this.#places.get(block)
    if (place === undefined) throw new Error(`block ${block.number} is not of this view`)
    return place === 'unknown' ? undefined : place
  }

  /** Of a height below the base. */
  #hashOfFolded(height: number): Bytes | undefined {
    const { thread, lease, foldedHashes } = this.#context
    const { unfolds } = lease.record
    const kept = foldedHashes.get(height, unfolds)
    const hash = kept ?? thread.store.hashOfNumber(height)
    // Without an unfold since, no number below the base has got another hash.
    assertValid(thread.arena, lease.record)
    if (kept === undefined && hash !== undefined) foldedHashes.keep(height, unfolds, hash)
    return hash
  }

  #noPlace(why: PlaceError['why'], message: string): PlaceError {
    const { thread, lease } = this.#context
    return new PlaceError(
      why,
      message,
      heldPlaces(thread.arena, this.top, lease.record.base.height),
    )
  }

  #remember(block: Block, place: Position | 'unknown'): Block {
    this.#places.set(block, place)
    return block
  }

  /** The same place is the same block while few others are asked for: what hangs on it is made once. */
  #once(place: string, make: () => Block): Block {
    const known = this.#newest.get(place)
    if (known !== undefined) return known
    const block = make()
    if (this.#newest.size === NEWEST_BLOCKS) this.#newest.delete(this.#newest.keys().next().value!)
    this.#newest.set(place, block)
    return block
  }

  /** A whole block of this chain at or below the base. */
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
      table: 0,
      tag: FINAL,
      header: 0,
      transactions: 0,
    })
  }

  /** Blocks that an unfold dropped are deleted after a while. */
  #missingAt(height: number): (what: string) => never {
    const { thread, lease } = this.#context
    return (what) => {
      assertValid(thread.arena, lease.record)
      if (height <= thread.store.oldestState())
        throw new ViewError('pruned', `the ${what} is not here, only its state was loaded`)
      throw new Error(`store: no ${what}`)
    }
  }

  /** A whole block of this chain that is folded. */
  #byFinalHash(hash: Bytes): Block | undefined {
    const { thread, lease } = this.#context
    const { base } = lease.record
    if (equalBytes(hash, base.hash)) return this.#stored(hash, base.height)
    const rlp = thread.store.header(hash)
    if (rlp === undefined) return undefined
    const number = Number(decodeHeader(rlp).number)
    if (number >= base.height) return undefined
    const canonical = this.#hashOfFolded(number)
    return canonical !== undefined && equalBytes(canonical, hash)
      ? this.#stored(hash, number)
      : undefined
  }

  /** What the final block with this hash was at one of its flashblocks. */
  #byMomentaryHash(hash: Bytes): Block | undefined {
    const { thread, lease, decoded } = this.#context
    const { arena, store } = thread
    const momentary = store.momentary(hash)
    if (momentary === undefined) return undefined
    const { blockHash } = momentary
    const place = findHash(arena, blockHash, this.top, lease.record.base.height)
    const number = place?.height ?? this.#byFinalHash(blockHash)?.number
    if (number === undefined) return undefined
    const height = Number(number)
    if (height <= this.top.height - MOMENTARY_BLOCKS) return undefined
    // Its body may be gone from the store when another branch has replaced it, but not from a leased table.
    if (place !== undefined)
      return this.#remember(tableBlock(thread, lease, place, decoded, momentary), 'unknown')
    const missing = this.#missingAt(height)
    return this.#remember(
      storedBlock({ store, decoded, hash: blockHash, height, momentary, missing }),
      'unknown',
    )
  }
}

/** Every flashblock between these two is held, but for those of blocks that came without. */
function heldPlaces(arena: Arena, top: Position, base: number): PlaceError['held'] {
  let newest: HeldPlace | undefined
  let oldest: HeldPlace | undefined
  for (const block of blocksOf(arena, top, base)) {
    const payloadId = block.height > base ? payloadAt(arena, block) : undefined
    if (payloadId === undefined) continue
    const number = BigInt(block.height)
    newest ??= { number, index: indexOf(arena, block), payloadId }
    oldest = { number, index: 0, payloadId }
  }
  return oldest && newest && { oldest, newest }
}

/**
 * Downloads a new replica's database from a source node: rows of its state, its blocks, and newer
 * blocks in between. `Progress` (progress.ts) describes the block numbers of an unfinished copy.
 */
import { decodeHeader } from '../../../engine/primitives/header.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import { type About, readAbout } from '../../../engine/storage/bootstrap/about.ts'
import { type Chunk, ChunkError } from '../../../engine/storage/bootstrap/chunk.ts'
import { readCopiedBlocks } from '../../../engine/storage/bootstrap/copied-block.ts'
import {
  blocksFrom,
  type Copy,
  ForkError,
  GapError,
  type RowsResponse,
} from '../../../engine/storage/bootstrap/copy.ts'
import {
  BootstrapError,
  isFetched,
  type Progress,
} from '../../../engine/storage/bootstrap/progress.ts'
import type { StoredHead } from '../../../engine/storage/types.ts'
import type { SourceClient } from './source-client.ts'

/**
 * Interval of requests for newer blocks. The copy needs the diff of each block after the start. The
 * source node retains only a few hundred diffs.
 */
const TIP_MS = 2_000
/** Pause before the next request for a block that the source node has yet to persist. */
const RETRY_MS = 250
/** Timeout for a block that the source node is persisting. */
const PERSISTING_MS = 120_000

export type Fetching = {
  /** The source node. */
  readonly node: SourceClient
  /** The unfinished database, whose progress exists. Only one fetch may run at a time. */
  readonly copy: Copy
  readonly isStopped: () => boolean
  /**
   * Called after each response.
   * @param share completed share of the part, from 0 to 1
   * @param rows number of rows or blocks in the response
   */
  readonly report: (part: string, share: number, rows: number) => void
}

/**
 * Fetches all missing rows and blocks. It runs again when the fetched state does not match its
 * state root.
 * @returns false if it was stopped between two requests
 * @throws {BootstrapError} if the copy cannot continue
 * @throws {StoppedError} if it was stopped while the source node did not respond
 */
export async function fetchAll(fetching: Fetching): Promise<boolean> {
  const { copy, isStopped } = fetching
  let tipFetchedAt = Number.NEGATIVE_INFINITY
  let partFetchedAt = performance.now()
  while (!isStopped()) {
    if (performance.now() - tipFetchedAt > TIP_MS) {
      await fetchTip(fetching)
      tipFetchedAt = performance.now()
    }
    const progress = copy.progress()!
    if (isFetched(progress)) return true
    if (await fetchNext(fetching, progress)) partFetchedAt = performance.now()
    else {
      if (performance.now() - partFetchedAt > PERSISTING_MS)
        throw new BootstrapError(
          `${fetching.node.name} has not persisted block ${progress.upTo} within ${PERSISTING_MS / 1_000} s: check that node, and run the same command again`,
        )
      /*
       * Rows may have changes of blocks up to `upTo`. The copy needs their diffs, and the source
       * node sends only persisted blocks.
       */
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      await fetchTip(fetching)
    }
  }
  return false
}

/**
 * Fetches and stores the next rows, or the next blocks up to the start once all rows are complete.
 * @returns false if none of them is missing
 */
async function fetchNext({ node, copy, report }: Fetching, progress: Progress): Promise<boolean> {
  const request = copy.nextRows()
  if (request !== undefined) {
    const rows = await node.request(request, (chunk) => {
      copy.takeRows(request, rowsResponse(chunk))
      return chunk.rows.length
    })
    report(request.column, shareOf(copy.progress()!.at[request.column]), rows)
    return true
  }
  const from = blocksFrom(progress)
  if (from === undefined) return false
  await node.request({ part: 'blocks', from }, ({ rows }) => {
    // The client retries after a ChunkError, and puts the name of the node before its message.
    if (rows.length === 0) throw new ChunkError(`it has no block ${from}`)
    copy.takeBlocks(rows, from)
  })
  const { first, start } = progress
  const now = blocksFrom(copy.progress()!) ?? start.number + 1
  report('blocks', (now - first) / Math.max(1, start.number - first + 1), now - from)
  return true
}

/**
 * Returns the completed share of a column, from 0 to 1. Its keys begin with addresses or hashes,
 * which are evenly distributed, so the first two bytes give the share.
 * @param at next key to request; undefined: the column is complete
 */
const shareOf = (at: Uint8Array | undefined): number =>
  at === undefined ? 1 : ((at[0] ?? 0) * 256 + (at[1] ?? 0)) / 65_536

/**
 * Decodes a response with rows. `next` is the first key of the following request. It is undefined
 * at the end of the requested range, which may end before the column does. `isSame` means that the
 * rows match the checksum in the request, so none were sent.
 * @throws {ChunkError}
 */
function rowsResponse({ head, rows }: Chunk): RowsResponse {
  const { next, upTo, oldest, isSame } = head
  if (!Number.isSafeInteger(upTo) || !Number.isSafeInteger(oldest))
    throw new ChunkError('its answer names no block number')
  if (next !== null && (typeof next !== 'string' || !/^0x([0-9a-f]{2}){1,64}$/.test(next)))
    throw new ChunkError('its answer has an invalid next key')
  return {
    rows,
    next: next === null ? undefined : hexToBytes(next),
    upTo: upTo as number,
    oldest: oldest as number,
    isSame: isSame === true,
  }
}

/**
 * Fetches the blocks after the tip until the source node has no newer persisted block. After a
 * reorg of the source node, the tip goes back to the newest shared block. If the node no longer has
 * a diff, the copy restarts at a later block. When the state is made, both end the fetch instead.
 * @throws {BootstrapError} if the copy cannot continue
 * @throws {StoppedError} if it was stopped while the source node did not respond
 */
export async function fetchTip({ node, copy, isStopped }: Fetching): Promise<void> {
  while (!isStopped()) {
    const { tip, isMade } = copy.progress()!
    try {
      const count = await node.request({ part: 'blocks', from: tip.number + 1 }, ({ rows }) => {
        if (rows.length > 0) copy.takeTip(rows)
        return rows.length
      })
      if (count === 0) return
    } catch (error) {
      if (!(error instanceof ForkError || error instanceof GapError)) throw error
      // The copy is already a valid chain, which `follow` continues or reorgs after the start.
      if (isMade) return
      if (error instanceof ForkError) copy.goBack(await sharedBlock(node, copy))
      else copy.restart(restartOf(await requestAbout(node), copy.progress()!))
    }
  }
}

/**
 * Requests the source node's description of its chain and its database.
 * @throws {BootstrapError} {StoppedError}
 */
export const requestAbout = (node: SourceClient): Promise<About> =>
  node.request({ part: 'about' }, ({ head }) => readAbout(head))

/**
 * Returns the start and the oldest block of a restarted copy.
 * @throws {BootstrapError} if the source node has no later start
 */
function restartOf({ start, oldestState }: About, progress: Progress) {
  if (start.number <= progress.start.number)
    throw new BootstrapError(
      `the node no longer has the changes of block ${progress.tip.number + 1}: remove the directory, and run the same command again`,
    )
  return { start, oldest: Math.max(progress.oldest, oldestState) }
}

/**
 * Finds the newest copied block that the source node still has.
 * @throws {BootstrapError} if it is below the start, or a copied header is missing or damaged
 */
async function sharedBlock(node: SourceClient, copy: Copy): Promise<StoredHead> {
  const { start, tip } = copy.progress()!
  for (let at = tip; at.number >= start.number; ) {
    const theirs = await node.request({ part: 'blocks', from: at.number }, ({ rows }) =>
      rows.length === 0 ? undefined : readCopiedBlocks(rows.slice(0, 1), at.number)[0]?.hash,
    )
    if (theirs !== undefined && equalBytes(theirs, at.hash)) return at
    const header = copy.headerOf(at.hash)
    if (header === undefined || !equalBytes(keccak256(header), at.hash)) break
    at = { number: at.number - 1, hash: decodeHeader(header).parentHash.slice() }
  }
  throw new BootstrapError(
    `the node has replaced block ${start.number} since the copy started: remove the directory, and run the same command again`,
  )
}

/** Fetches everything that a copy lacks, and newer blocks in between. */
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
 * Newer blocks are fetched this often, because the node retains their changes for some hundred
 * blocks only.
 */
const TIP_MS = 2_000
const SOON_MS = 250
/** Timeout for a block that the node is persisting. */
const PERSISTING_MS = 120_000

export type Fetching = {
  readonly node: SourceClient
  readonly copy: Copy
  readonly isStopped: () => boolean
  /** Receives the newly fetched rows and the share of the part that is done, from 0 to 1. */
  readonly report: (part: string, share: number, rows: number) => void
}

/** Returns false if it was stopped. @throws {BootstrapError} */
export async function fetchAll(fetching: Fetching): Promise<boolean> {
  const { copy, isStopped } = fetching
  let reportedAt = Number.NEGATIVE_INFINITY
  let cameAt = performance.now()
  while (!isStopped()) {
    if (performance.now() - reportedAt > TIP_MS) {
      await fetchTip(fetching)
      reportedAt = performance.now()
    }
    const progress = copy.progress()!
    if (isFetched(progress)) return true
    if (await fetchNext(fetching, progress)) cameAt = performance.now()
    else {
      if (performance.now() - cameAt > PERSISTING_MS)
        throw new BootstrapError(
          `${fetching.node.name} has not persisted block ${progress.upTo} within ${PERSISTING_MS / 1_000} s: check that node, and run the same command again`,
        )
      // All parts are complete except blocks that the node has yet to persist.
      await new Promise((resolve) => setTimeout(resolve, SOON_MS))
      await fetchTip(fetching)
    }
  }
  return false
}

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
    if (rows.length === 0) throw new ChunkError(`it has no block ${from}`)
    copy.takeBlocks(rows, from)
  })
  const { first, start } = progress
  const now = blocksFrom(copy.progress()!) ?? start.number + 1
  report('blocks', (now - first) / Math.max(1, start.number - first + 1), now - from)
  return true
}

/** Addresses and hashes are evenly distributed, so the first bytes give the share. */
const shareOf = (at: Uint8Array | undefined): number =>
  at === undefined ? 1 : ((at[0] ?? 0) * 256 + (at[1] ?? 0)) / 65_536

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

/** Fetches the newer blocks. @throws {BootstrapError} */
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
      // The copied blocks are a valid chain: `follow` continues or reverts it.
      if (isMade) return
      if (error instanceof ForkError) copy.goBack(await sharedBlock(node, copy))
      else copy.restart(laterThan(await requestAbout(node), copy.progress()!))
    }
  }
}

export const requestAbout = (node: SourceClient): Promise<About> =>
  node.request({ part: 'about' }, ({ head }) => readAbout(head))

function laterThan({ start, oldestState }: About, progress: Progress) {
  if (start.number <= progress.start.number)
    throw new BootstrapError(
      `the node no longer has the changes of block ${progress.tip.number + 1}: remove the directory, and run the same command again`,
    )
  return { start, oldest: Math.max(progress.oldest, oldestState) }
}

/**
 * Finds the newest copied block that the node still has.
 * @throws {BootstrapError} if it is below the start
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

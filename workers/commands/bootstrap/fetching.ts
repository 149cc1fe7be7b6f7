/** Asks a node for everything that a copy lacks, and keeps up with its newer blocks meanwhile. */
import { decodeHeader } from '../../../engine/primitives/header-codec.ts'
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
  type RowsAnswer,
} from '../../../engine/storage/bootstrap/copy.ts'
import { BootstrapError } from '../../../engine/storage/bootstrap/fault.ts'
import { isFetched, type Progress } from '../../../engine/storage/bootstrap/progress.ts'
import type { StoredHead } from '../../../engine/storage/types.ts'
import type { AskedNode } from './asking.ts'

/** Newer blocks are asked for so often: what they changed is kept at the node for some hundred of them. */
const TIP_MS = 2_000
const SOON_MS = 250
/** For a block that the node says to be folding. */
const FOLDING_MS = 120_000

export type Fetching = {
  readonly node: AskedNode
  readonly copy: Copy
  readonly isStopped: () => boolean
  /** What came now, and how much of its part is here: 0 to 1. */
  readonly tell: (part: string, share: number, rows: number) => void
}

/** False: it was stopped. @throws {BootstrapError} */
export async function fetchAll(fetching: Fetching): Promise<boolean> {
  const { copy, isStopped } = fetching
  let toldAt = Number.NEGATIVE_INFINITY
  let cameAt = performance.now()
  while (!isStopped()) {
    if (performance.now() - toldAt > TIP_MS) {
      await fetchTip(fetching)
      toldAt = performance.now()
    }
    const progress = copy.progress()!
    if (isFetched(progress)) return true
    if (await fetchNext(fetching, progress)) cameAt = performance.now()
    else {
      if (performance.now() - cameAt > FOLDING_MS)
        throw new BootstrapError(
          `${fetching.node.name} folds block ${progress.upTo} for too long: look at that node, and run the same command again`,
        )
      // All but blocks that the node has yet to fold.
      await new Promise((resolve) => setTimeout(resolve, SOON_MS))
      await fetchTip(fetching)
    }
  }
  return false
}

async function fetchNext({ node, copy, tell }: Fetching, progress: Progress): Promise<boolean> {
  const asked = copy.nextRows()
  if (asked !== undefined) {
    const rows = await node.ask(asked, (chunk) => {
      copy.takeRows(asked, rowsAnswer(chunk))
      return chunk.rows.length
    })
    tell(asked.column, shareOf(copy.progress()!.at[asked.column]), rows)
    return true
  }
  const from = blocksFrom(progress)
  if (from === undefined) return false
  await node.ask({ part: 'blocks', from }, ({ rows }) => {
    if (rows.length === 0) throw new ChunkError(`block ${from} is not there`)
    copy.takeBlocks(rows, from)
  })
  const { first, start } = progress
  const now = blocksFrom(copy.progress()!) ?? start.number + 1
  tell('blocks', (now - first) / Math.max(1, start.number - first + 1), now - from)
  return true
}

/** Addresses and hashes are spread evenly. */
const shareOf = (at: Uint8Array | undefined): number =>
  at === undefined ? 1 : ((at[0] ?? 0) * 256 + (at[1] ?? 0)) / 65_536

function rowsAnswer({ head, rows }: Chunk): RowsAnswer {
  const { next, upTo, oldest, isSame } = head
  if (!Number.isSafeInteger(upTo) || !Number.isSafeInteger(oldest))
    throw new ChunkError('it says no block')
  if (next !== null && (typeof next !== 'string' || !/^0x([0-9a-f]{2}){1,64}$/.test(next)))
    throw new ChunkError('where it goes on is no key')
  return {
    rows,
    next: next === null ? undefined : hexToBytes(next),
    ...{ upTo: upTo as number, oldest: oldest as number, isSame: isSame === true },
  }
}

/** @throws {BootstrapError} */
export async function fetchTip({ node, copy, isStopped }: Fetching): Promise<void> {
  while (!isStopped()) {
    const { tip, isMade } = copy.progress()!
    try {
      const count = await node.ask({ part: 'blocks', from: tip.number + 1 }, ({ rows }) => {
        if (rows.length > 0) copy.takeTip(rows)
        return rows.length
      })
      if (count === 0) return
    } catch (error) {
      if (!(error instanceof ForkError || error instanceof GapError)) throw error
      // What stands is a chain: whoever follows with it goes on from there, or undoes it.
      if (isMade) return
      if (error instanceof ForkError) copy.goBack(await sharedBlock(node, copy))
      else copy.beginAnew(laterThan(await askAbout(node), copy.progress()!))
    }
  }
}

export const askAbout = (node: AskedNode): Promise<About> =>
  node.ask({ part: 'about' }, ({ head }) => readAbout(head))

function laterThan({ start, oldestState }: About, progress: Progress) {
  if (start.number <= progress.start.number)
    throw new BootstrapError(
      `the node does not have what block ${progress.tip.number + 1} changed: remove the directory, and run the same command again`,
    )
  return { start, oldest: Math.max(progress.oldest, oldestState) }
}

/** The newest block of ours that the node has. @throws {BootstrapError} where that is below the start */
async function sharedBlock(node: AskedNode, copy: Copy): Promise<StoredHead> {
  const { start, tip } = copy.progress()!
  for (let at = tip; at.number >= start.number; ) {
    const theirs = await node.ask({ part: 'blocks', from: at.number }, ({ rows }) =>
      rows.length === 0 ? undefined : readCopiedBlocks(rows.slice(0, 1), at.number)[0]?.hash,
    )
    if (theirs !== undefined && equalBytes(theirs, at.hash)) return at
    const header = copy.headerOf(at.hash)
    if (header === undefined || !equalBytes(keccak256(header), at.hash)) break
    at = { number: at.number - 1, hash: decodeHeader(header).parentHash.slice() }
  }
  throw new BootstrapError(
    `the node has another block ${start.number} than when the copy began: remove the directory, and run the same command again`,
  )
}

/**
 * Added and removed canonical blocks, for filters and subscriptions. These follow the canonical
 * chain on both endpoints.
 */

import { logsIn, preparePattern } from '../../engine/chain/logs.ts'
import type { Block, ChainReader, ChainView } from '../../engine/chain/types.ts'
import { blockIfStored, readNewest } from '../../engine/chain/view-reads.ts'
import type { Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { ViewError } from '../../engine/state/reader.ts'
import { headerText, logText } from '../json/json.ts'
import { type HexLog, removedText } from './log-filter.ts'

export type CanonicalBlock = {
  readonly number: bigint
  readonly hash: Hex
  /** JSON text. */
  readonly header: string
  /** undefined: no listener wanted logs when the block was added. */
  readonly logs: readonly HexLog[] | undefined
}
export type CanonicalEvent = { readonly type: 'added' | 'removed'; readonly block: CanonicalBlock }

export interface CanonicalFeed {
  /**
   * Listens to future events, each once and in order. Removed blocks come newest first, then added
   * ones oldest first.
   * @param wantsLogs called when a block is added
   */
  listen(listener: (event: CanonicalEvent) => void, wantsLogs: () => boolean): () => void
  /** Emits events up to the newest snapshot, before the publish notification arrives. */
  catchUp(): void
}

/** Maximum retained blocks, to detect a reorg. A deeper reorg continues from the oldest of them. */
const RETAINED = 128
/** Maximum blocks read at a time, so that a jump of the head does not block the thread. */
const SLICE = 64
const ALL_LOGS = preparePattern({ addresses: [], topics: [] })

export function createCanonicalFeed(options: {
  readonly reader: ChainReader
  readonly onPublish: (listener: () => void) => () => void
}): CanonicalFeed {
  const { reader } = options
  const retained: CanonicalBlock[] = []
  /** Listeners with their `wantsLogs`. */
  const listeners = new Map<(event: CanonicalEvent) => void, () => boolean>()
  options.onPublish(catchUp)

  function catchUp(): void {
    let events: readonly CanonicalEvent[]
    let hasMore: boolean
    try {
      ;({ events, hasMore } = readNewest(reader, 'standard', read))
    } catch (error) {
      // The view became void during the read, so the next publish repeats it.
      if (error instanceof ViewError) return
      throw error
    }
    for (const { type, block } of events) {
      if (type === 'removed') retained.pop()
      else retained.push(block)
      if (retained.length > RETAINED) retained.shift()
    }
    for (const event of events) for (const listener of [...listeners.keys()]) listener(event)
    if (hasMore) setImmediate(catchUp)
  }

  function read(view: ChainView): { events: CanonicalEvent[]; hasMore: boolean } {
    const head = view.canonical
    const last = retained.at(-1)
    if (last === undefined) {
      const block = view.block({ tag: 'latest' })
      return { events: block === undefined ? [] : [added(block, false)], hasMore: false }
    }
    if (last.hash === bytesToHex(head.hash)) return { events: [], hasMore: false }
    const events: CanonicalEvent[] = []
    let common = retained.length - 1
    while (common >= 0 && !isOn(view, retained[common]!)) {
      events.push({ type: 'removed', block: retained[common]! })
      common--
    }
    const from = firstStored(
      view,
      common >= 0 ? retained[common]!.number + 1n : retained[0]!.number,
    )
    const to = from + BigInt(SLICE) <= head.number ? from + BigInt(SLICE) - 1n : head.number
    const withLogs = [...listeners.values()].some((wantsLogs) => wantsLogs())
    for (let number = from; number <= to; number++) {
      const block = view.block({ number })
      if (block !== undefined) events.push(added(block, withLogs))
    }
    return { events, hasMore: to < head.number }
  }

  return {
    catchUp,
    listen(listener, wantsLogs) {
      catchUp()
      listeners.set(listener, wantsLogs)
      return () => void listeners.delete(listener)
    },
  }
}

const isOn = (view: ChainView, { number, hash }: CanonicalBlock): boolean => {
  if (number > view.canonical.number) return false
  const block = blockIfStored(view, number)
  return block !== undefined && bytesToHex(block.hash) === hash
}

/**
 * Returns the first number whose block is stored. Missing blocks are not emitted; after a resync
 * the feed continues at the start of the new state.
 */
function firstStored(view: ChainView, number: bigint): bigint {
  const isStored = number >= view.oldestState || isReadable(blockIfStored(view, number))
  return isStored ? number : view.oldestState
}

function isReadable(block: Block | undefined): boolean {
  try {
    block?.logSummaries()
    return block !== undefined
  } catch (error) {
    if (error instanceof ViewError && error.reason === 'pruned') return false
    throw error
  }
}

function added(block: Block, withLogs: boolean): CanonicalEvent {
  const logs = withLogs
    ? logsIn(block, ALL_LOGS).map((found) => ({
        address: bytesToHex(found.log.address),
        topics: found.log.topics.map(bytesToHex),
        text: logText(found.log, {
          block,
          transactionHash: found.transactionHash,
          index: found.transactionIndex,
          logIndex: found.logIndex,
        }),
      }))
    : undefined
  const { number, hash, header } = block
  return {
    type: 'added',
    block: { number, hash: bytesToHex(hash), header: headerText(header, hash), logs },
  }
}

/** Returns the logs of an event in order of emission. Removed logs are reversed. */
export function logsOfEvent({ type, block }: CanonicalEvent): readonly HexLog[] {
  const logs = block.logs ?? []
  if (type === 'added') return logs
  return logs.toReversed().map((log) => ({ ...log, text: removedText(log.text) }))
}

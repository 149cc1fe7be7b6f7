/** What becomes canonical, block by block, and what ceases to be: for filters and subscriptions, which are canonical on both endpoints. */
import { blockHere } from '../../engine/chain/here.ts'
import { logsIn, preparePattern } from '../../engine/chain/logs.ts'
import { readNewest } from '../../engine/chain/newest.ts'
import type { Block, ChainReader, ChainView } from '../../engine/chain/types.ts'
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
  /** undefined: nobody wanted them when it was added. */
  readonly logs: readonly HexLog[] | undefined
}
export type CanonicalEvent = { readonly type: 'added' | 'removed'; readonly block: CanonicalBlock }

export interface CanonicalFeed {
  /**
   * Events from now on, in order, each once: removed blocks newest first, then added ones oldest first.
   * @param wantsLogs asked when a block is added
   */
  listen(listener: (event: CanonicalEvent) => void, wantsLogs: () => boolean): () => void
  /** Brings the listeners up to the newest record, before its hint has arrived. */
  catchUp(): void
}

/** Blocks kept to tell a reorganisation by; a deeper one starts over at the oldest of them. */
const KEPT = 128
/** Blocks read at a time, so that a jump of the head never holds the thread for long. */
const SLICE = 64
const ALL_LOGS = preparePattern({ addresses: [], topics: [] })

export function createCanonicalFeed(options: {
  readonly reader: ChainReader
  readonly onPublish: (listener: () => void) => () => void
}): CanonicalFeed {
  const { reader } = options
  const kept: CanonicalBlock[] = []
  /** And whether each wants logs. */
  const listeners = new Map<(event: CanonicalEvent) => void, () => boolean>()
  options.onPublish(catchUp)

  function catchUp(): void {
    let events: readonly CanonicalEvent[]
    let isBehind: boolean
    try {
      ;({ events, isBehind } = readNewest(reader, 'standard', read))
    } catch (error) {
      // The view went while it was read: the next publish starts from the same place.
      if (error instanceof ViewError) return
      throw error
    }
    for (const { type, block } of events) {
      if (type === 'removed') kept.pop()
      else kept.push(block)
      if (kept.length > KEPT) kept.shift()
    }
    for (const event of events) for (const listener of [...listeners.keys()]) listener(event)
    if (isBehind) setImmediate(catchUp)
  }

  function read(view: ChainView): { events: CanonicalEvent[]; isBehind: boolean } {
    const head = view.canonical
    const last = kept.at(-1)
    if (last === undefined) {
      const block = view.block({ tag: 'latest' })
      return { events: block === undefined ? [] : [added(block, false)], isBehind: false }
    }
    if (last.hash === bytesToHex(head.hash)) return { events: [], isBehind: false }
    const events: CanonicalEvent[] = []
    let common = kept.length - 1
    while (common >= 0 && !isOn(view, kept[common]!)) {
      events.push({ type: 'removed', block: kept[common]! })
      common--
    }
    const from = firstHere(view, common >= 0 ? kept[common]!.number + 1n : kept[0]!.number)
    const to = from + BigInt(SLICE) <= head.number ? from + BigInt(SLICE) - 1n : head.number
    const withLogs = [...listeners.values()].some((wantsLogs) => wantsLogs())
    for (let number = from; number <= to; number++) {
      const block = view.block({ number })
      if (block !== undefined) events.push(added(block, withLogs))
    }
    return { events, isBehind: to < head.number }
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
  const block = blockHere(view, number)
  return block !== undefined && bytesToHex(block.hash) === hash
}

/** Blocks that nobody has here are told to nobody: a state that began anew is gone on from where it begins. */
function firstHere(view: ChainView, number: bigint): bigint {
  const isHere = number >= view.oldestState || isWhole(blockHere(view, number))
  return isHere ? number : view.oldestState
}

function isWhole(block: Block | undefined): boolean {
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

/** Logs of an event in the order they are told: removed ones backwards. */
export function logsOfEvent({ type, block }: CanonicalEvent): readonly HexLog[] {
  const logs = block.logs ?? []
  if (type === 'added') return logs
  return logs.toReversed().map((log) => ({ ...log, text: removedText(log.text) }))
}

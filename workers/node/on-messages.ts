/** Handles messages of the threads in the main thread. */

import { socketData } from '../../engine/flashblocks/codec.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { ResyncedEffect } from '../../engine/sources/writer/types.ts'
import type { ChainPosition } from '../../engine/views/visibility.ts'
import type { FeedHub } from '../../rpc/feed-server/hub.ts'
import { kebab } from '../config/command.ts'
import { sealedLine } from '../front/banner.ts'
import type { Front } from '../front/front.ts'
import type { SharedPositions } from '../front/shared-positions.ts'
import type { Transactions } from '../front/transactions.ts'
import type { Verifier } from '../front/verifier.ts'
import type { FrontThreads } from '../front-threads/front-threads.ts'
import type { Health } from '../observe/health.ts'
import { isListed } from '../observe/live.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Pool } from '../pool/pool.ts'
import type { NodeContext } from '../process/context.ts'
import type { Failing } from '../process/failing.ts'
import type { FromPersistence, FromRecording, FromWriter } from '../thread/messages.ts'
import type { ChainThreads } from './chain-threads.ts'
import type { ConnectedSource } from './role.ts'

export type Concerned = {
  /** Prints blocks for a person who reads standard output. */
  readonly printsBlocks: boolean
  readonly failing: Failing
  readonly health: Health
  readonly metrics: Metrics
  readonly pool: Pick<Pool, 'cancel'>
  readonly executor: Pick<Verifier, 'block'>
  readonly transactions: Pick<Transactions, 'published'>
  /**
   * Hashes of visible transactions that the txpool has yet to follow; `isFollowed` says if their
   * changes are still to come.
   */
  readonly visible: { hashes: Bytes[]; isFollowed: boolean }
  readonly threads: Pick<ChainThreads, 'persistence'>
  readonly feed: Pick<FeedHub, 'broadcast' | 'changed'>
  readonly later: {
    readonly front?: Pick<Front, 'published' | 'arrived' | 'onMessage'>
    readonly frontThreads?: Pick<FrontThreads, 'notify'>
    readonly sharedPositions?: Pick<SharedPositions, 'had'>
    readonly source?: Pick<ConnectedSource, 'canonicalMoved'>
  }
}

export function onWriter(
  message: Exclude<FromWriter, FromRecording>,
  parts: Concerned,
  { reporter, fail }: NodeContext,
): void {
  const { metrics, health, failing } = parts
  parts.later.front?.onMessage(message)
  notifyFrontThreads(message, parts.later.frontThreads)
  switch (message.type) {
    case 'published':
      if (health.published(message.canonical, message.pending, message.publishMs > 0)) {
        parts.later.source?.canonicalMoved?.()
        parts.executor.block(message.canonical)
      }
      parts.later.front?.published()
      parts.visible.hashes.push(...message.transactions)
      parts.visible.isFollowed = message.isFollowed
      if (!message.isFollowed) afterPublish(parts)
      metrics.published(message)
      return
    case 'sealed':
      if (parts.printsBlocks) process.stdout.write(sealedLine(message))
      return
    case 'had':
      onHad(message.position, parts.later)
      return
    case 'changes':
      parts.feed.changed(message.changes)
      /*
       * On a node with a flashblock lag the changes come before the publish, which is not visible
       * yet.
       */
      if (parts.visible.isFollowed) afterPublish(parts)
      return
    case 'relay':
      parts.feed.broadcast(socketData(message.raw), message.messageId)
      return
    case 'count':
      metrics.count(message.what, message.by)
      return
    case 'replaced':
      onReplaced(message, reporter)
      return
    case 'begun':
      onResynced(message, reporter)
      return
    case 'gauges':
      metrics.gauges(message.values)
      return
    case 'warning':
      reporter.report('writer_doubt', { reason: message.message })
      return
    case 'trapped':
      reporter.report('engine_trapped', { reason: message.reason })
      return
    case 'cancel':
      parts.pool.cancel(message.snapshot)
      return
    case 'failed':
      failing(message.message)
      return
    case 'halted':
      health.halted({ text: message.message, outside: 'canonical blocks stand still' })
      if (message.isFatal) fail(message.message)
      else reporter.report('chain_halted', { reason: message.message })
  }
}

/**
 * Runs the txpool's update in the next turn, after waiting clients are answered and replicas
 * notified.
 */
function afterPublish({ visible, transactions, threads }: Concerned): void {
  visible.isFollowed = false
  setImmediate(() => {
    const waited = transactions.published(visible.hashes.splice(0))
    if (waited.length > 0) threads.persistence.post({ type: 'taken', ms: waited })
  })
}

function onHad(position: ChainPosition, { front, sharedPositions }: Concerned['later']): void {
  front?.arrived()
  sharedPositions?.had(position)
}

/** Front threads read transactions from the snapshots themselves, so the message omits them. */
function notifyFrontThreads(
  message: FromWriter,
  frontThreads: Pick<FrontThreads, 'notify'> | undefined,
): void {
  if (frontThreads === undefined) return
  if (message.type === 'published')
    frontThreads.notify({ type: 'heard', message: { ...message, transactions: [] } })
  else if (message.type === 'sealed' || (message.type === 'count' && isListed(message.what)))
    frontThreads.notify({ type: 'heard', message })
  else if (message.type === 'had') frontThreads.notify({ type: 'arrived' })
  else if (message.type === 'cancel') frontThreads.notify(message)
}

function onReplaced(
  { number, promised, canonical, lost }: FromWriter & { readonly type: 'replaced' },
  { report }: NodeContext['reporter'],
): void {
  const hashes = { promised: bytesToHex(promised), canonical: bytesToHex(canonical) }
  report('promise_broken', {
    number,
    ...hashes,
    lost: lost.slice(0, LISTED_LOST).map(bytesToHex),
    reason: `flashblocks promised block ${number} as ${hashes.promised}, the canonical block is ${hashes.canonical}: ${lost.length} promised transactions are missing`,
  })
}

function onResynced(
  { number, before, keptUpTo, why }: ResyncedEffect,
  { report }: NodeContext['reporter'],
): void {
  const retained = keptUpTo === undefined ? 'no earlier block' : `blocks up to ${keptUpTo}`
  report('state_begun', {
    number,
    before,
    keptUpTo: keptUpTo ?? null,
    reason: `at block ${number}: ${why}; pending is dropped, ${retained} can still be read`,
  })
}

/** Maximum number of lost transactions that one log line names. */
const LISTED_LOST = 100

export function onPersistence(
  message: FromPersistence,
  parts: Pick<Concerned, 'metrics' | 'failing'>,
  { log, reporter }: NodeContext,
): void {
  switch (message.type) {
    case 'ready': {
      const { foldedNumber, durableNumber, dropped } = message
      log.info({ foldedNumber, durableNumber }, 'the database is open')
      if (dropped > 0) reporter.report('blocks_dropped', { dropped })
      return
    }
    case 'stats': {
      const numbers = Object.entries(message.stats).map(([name, value]) => [
        `database_${kebab(name).replaceAll('-', '_')}`,
        Number(value),
      ])
      parts.metrics.gauges(Object.fromEntries(numbers))
      parts.metrics.ledger(message.ledger)
      return
    }
    case 'failed':
      parts.failing(message.message)
      return
    case 'stopped':
      return
  }
}

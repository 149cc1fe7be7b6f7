/** What the threads tell the main thread, and what follows from it. */

import { socketData } from '../../engine/flashblocks/codec.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { BegunEffect } from '../../engine/sources/writer/types.ts'
import type { ShowPlace } from '../../engine/views/showing.ts'
import type { FeedHub } from '../../rpc/feed/hub.ts'
import type { Cells } from '../cells/cells.ts'
import { kebab } from '../config/command.ts'
import { sealedLine } from '../front/banner.ts'
import type { Front } from '../front/front.ts'
import type { SharedPlaces } from '../front/shared-places.ts'
import type { Transactions } from '../front/transactions.ts'
import type { Verifier } from '../front/verifier.ts'
import type { Health } from '../observe/health.ts'
import { isShown } from '../observe/live.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Pool } from '../pool/pool.ts'
import type { NodeContext } from '../process/context.ts'
import type { Failing } from '../process/failing.ts'
import type { FromKeeper, FromTape, FromWriter } from '../thread/messages.ts'
import type { ChainThreads } from './chain-threads.ts'
import type { ConnectedSource } from './role.ts'

/** The parts of a node that messages are about. */
export type Concerned = {
  /** A person reads along on standard output. */
  readonly isTold: boolean
  readonly failing: Failing
  readonly health: Health
  readonly metrics: Metrics
  readonly pool: Pick<Pool, 'cancel'>
  readonly executor: Pick<Verifier, 'block'>
  readonly transactions: Pick<Transactions, 'published'>
  /** Shown, and not followed by the txpool yet: hashes of its transactions, and whether what it changed is still to come. */
  readonly shown: { hashes: Bytes[]; isFollowed: boolean }
  readonly threads: Pick<ChainThreads, 'keeper'>
  readonly feed: Pick<FeedHub, 'broadcast' | 'changed'>
  readonly later: {
    readonly front?: Pick<Front, 'published' | 'arrived' | 'hear'>
    readonly cells?: Pick<Cells, 'tell'>
    readonly places?: Pick<SharedPlaces, 'had'>
    readonly source?: Pick<ConnectedSource, 'canonicalMoved'>
  }
}

export function onWriter(
  message: Exclude<FromWriter, FromTape>,
  parts: Concerned,
  { reporter, fail }: NodeContext,
): void {
  const { metrics, health, failing } = parts
  parts.later.front?.hear(message)
  tellCells(message, parts.later.cells)
  switch (message.type) {
    case 'published':
      if (health.published(message.canonical, message.pending, message.publishMs > 0)) {
        parts.later.source?.canonicalMoved?.()
        parts.executor.block(message.canonical)
      }
      parts.later.front?.published()
      parts.shown.hashes.push(...message.transactions)
      parts.shown.isFollowed = message.isFollowed
      if (!message.isFollowed) afterPublish(parts)
      metrics.published(message)
      return
    case 'sealed':
      if (parts.isTold) process.stdout.write(sealedLine(message))
      return
    case 'had':
      onHad(message.place, parts.later)
      return
    case 'changes':
      parts.feed.changed(message.changes)
      // Of a node that stays behind it comes before its publish, which is not shown yet.
      if (parts.shown.isFollowed) afterPublish(parts)
      return
    case 'relay':
      parts.feed.broadcast(socketData(message.raw), message.place)
      return
    case 'count':
      metrics.count(message.what, message.by)
      return
    case 'replaced':
      onReplaced(message, reporter)
      return
    case 'begun':
      onBegun(message, reporter)
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
      parts.pool.cancel(message.record)
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

/** Whoever waits is answered when this returns, and replicas are told; the txpool reads what was included after that. */
function afterPublish({ shown, transactions, threads }: Concerned): void {
  shown.isFollowed = false
  setImmediate(() => {
    const waited = transactions.published(shown.hashes.splice(0))
    if (waited.length > 0) threads.keeper.post({ type: 'taken', ms: waited })
  })
}

function onHad(place: ShowPlace, { front, places }: Concerned['later']): void {
  front?.arrived()
  places?.had(place)
}

/** What they read of the views by themselves is not in it. */
function tellCells(message: FromWriter, cells: Pick<Cells, 'tell'> | undefined): void {
  if (cells === undefined) return
  if (message.type === 'published')
    cells.tell({ type: 'heard', message: { ...message, transactions: [] } })
  else if (message.type === 'sealed' || (message.type === 'count' && isShown(message.what)))
    cells.tell({ type: 'heard', message })
  else if (message.type === 'had') cells.tell({ type: 'arrived' })
  else if (message.type === 'cancel') cells.tell(message)
}

function onReplaced(
  { number, promised, canonical, lost }: FromWriter & { readonly type: 'replaced' },
  { report }: NodeContext['reporter'],
): void {
  const hashes = { promised: bytesToHex(promised), canonical: bytesToHex(canonical) }
  report('promise_broken', {
    ...{ number, ...hashes, lost: lost.slice(0, SHOWN_LOST).map(bytesToHex) },
    reason: `block ${number} was shown as ${hashes.promised} and is ${hashes.canonical}: ${lost.length} transactions are lost`,
  })
}

function onBegun(
  { number, before, keptUpTo, why }: BegunEffect,
  { report }: NodeContext['reporter'],
): void {
  const kept = keptUpTo === undefined ? 'nothing of before' : `blocks up to ${keptUpTo}`
  report('state_begun', {
    ...{ number, before, keptUpTo: keptUpTo ?? null },
    reason: `at block ${number}: ${why}; pending goes, ${kept} can be read on`,
  })
}

/** Hashes of lost transactions in one line of the log. */
const SHOWN_LOST = 100

export function onKeeper(
  message: FromKeeper,
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

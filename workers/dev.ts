/** The embedded network: the sequencer gets its transactions from the pool, its frames go to the feed, its blocks to the writer. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainReader } from '../engine/chain/types.ts'
import { socketData } from '../engine/flashblocks/codec.ts'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { bytesToHex } from '../engine/primitives/hex.ts'
import type { FlashblockPlace } from '../engine/sources/sequencer-types.ts'
import { FEED_TOKEN_HEADER } from '../rpc/feed.ts'
import type { NodeContext } from './context.ts'
import type { Parts } from './parts.ts'
import { isShown } from './shown-place.ts'

/**
 * Resolves when what was shown before a kill can be read again: the flashblocks of blocks that were not durable come from the
 * sequencer's journal. And on a new chain when its first flashblock can be read, which is made up: nobody who was told that the node is
 * ready sees it come late, or a chain of a genesis alone.
 * @param port where /feed is served by this process.
 */
export async function startNetwork(
  { config, log }: NodeContext,
  parts: Parts,
  port: number,
): Promise<void> {
  const { threads, transactions, feed, feedToken, metrics, failing } = parts
  const { sequencer } = threads
  if (sequencer === undefined) throw new Error('there is no sequencer to start')
  const replayed = Promise.withResolvers<FlashblockPlace | undefined>()
  threads.writer.post({
    type: 'connect',
    feed: `ws://${reachable(config.host)}:${port}/feed`,
    headers: { [FEED_TOKEN_HEADER]: feedToken },
  })
  threads.fromSequencer.open((message) => {
    switch (message.type) {
      case 'want':
        sequencer.post({
          type: 'transactions',
          request: message.request,
          ...transactions.wanted(message),
        })
        return
      case 'returned':
        transactions.returned(message.transactions)
        return
      case 'frame':
        feed?.broadcast(socketData(message.frame))
        return
      case 'deposited':
        parts.deposits?.answer(message.deposited)
        return
      case 'late':
        metrics.late(message.ms)
        return
      case 'sealed':
        threads.writer.post({ type: 'sealed', block: message.block })
        return
      case 'rejected':
        transactions.rejected(message)
        for (const { hash, reason } of message.transactions)
          log.warn({ hash: bytesToHex(hash), reason }, 'the sequencer refused a transaction')
        return
      case 'count':
        metrics.count(message.what, 1)
        log[message.what === 'journal_mismatch' ? 'warn' : 'debug'](
          { what: message.what },
          message.message,
        )
        return
      case 'failed':
        failing(message.message)
        return
      case 'ready':
        replayed.resolve(message.newest)
        return
      case 'stopped':
        return
    }
  })
  transactions.onNews(() => sequencer.post({ type: 'news' }))
  tellExpected(parts)
  // What it sends before the writer listens would be lost.
  await parts.isFollowed
  sequencer.post({ type: 'start' })
  const patience = sleep(REPLAY_MS, undefined, { ref: false })
  const newest = await Promise.race([replayed.promise, patience])
  if (newest !== undefined) await published(parts.reader, newest)
}

/** The writer hears of what the pool accepts, once a turn of the event loop: whoever sent it is answered first. */
function tellExpected({ transactions, threads }: Parts): void {
  let accepted: Bytes[] = []
  transactions.service.onPending((_, { raw }) => {
    accepted.push(raw)
    if (accepted.length > 1) return
    setImmediate(() => {
      threads.writer.post({ type: 'expected', raw: accepted })
      accepted = []
    })
  })
}

/** What takes longer goes on while the node serves. */
const REPLAY_MS = 3_000
const LOOK_MS = 5

/** Waits until the pending head is this flashblock or a later one. */
async function published(reader: ChainReader, place: FlashblockPlace): Promise<void> {
  const until = performance.now() + REPLAY_MS
  while (performance.now() < until && !isShown(reader, place)) await sleep(LOOK_MS)
}

/** An address that stands for all of the machine's is reached by loopback. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

/** The embedded network: the sequencer gets its transactions from the pool, its frames go to the feed, its blocks to the writer. */
import { FEED_TOKEN_HEADER } from '../rpc/feed.ts'
import type { NodeContext } from './context.ts'
import type { FromSequencer } from './messages.ts'
import type { Parts } from './parts.ts'

/** @param port where /feed is served by this process. */
export function startNetwork({ config, log, fail }: NodeContext, parts: Parts, port: number): void {
  const { threads, transactions, feed, feedToken, metrics } = parts
  threads.writer.post({
    type: 'connect',
    feed: `ws://${reachable(config.host)}:${port}/feed`,
    headers: { [FEED_TOKEN_HEADER]: feedToken },
  })
  const sequencer = threads.startSequencer((message: FromSequencer) => {
    switch (message.type) {
      case 'want':
        sequencer.post({
          type: 'transactions',
          request: message.request,
          raw: transactions.wanted(message),
        })
        return
      case 'frame':
        feed?.broadcast(message.frame)
        return
      case 'sealed':
        threads.writer.post({ type: 'sealed', block: message.block })
        return
      case 'rejected':
        transactions.rejected(message)
        return
      case 'count':
        metrics.count(message.what, 1)
        log.warn(message.message)
        return
      case 'failed':
        fail(message.message)
        return
      case 'ready':
      case 'stopped':
        return
    }
  })
  parts.later.sequencer = sequencer
}

/** An address that stands for all of the machine's is reached by loopback. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

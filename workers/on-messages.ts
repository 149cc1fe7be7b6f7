/** What the threads tell the main thread, and what follows from it. */
import { sealedLine } from './banner.ts'
import type { NodeContext } from './context.ts'
import type { FromKeeper, FromWriter } from './messages.ts'
import { kebab } from './options.ts'
import type { Parts } from './parts.ts'

export function onWriter(message: FromWriter, parts: Parts, { log, fail }: NodeContext): void {
  const { metrics, health, failing } = parts
  switch (message.type) {
    case 'ready':
    case 'stopped':
      return
    case 'published':
      // The sequencer first: it waits for its parent.
      parts.threads.sequencer?.post({ type: 'published' })
      health.published(message.canonical, message.pending)
      parts.later.front?.published()
      // Whoever waits is answered when this returns; the pool reads what was included after that.
      setImmediate(() => parts.transactions.published())
      metrics.published(message)
      return
    case 'sealed':
      if (process.stdout.isTTY) process.stdout.write(sealedLine(message))
      return
    case 'count':
      metrics.count(message.what, message.by)
      return
    case 'gauges':
      metrics.gauges(message.values)
      return
    case 'warning':
      log.warn(message.message)
      return
    case 'cancel':
      parts.pool.cancel(message.record)
      return
    case 'failed':
      failing(message.message)
      return
    case 'halted':
      health.halted(message.message)
      if (message.isFatal) fail(message.message)
      else log.error(message.message)
  }
}

export function onKeeper(message: FromKeeper, parts: Parts, { log }: NodeContext): void {
  switch (message.type) {
    case 'ready': {
      const { foldedNumber, durableNumber, dropped } = message
      log.info({ foldedNumber, durableNumber }, 'the database is open')
      if (dropped > 0) log.warn({ dropped }, 'dropped stored blocks whose state root was wrong')
      return
    }
    case 'stats': {
      const numbers = Object.entries(message.stats).map(([name, value]) => [
        `database_${kebab(name).replaceAll('-', '_')}`,
        Number(value),
      ])
      parts.metrics.gauges(Object.fromEntries(numbers))
      return
    }
    case 'failed':
      parts.failing(message.message)
      return
    case 'stopped':
      return
  }
}

/**
 * `--share-transactions`: replicas share the transactions of their clients over a Redis stream. So
 * each of them holds receipts for these, counts their nonces and notifies subscribers before their
 * flashblock. A transaction that cannot be shared reaches the others only with its flashblock.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { TransactionService } from '../../rpc/core/ports.ts'
import { connectRedis, logOnce, type RedisClient } from '../../rpc/limiter/redis-client.ts'
import { createReceivedTransactions, type ReceivedOptions } from './received-transactions.ts'

export interface SharedTransactions {
  /** Wraps a service, so that the other replicas receive what it accepts. */
  telling(service: TransactionService): TransactionService
  stats(): Readonly<Record<string, number>>
  close(): void
}

/** `transactions` takes the transactions of the other replicas. */
export type SharedTransactionsOptions = ReceivedOptions & {
  readonly url: string
  readonly chainId: bigint
}

/**
 * Approximate length of the stream; the oldest entries are dropped. With MAX_BYTES each, it takes
 * 80 MB in Redis.
 */
const MAX_ENTRIES = 10_000
/**
 * Longer transactions reach the others with their flashblock, because the stream is for many small
 * ones.
 */
const MAX_BYTES = 8_192
/** Maximum number of unconfirmed entries; further transactions are not shared. */
const MAX_OPEN = 1_000
/** Maximum entries of one response, and the time that Redis waits for new entries. */
const AT_ONCE = 100
const BLOCK_MS = 5_000
/** Age of the oldest entries that a new reader takes; older transactions are in a block. */
const PAST_MS = 15_000
const RETRY_MS = 500

export function shareTransactions(options: SharedTransactionsOptions): SharedTransactions {
  const { url, chainId, report } = options
  const key = `flashnode:transactions:${chainId}`
  /** Origin of this node's entries, to skip them on receipt. */
  const own = randomBytes(8).toString('hex')
  const counts = { sent: 0, unsent: 0, received: 0 }
  const received = createReceivedTransactions(options)
  let isClosed = false
  const once = logOnce((reason) => report('transactions_not_shared', { reason }))
  const connect = () => connectRedis(url, { onDisconnected: once.disconnected, onReady: once.back })
  const [writer, reader] = [connect(), connect()]
  const share = createTelling({
    client: writer,
    key,
    own,
    counts,
    onDisconnected: once.disconnected,
  })

  /** Reads the stream, and continues at the last entry whenever the connection ends. */
  async function listen(): Promise<void> {
    let from: string | undefined
    while (!isClosed)
      try {
        from ??= await startId(reader)
        for (const { id, origin, raw } of await entriesAfter(reader, key, from)) {
          from = id
          if (origin === own || raw === undefined) continue
          counts.received++
          received.take(new Uint8Array(raw))
        }
      } catch (error) {
        once.disconnected((error as Error).message)
        await pause(RETRY_MS, undefined, { ref: false })
      }
  }
  void listen()
  return {
    telling: (service) => ({ ...service, submit: submitting(service, share) }),
    stats: () => ({
      sharedTold: counts.sent,
      sharedUntold: counts.unsent,
      sharedHeard: counts.received,
      sharedDropped: received.dropped,
    }),
    close() {
      isClosed = true
      once.end()
      for (const client of [writer, reader]) client.disconnect()
    },
  }
}

const submitting =
  (
    service: Pick<TransactionService, 'submit'>,
    share: (raw: Bytes) => void,
  ): TransactionService['submit'] =>
  (raw, client, isTaken) => {
    const submitted = service.submit(raw, client, isTaken)
    const record = (said: Awaited<typeof submitted>) => {
      if ('hash' in said) share(raw)
      return said
    }
    return submitted instanceof Promise ? submitted.then(record) : record(submitted)
  }

/** Shares transactions without waiting for the result. */
function createTelling(to: {
  readonly client: RedisClient
  readonly key: string
  readonly own: string
  readonly counts: { sent: number; unsent: number }
  readonly onDisconnected: (reason: string) => void
}): (raw: Bytes) => void {
  const { client, key, own, counts, onDisconnected } = to
  let open = 0
  return (raw) => {
    if (raw.length > MAX_BYTES || open >= MAX_OPEN) {
      counts.unsent++
      return
    }
    open++
    const entry = ['o', own, 't', Buffer.from(raw)]
    client.xadd(key, 'MAXLEN', '~', MAX_ENTRIES, '*', ...entry).then(
      () => {
        open--
        counts.sent++
      },
      (error: Error) => {
        open--
        counts.unsent++
        onDisconnected(error.message)
      },
    )
  }
}

/** Computes the first entry's id by the clock of Redis, which stamps the entries. */
async function startId(client: RedisClient): Promise<string> {
  const [seconds] = await client.time()
  return `${Math.max(0, Number(seconds) * 1_000 - PAST_MS)}-0`
}

type Entry = {
  readonly id: string
  readonly origin: string | undefined
  readonly raw: Bytes | undefined
}
async function entriesAfter(client: RedisClient, key: string, from: string): Promise<Entry[]> {
  const said = (await client.xreadBuffer(
    ...(['COUNT', AT_ONCE, 'BLOCK', BLOCK_MS, 'STREAMS', key, from] as const),
  )) as [Buffer, [Buffer, Buffer[]][]][] | null
  return (said ?? []).flatMap(([, entries]) =>
    entries.map(([id, fields]) => {
      const found = new Map<string, Buffer>()
      for (let at = 0; at + 1 < fields.length; at += 2)
        found.set(fields[at]!.toString(), fields[at + 1]!)
      return { id: id.toString(), origin: found.get('o')?.toString(), raw: found.get('t') }
    }),
  )
}

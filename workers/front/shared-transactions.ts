/**
 * `--share-transactions`: replicas tell each other what their clients have sent, over a stream of Redis, so that each holds receipts for it,
 * counts it in nonces and tells its subscribers, before it is in a flashblock. What cannot be told is lost to the others until then, no more.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { connectRedis, type RedisClient, sayOnce } from '../../rpc/limiter/redis-client.ts'
import type { TransactionService } from '../../rpc/seam/ports.ts'
import { createHeardTransactions, type HeardOptions } from './heard-transactions.ts'

export interface SharedTransactions {
  /** The others hear of what this service accepts from now on. */
  telling(service: TransactionService): TransactionService
  stats(): Readonly<Record<string, number>>
  close(): void
}

/** The others have told what `transactions` takes. */
export type SharedTransactionsOptions = HeardOptions & {
  readonly url: string
  readonly chainId: bigint
}

/** Of the stream, about: the oldest go. With the bound of one they are 80 MB in Redis. */
const MOST_ENTRIES = 10_000
/** Longer ones are heard of with their flashblock: the stream is for many small ones. */
const MOST_BYTES = 8_192
/** That Redis has not confirmed: what comes beyond is not told. */
const MOST_OPEN = 1_000
/** In one answer, and for how long an answer may take that has nothing. */
const AT_ONCE = 100
const BLOCK_MS = 5_000
/** Of the past, for who begins: what was sent before that is in a block. */
const PAST_MS = 15_000
const RETRY_MS = 500

export function shareTransactions(options: SharedTransactionsOptions): SharedTransactions {
  const { url, chainId, report } = options
  const key = `flashnode:transactions:${chainId}`
  /** Who hears its own words passes over them. */
  const own = randomBytes(8).toString('hex')
  const counts = { told: 0, untold: 0, heard: 0 }
  const heard = createHeardTransactions(options)
  let isClosed = false
  const once = sayOnce((reason) => report('transactions_not_shared', { reason }))
  const connect = () => connectRedis(url, { onAway: once.away, onReady: once.back })
  const [writer, reader] = [connect(), connect()]
  const tell = createTelling({ client: writer, key, own, counts, onAway: once.away })

  /** From where it was, however often the connection ends. */
  async function listen(): Promise<void> {
    let from: string | undefined
    while (!isClosed)
      try {
        from ??= await beginning(reader)
        for (const { id, origin, raw } of await entriesAfter(reader, key, from)) {
          from = id
          if (origin === own || raw === undefined) continue
          counts.heard++
          heard.take(new Uint8Array(raw))
        }
      } catch (error) {
        once.away((error as Error).message)
        await pause(RETRY_MS, undefined, { ref: false })
      }
  }
  void listen()
  return {
    telling: (service) => ({ ...service, submit: submitting(service, tell) }),
    stats: () => ({
      sharedTold: counts.told,
      sharedUntold: counts.untold,
      sharedHeard: counts.heard,
      sharedDropped: heard.dropped,
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
    tell: (raw: Bytes) => void,
  ): TransactionService['submit'] =>
  (raw, client, isTaken) => {
    const submitted = service.submit(raw, client, isTaken)
    const note = (said: Awaited<typeof submitted>) => {
      if ('hash' in said) tell(raw)
      return said
    }
    return submitted instanceof Promise ? submitted.then(note) : note(submitted)
  }

/** Nobody waits for it. */
function createTelling(to: {
  readonly client: RedisClient
  readonly key: string
  readonly own: string
  readonly counts: { told: number; untold: number }
  readonly onAway: (reason: string) => void
}): (raw: Bytes) => void {
  const { client, key, own, counts, onAway } = to
  let open = 0
  return (raw) => {
    if (raw.length > MOST_BYTES || open >= MOST_OPEN) {
      counts.untold++
      return
    }
    open++
    const entry = ['o', own, 't', Buffer.from(raw)]
    client.xadd(key, 'MAXLEN', '~', MOST_ENTRIES, '*', ...entry).then(
      () => {
        open--
        counts.told++
      },
      (error: Error) => {
        open--
        counts.untold++
        onAway(error.message)
      },
    )
  }
}

/** By the clock of Redis, which stamps the entries. */
async function beginning(client: RedisClient): Promise<string> {
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

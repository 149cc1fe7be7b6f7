/**
 * eth_subscribe over WebSocket: canonical heads and logs, pool transactions, syncing state,
 * flashblocks.
 */
import { randomBytes } from 'node:crypto'
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import type { Client } from '../core/client.ts'
import { concurrencyLimitReached, notificationsUnsupported } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import type { Syncing, TransactionService } from '../core/ports.ts'
import { pooledText } from '../json/json.ts'
import { type CanonicalEvent, type CanonicalFeed, logsOfEvent } from './canonical.ts'
import { encoded } from './flashblock.ts'
import type { FlashblockFeed } from './flashblock-feed.ts'
import { createFlashblockSubscriptions } from './flashblock-subscriptions.ts'
import { type AwaitedLogs, createLogMatcher } from './log-filter.ts'
import { newSubscriber, Outbox, type Subscriber } from './outbox.ts'
import type { FlashblockSubscription } from './since.ts'

export type SubscriptionKind =
  | { readonly kind: 'newHeads' }
  | { readonly kind: 'logs'; readonly awaited: AwaitedLogs }
  | { readonly kind: 'newPendingTransactions'; readonly isFull: boolean }
  | { readonly kind: 'syncing' }
  | FlashblockSubscription
export interface Subscriptions {
  /**
   * Adds a subscription. Its events are buffered until `start`, which the caller calls after
   * sending the id.
   * @throws {RpcError}
   */
  add(client: Client, what: SubscriptionKind): { readonly id: string; readonly start: () => void }
  /** Ends a subscription of the same client. */
  remove(client: Client, id: string): boolean
  readonly size: number
  /** Number of clients whose subscriptions ended because they read too slowly. */
  readonly slow: number
}

type Subscription = { readonly subscriber: Subscriber; readonly detach: () => void }

type SubscriptionOptions = {
  readonly canonical: CanonicalFeed
  /** Visible flashblocks of each endpoint. */
  readonly flashblocks: Readonly<Record<Endpoint, FlashblockFeed>>
  readonly transactions: TransactionService
  readonly onPublish: (listener: () => void) => () => void
  readonly syncing: () => Syncing
  readonly limits: Pick<Limits, 'subscriptionsPerConnection' | 'filterItems' | 'sendQueueBytes'>
}
export const createSubscriptions = (options: SubscriptionOptions): Subscriptions =>
  new LiveSubscriptions(options)

class LiveSubscriptions implements Subscriptions {
  readonly #options: SubscriptionOptions
  readonly #clients = new Map<Client, Map<string, Subscription>>()
  readonly #ofHeads = new Set<Subscriber>()
  readonly #ofPending = new Map<Subscriber, boolean>()
  readonly #ofSyncing = new Set<Subscriber>()
  readonly #ofLogs = createLogMatcher<Subscriber>()
  readonly #ofFlashblocks: ReturnType<typeof createFlashblockSubscriptions>
  readonly #outbox = new Outbox()
  #size = 0
  #stopListening: (() => void) | undefined
  #lastSyncing: string
  slow = 0

  constructor(options: SubscriptionOptions) {
    this.#options = options
    this.#lastSyncing = syncingText(options.syncing())
    this.#ofFlashblocks = createFlashblockSubscriptions({
      feeds: options.flashblocks,
      send: (subscriber, result) => this.#send(subscriber, result),
      flush: () => this.#flush(),
      // Half of the queue is left for events that arrive during the replay. A replay alone
      // therefore never closes a connection.
      maxBytes: options.limits.sendQueueBytes / 2,
    })
  }

  get size(): number {
    return this.#size
  }

  add(client: Client, what: SubscriptionKind): { readonly id: string; readonly start: () => void } {
    const { limits, canonical } = this.#options
    if (client.notify === undefined || client.isGone) throw notificationsUnsupported()
    const own = this.#ownOf(client)
    if (own.size >= limits.subscriptionsPerConnection)
      throw concurrencyLimitReached('too many subscriptions', limits.subscriptionsPerConnection)
    canonical.catchUp()
    this.#stopListening ??= this.#listen()
    const id = `0x${randomBytes(16).toString('hex')}`
    const subscriber = newSubscriber(id, client)
    own.set(id, { subscriber, detach: this.#attach(subscriber, what) })
    this.#size++
    const start = (): void => {
      this.#outbox.start(subscriber)
      this.#flush()
    }
    return { id, start }
  }

  remove(client: Client, id: string): boolean {
    const subscription = this.#clients.get(client)?.get(id)
    if (subscription !== undefined) this.#remove(subscription)
    return subscription !== undefined
  }

  #listen(): () => void {
    const { canonical, transactions, onPublish } = this.#options
    const stops = [
      canonical.listen(
        (event) => this.#onCanonical(event),
        () => this.#ofLogs.size > 0,
      ),
      transactions.onPending((hash, transaction) => this.#onPending(hash, transaction)),
      onPublish(() => this.#onPublish()),
    ]
    return () => {
      for (const stop of stops) stop()
    }
  }

  #onCanonical(event: CanonicalEvent): void {
    if (event.type === 'added' && this.#ofHeads.size > 0) {
      const header = encoded(event.block.header)
      for (const one of this.#ofHeads) this.#send(one, header)
    }
    for (const log of this.#ofLogs.size === 0 ? [] : logsOfEvent(event)) {
      const bytes = encoded(log.text)
      for (const one of this.#ofLogs.match(log, event.block.number)) this.#send(one, bytes)
    }
    this.#flush()
  }

  #onPending(hash: Bytes, transaction: SignedTransaction): void {
    if (this.#ofPending.size === 0) return
    const hashBytes = encoded(`"${bytesToHex(hash)}"`)
    let full: Bytes | undefined
    for (const [one, isFull] of this.#ofPending) {
      if (isFull) full ??= encoded(pooledText(transaction))
      this.#send(one, (isFull ? full : undefined) ?? hashBytes)
    }
    this.#flush()
  }

  #onPublish(): void {
    if (this.#ofSyncing.size === 0) return
    const text = syncingText(this.#options.syncing())
    if (text === this.#lastSyncing) return
    this.#lastSyncing = text
    const bytes = encoded(text)
    for (const one of this.#ofSyncing) this.#send(one, bytes)
    this.#flush()
  }

  #send(subscriber: Subscriber, result: Bytes): void {
    const { results, isStarted, client, id } = subscriber
    if (isStarted || results.length < this.#options.limits.filterItems)
      this.#outbox.put(subscriber, result)
    else this.remove(client, id)
  }

  /**
   * Sends the results. A client that cannot accept them is being closed, so its subscriptions end.
   */
  #flush(): void {
    for (const client of this.#outbox.flush()) {
      if (!client.isGone) this.slow++
      this.#removeAll(client)
    }
  }

  #remove({ subscriber, detach }: Subscription): void {
    const own = this.#clients.get(subscriber.client)
    if (own === undefined || !own.delete(subscriber.id)) return
    detach()
    this.#outbox.drop(subscriber)
    this.#size--
    if (this.#size > 0) return
    this.#stopListening?.()
    this.#stopListening = undefined
  }

  #removeAll(client: Client): void {
    for (const one of [...(this.#clients.get(client)?.values() ?? [])]) this.#remove(one)
  }

  /** Returns the subscriptions of a connection, which end with it. */
  #ownOf(client: Client): Map<string, Subscription> {
    const known = this.#clients.get(client)
    if (known !== undefined) return known
    const own = new Map<string, Subscription>()
    this.#clients.set(client, own)
    client.signal.addEventListener(
      'abort',
      () => {
        this.#removeAll(client)
        this.#clients.delete(client)
      },
      { once: true },
    )
    return own
  }

  #attach(subscriber: Subscriber, what: SubscriptionKind): () => void {
    switch (what.kind) {
      case 'newHeads':
        this.#ofHeads.add(subscriber)
        return () => this.#ofHeads.delete(subscriber)
      case 'logs':
        return this.#ofLogs.add(what.awaited, subscriber)
      case 'newPendingTransactions':
        this.#ofPending.set(subscriber, what.isFull)
        return () => this.#ofPending.delete(subscriber)
      case 'syncing':
        this.#lastSyncing = syncingText(this.#options.syncing())
        this.#ofSyncing.add(subscriber)
        return () => this.#ofSyncing.delete(subscriber)
      default:
        return this.#ofFlashblocks.add(subscriber, what)
    }
  }
}

/** Returns go-ethereum's form: false, or an object with the state. */
function syncingText(state: Syncing): string {
  if (state === false) return 'false'
  const status = Object.entries(state).map(([name, value]) => `"${name}":"0x${value.toString(16)}"`)
  return `{"syncing":true,"status":{${status.join(',')}}}`
}

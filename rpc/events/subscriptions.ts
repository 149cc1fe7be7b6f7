/** eth_subscribe over WebSocket: canonical heads and logs, pooled transactions, the state of syncing. */
import { randomBytes } from 'node:crypto'
import type { LogPattern } from '../../engine/chain/logs.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import { pooledText } from '../json/json.ts'
import type { Client } from '../seam/client.ts'
import { capReached, notificationsUnsupported } from '../seam/errors.ts'
import type { Limits } from '../seam/limits.ts'
import type { Syncing, TransactionService } from '../seam/ports.ts'
import { type CanonicalEvent, type CanonicalFeed, logsOfEvent } from './canonical.ts'
import { createLogMatcher } from './log-filter.ts'

export type SubscriptionKind =
  | { readonly kind: 'newHeads' }
  | { readonly kind: 'logs'; readonly pattern: LogPattern }
  | { readonly kind: 'newPendingTransactions'; readonly isFull: boolean }
  | { readonly kind: 'syncing' }

export interface Subscriptions {
  /** Events from now on are kept until `start`, which the caller calls once the id is with the client. @throws {RpcError} */
  add(client: Client, what: SubscriptionKind): { readonly id: string; readonly start: () => void }
  /** Only the client that made it may end it. */
  remove(client: Client, id: string): boolean
  readonly size: number
}

type Subscription = {
  readonly id: string
  readonly client: Client
  /** Before the start: what is to be sent first. */
  waiting: string[] | undefined
  detach: () => void
}

type SubscriptionOptions = {
  readonly canonical: CanonicalFeed
  readonly transactions: TransactionService
  readonly onPublish: (listener: () => void) => () => void
  readonly syncing: () => Syncing
  readonly limits: Pick<Limits, 'subscriptionsPerConnection' | 'filterItems'>
}
export const createSubscriptions = (options: SubscriptionOptions): Subscriptions =>
  new LiveSubscriptions(options)

class LiveSubscriptions implements Subscriptions {
  readonly #options: SubscriptionOptions
  readonly #clients = new Map<Client, Map<string, Subscription>>()
  readonly #ofHeads = new Set<Subscription>()
  readonly #ofPending = new Map<Subscription, boolean>()
  readonly #ofSyncing = new Set<Subscription>()
  readonly #ofLogs = createLogMatcher<Subscription>()
  #size = 0
  #stopListening: (() => void) | undefined
  #lastSyncing: string

  constructor(options: SubscriptionOptions) {
    this.#options = options
    this.#lastSyncing = syncingText(options.syncing())
  }

  get size(): number {
    return this.#size
  }

  add(client: Client, what: SubscriptionKind): { readonly id: string; readonly start: () => void } {
    const { limits, canonical } = this.#options
    if (client.notify === undefined || client.isGone) throw notificationsUnsupported()
    const own = this.#ownOf(client)
    if (own.size >= limits.subscriptionsPerConnection)
      throw capReached('too many subscriptions', limits.subscriptionsPerConnection)
    canonical.catchUp()
    this.#stopListening ??= this.#listen()
    const id = `0x${randomBytes(16).toString('hex')}`
    const subscription: Subscription = { id, client, waiting: [], detach() {} }
    subscription.detach = this.#attach(subscription, what)
    own.set(id, subscription)
    this.#size++
    const start = (): void => {
      const waiting = subscription.waiting ?? []
      subscription.waiting = undefined
      for (const text of waiting) client.notify?.(text)
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
      canonical.listen((event) => this.#onCanonical(event), 'logs'),
      transactions.onPending((hash, transaction) => this.#onPending(hash, transaction)),
      onPublish(() => this.#onPublish()),
    ]
    return () => {
      for (const stop of stops) stop()
    }
  }

  #onCanonical(event: CanonicalEvent): void {
    if (event.type === 'added') for (const one of this.#ofHeads) this.#send(one, event.block.header)
    if (this.#ofLogs.size === 0) return
    for (const log of logsOfEvent(event))
      for (const one of this.#ofLogs.match(log)) this.#send(one, log.text)
  }

  #onPending(hash: Bytes, transaction: SignedTransaction): void {
    if (this.#ofPending.size === 0) return
    const hashText = `"${bytesToHex(hash)}"`
    let full: string | undefined
    for (const [one, isFull] of this.#ofPending) {
      if (isFull) full ??= pooledText(transaction)
      this.#send(one, (isFull ? full : undefined) ?? hashText)
    }
  }

  #onPublish(): void {
    if (this.#ofSyncing.size === 0) return
    const text = syncingText(this.#options.syncing())
    if (text === this.#lastSyncing) return
    this.#lastSyncing = text
    for (const one of this.#ofSyncing) this.#send(one, text)
  }

  #send(subscription: Subscription, result: string): void {
    const { id, client, waiting } = subscription
    const text = `{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"${id}","result":${result}}}`
    if (waiting === undefined) client.notify?.(text)
    else if (waiting.length < this.#options.limits.filterItems) waiting.push(text)
    else this.#remove(subscription)
  }

  #remove(subscription: Subscription): void {
    const own = this.#clients.get(subscription.client)
    if (own === undefined || !own.delete(subscription.id)) return
    subscription.detach()
    this.#size--
    if (this.#size > 0) return
    this.#stopListening?.()
    this.#stopListening = undefined
  }

  /** The subscriptions of a connection, which end with it. */
  #ownOf(client: Client): Map<string, Subscription> {
    const known = this.#clients.get(client)
    if (known !== undefined) return known
    const own = new Map<string, Subscription>()
    this.#clients.set(client, own)
    client.signal.addEventListener(
      'abort',
      () => {
        for (const one of [...own.values()]) this.#remove(one)
        this.#clients.delete(client)
      },
      { once: true },
    )
    return own
  }

  #attach(subscription: Subscription, what: SubscriptionKind): () => void {
    switch (what.kind) {
      case 'newHeads':
        this.#ofHeads.add(subscription)
        return () => this.#ofHeads.delete(subscription)
      case 'logs':
        return this.#ofLogs.add(what.pattern, subscription)
      case 'newPendingTransactions':
        this.#ofPending.set(subscription, what.isFull)
        return () => this.#ofPending.delete(subscription)
      case 'syncing':
        this.#lastSyncing = syncingText(this.#options.syncing())
        this.#ofSyncing.add(subscription)
        return () => this.#ofSyncing.delete(subscription)
    }
  }
}

/** go-ethereum's form: false, or an object that says so with the state. */
function syncingText(state: Syncing): string {
  if (state === false) return 'false'
  const status = Object.entries(state).map(([name, value]) => `"${name}":"0x${value.toString(16)}"`)
  return `{"syncing":true,"status":{${status.join(',')}}}`
}

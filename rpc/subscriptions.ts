/** eth_subscribe over WebSocket: canonical heads and logs, pooled transactions, the state of syncing. */
import { randomBytes } from 'node:crypto'
import type { LogPattern } from '../engine/chain/logs.ts'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { bytesToHex } from '../engine/primitives/hex.ts'
import type { SignedTransaction } from '../engine/primitives/transaction.ts'
import { type CanonicalEvent, type CanonicalFeed, logsOfEvent } from './canonical.ts'
import { capReached, notificationsUnsupported } from './errors.ts'
import { pooledText } from './json.ts'
import type { Limits } from './limits.ts'
import { createLogMatcher } from './log-filter.ts'
import type { Client } from './method.ts'
import type { FrontServices, PoolService } from './services.ts'

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

export function createSubscriptions(options: {
  readonly canonical: CanonicalFeed
  readonly pool: PoolService
  readonly onPublish: (listener: () => void) => () => void
  readonly syncing: FrontServices['syncing']
  readonly limits: Limits
}): Subscriptions {
  const { canonical, pool, syncing, limits } = options
  const clients = new Map<Client, Map<string, Subscription>>()
  const ofHeads = new Set<Subscription>()
  const ofPending = new Map<Subscription, boolean>()
  const ofSyncing = new Set<Subscription>()
  const ofLogs = createLogMatcher<Subscription>()
  let size = 0
  let stopListening: (() => void) | undefined
  let lastSyncing = syncingText(syncing())

  function startListening(): () => void {
    const stops = [
      canonical.listen(onCanonical, 'logs'),
      pool.onPending(onPending),
      options.onPublish(onPublish),
    ]
    return () => {
      for (const stop of stops) stop()
    }
  }

  function onCanonical(event: CanonicalEvent): void {
    if (event.type === 'added') for (const one of ofHeads) send(one, event.block.header)
    if (ofLogs.size === 0) return
    for (const log of logsOfEvent(event)) for (const one of ofLogs.match(log)) send(one, log.text)
  }

  function onPending(hash: Bytes, transaction: SignedTransaction): void {
    if (ofPending.size === 0) return
    const hashText = `"${bytesToHex(hash)}"`
    let full: string | undefined
    for (const [one, isFull] of ofPending) {
      if (isFull) full ??= pooledText(transaction)
      send(one, (isFull ? full : undefined) ?? hashText)
    }
  }

  function onPublish(): void {
    if (ofSyncing.size === 0) return
    const text = syncingText(syncing())
    if (text === lastSyncing) return
    lastSyncing = text
    for (const one of ofSyncing) send(one, text)
  }

  function send(subscription: Subscription, result: string): void {
    const { id, client, waiting } = subscription
    const text = `{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"${id}","result":${result}}}`
    if (waiting === undefined) client.notify?.(text)
    else if (waiting.length < limits.filterItems) waiting.push(text)
    else remove(subscription)
  }

  function remove(subscription: Subscription): void {
    const own = clients.get(subscription.client)
    if (own === undefined || !own.delete(subscription.id)) return
    subscription.detach()
    size--
    if (size > 0) return
    stopListening?.()
    stopListening = undefined
  }

  /** The subscriptions of a connection, which end with it. */
  function ownOf(client: Client): Map<string, Subscription> {
    const known = clients.get(client)
    if (known !== undefined) return known
    const own = new Map<string, Subscription>()
    clients.set(client, own)
    client.signal.addEventListener(
      'abort',
      () => {
        for (const one of [...own.values()]) remove(one)
        clients.delete(client)
      },
      { once: true },
    )
    return own
  }

  function attach(subscription: Subscription, what: SubscriptionKind): () => void {
    switch (what.kind) {
      case 'newHeads':
        ofHeads.add(subscription)
        return () => ofHeads.delete(subscription)
      case 'logs':
        return ofLogs.add(what.pattern, subscription)
      case 'newPendingTransactions':
        ofPending.set(subscription, what.isFull)
        return () => ofPending.delete(subscription)
      case 'syncing':
        lastSyncing = syncingText(syncing())
        ofSyncing.add(subscription)
        return () => ofSyncing.delete(subscription)
    }
  }

  return {
    add(client, what) {
      if (client.notify === undefined || client.isGone) throw notificationsUnsupported()
      const own = ownOf(client)
      if (own.size >= limits.subscriptionsPerConnection)
        throw capReached('too many subscriptions', limits.subscriptionsPerConnection)
      canonical.catchUp()
      stopListening ??= startListening()
      const id = `0x${randomBytes(16).toString('hex')}`
      const subscription: Subscription = { id, client, waiting: [], detach() {} }
      subscription.detach = attach(subscription, what)
      own.set(id, subscription)
      size++
      const start = (): void => {
        const waiting = subscription.waiting ?? []
        subscription.waiting = undefined
        for (const text of waiting) client.notify?.(text)
      }
      return { id, start }
    },
    remove(client, id) {
      const subscription = clients.get(client)?.get(id)
      if (subscription !== undefined) remove(subscription)
      return subscription !== undefined
    },
    get size() {
      return size
    },
  }
}

/** go-ethereum's form: false, or an object that says so with the state. */
function syncingText(state: ReturnType<FrontServices['syncing']>): string {
  if (state === false) return 'false'
  const status = Object.entries(state).map(([name, value]) => `"${name}":"0x${value.toString(16)}"`)
  return `{"syncing":true,"status":{${status.join(',')}}}`
}

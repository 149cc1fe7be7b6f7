/**
 * Kinds of flashblock subscriptions, one channel each. A channel makes the results of a
 * notification, as JSON, and chooses the subscribers that get them.
 */
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { FlashblockEvent, Gap } from './emitted-flashblocks.ts'
import type { Flashblock } from './flashblock.ts'
import { type AwaitedLogs, createLogMatcher } from './log-filter.ts'

/** X Layer's filter. Empty addresses match every transaction. */
export type TransactionFilter = {
  readonly hasHeaders: boolean
  readonly addresses: readonly Bytes[]
  readonly includes: { readonly info: boolean; readonly receipt: boolean }
}
/** Options of a subscriber of each kind. */
export type FlashblockOptions = {
  readonly flashblocks: TransactionFilter
  readonly newFlashblocks: undefined
  readonly pendingLogs: AwaitedLogs
  readonly newFlashblockTransactions: { readonly isFull: boolean }
  /** Hashes of transactions; empty matches every transaction. */
  readonly transactionReceipts: readonly Bytes[]
}
export type FlashblockKind = keyof FlashblockOptions

/** Events that each kind formats in its own way. All kinds format gaps alike. */
type FlashblockChange = Exclude<FlashblockEvent, Gap>

/**
 * Emits results to its subscribers `S`, which are compared by identity. A channel remembers no
 * event, so a replay may emit events in any order.
 */
export interface Channel<S, Options> {
  /**
   * Adds a subscriber, which must not be in the channel yet.
   * @returns removes the subscriber
   */
  add(subscriber: S, options: Options): () => void
  /** Calls `send` with each result of the event, for each subscriber that the result concerns. */
  emit(event: FlashblockChange, send: Send<S>): void
}
export type Channels<S> = {
  readonly [K in FlashblockKind]: Channel<S, FlashblockOptions[K]>
}

/** Creates a channel of each kind. Each endpoint and each replay has its own channels. */
export const createChannels = <S>(): Channels<S> => ({
  flashblocks: flashblocksChannel(),
  newFlashblocks: newFlashblocksChannel(),
  pendingLogs: pendingLogsChannel(),
  newFlashblockTransactions: newFlashblockTransactionsChannel(),
  transactionReceipts: transactionReceiptsChannel(),
})

type Send<S> = (subscriber: S, result: Bytes) => void

/** Subscribers indexed by key. The hex text of a key is in lower case, with 0x. */
class Index<Key, S> {
  readonly #sets = new Map<Key, Set<S>>()

  add(keys: readonly Key[], subscriber: S): () => void {
    for (const key of keys) this.#sets.set(key, (this.#sets.get(key) ?? new Set()).add(subscriber))
    return () => {
      for (const key of keys) {
        const set = this.#sets.get(key)
        set?.delete(subscriber)
        if (set?.size === 0) this.#sets.delete(key)
      }
    }
  }
  get(key: Key): Iterable<S> {
    return this.#sets.get(key) ?? []
  }
  get isEmpty(): boolean {
    return this.#sets.size === 0
  }
}

/** Subscribers whose transactions have the same members. They share the same bytes. */
type Group<S> = {
  readonly includes: TransactionFilter['includes']
  readonly all: Set<S>
  readonly byAddress: Index<Hex, S>
}

/** Creates the channel `flashblocks`: headers first, then transactions in order, as on X Layer. */
function flashblocksChannel<S>(): Channel<S, TransactionFilter> {
  const headers = new Set<S>()
  const groups = new Map<string, Group<S>>()
  return {
    add(subscriber, { hasHeaders, addresses, includes }) {
      const name = `${includes.info} ${includes.receipt}`
      const group = groups.get(name) ?? { includes, all: new Set(), byAddress: new Index() }
      groups.set(name, group)
      if (hasHeaders) headers.add(subscriber)
      if (addresses.length === 0) group.all.add(subscriber)
      const remove = group.byAddress.add(addresses.map(bytesToHex), subscriber)
      return () => {
        remove()
        headers.delete(subscriber)
        group.all.delete(subscriber)
      }
    },
    emit(event, send) {
      if (event.type === 'removed') return
      const { flashblock } = event
      for (const one of headers) send(one, flashblock.headerEvent())
      for (const index of indexesOf(flashblock))
        for (const { includes, all, byAddress } of groups.values()) {
          const matching = byAddress.isEmpty
            ? []
            : subscribersOf(flashblock.addresses(index), byAddress)
          for (const subscribers of [all, matching])
            for (const one of subscribers) send(one, flashblock.transactionEvent(index, includes))
        }
    },
  }
}

/** Returns the subscribers of at least one of the addresses, each once. */
function subscribersOf<S>(addresses: Iterable<Hex>, byAddress: Index<Hex, S>): ReadonlySet<S> {
  const subscribers = new Set<S>()
  for (const address of addresses)
    for (const subscriber of byAddress.get(address)) subscribers.add(subscriber)
  return subscribers
}

/**
 * Creates the channel `newFlashblocks`: the partial block with full transactions. Base's node has
 * sent nothing for this kind since November 2026.
 */
function newFlashblocksChannel<S>(): Channel<S, undefined> {
  const subscribers = new Set<S>()
  return {
    add(subscriber) {
      subscribers.add(subscriber)
      return () => subscribers.delete(subscriber)
    },
    emit(event, send) {
      if (event.type === 'removed') return
      for (const one of subscribers) send(one, event.flashblock.blockResult())
    },
  }
}

/**
 * Creates the channel `pendingLogs`: one log in each message. A log that a reorg removes is sent
 * again with `removed`. The caller's `send` drops removals from before the subscription.
 */
function pendingLogsChannel<S>(): Channel<S, AwaitedLogs> {
  const matcher = createLogMatcher<S>()
  return {
    add: (subscriber, awaited) => matcher.add(awaited, subscriber),
    emit(event, send) {
      if (matcher.size === 0) return
      const { flashblock } = event
      const { number } = flashblock
      if (event.type === 'added') {
        for (const index of indexesOf(flashblock))
          for (const log of flashblock.logs(index))
            for (const one of matcher.match(log, number)) send(one, log.bytes)
        return
      }
      for (let index = event.end - 1; index >= event.first; index--)
        for (const log of flashblock.logs(index).toReversed())
          for (const one of matcher.match(log, number)) send(one, log.removed)
    },
  }
}

/**
 * Creates the channel `newFlashblockTransactions`: one transaction in each message, as its hash or
 * in full with its logs.
 */
function newFlashblockTransactionsChannel<S>(): Channel<S, { readonly isFull: boolean }> {
  const subscribers = new Map<S, boolean>()
  return {
    add(subscriber, { isFull }) {
      subscribers.set(subscriber, isFull)
      return () => subscribers.delete(subscriber)
    },
    emit(event, send) {
      if (event.type === 'removed') return
      const { flashblock } = event
      for (const index of indexesOf(flashblock))
        for (const [one, isFull] of subscribers)
          send(one, isFull ? flashblock.transactionResult(index) : flashblock.hashResult(index))
    },
  }
}

/**
 * Creates go-ethereum's channel `transactionReceipts`: a list of the wanted receipts in each
 * message.
 */
function transactionReceiptsChannel<S>(): Channel<S, readonly Bytes[]> {
  const all = new Set<S>()
  const byHash = new Index<Hex, S>()
  return {
    add(subscriber, hashes) {
      if (hashes.length === 0) all.add(subscriber)
      const remove = byHash.add(hashes.map(bytesToHex), subscriber)
      return () => {
        remove()
        all.delete(subscriber)
      }
    },
    emit(event, send) {
      if (event.type === 'removed' || event.flashblock.first === event.flashblock.end) return
      const { flashblock } = event
      const indexes = indexesOf(flashblock)
      for (const one of all) send(one, receiptsOf(flashblock, indexes))
      if (!byHash.isEmpty) emitWanted(flashblock, byHash, send)
    },
  }
}

function emitWanted<S>(flashblock: Flashblock, byHash: Index<Hex, S>, send: Send<S>): void {
  const wanted = new Map<S, number[]>()
  for (const index of indexesOf(flashblock))
    for (const one of byHash.get(bytesToHex(flashblock.transaction(index)!.hash))) {
      const known = wanted.get(one)
      if (known === undefined) wanted.set(one, [index])
      else known.push(index)
    }
  for (const [one, indexes] of wanted) send(one, receiptsOf(flashblock, indexes))
}

const receiptsOf = (flashblock: Flashblock, indexes: readonly number[]): Bytes =>
  flashblock.result(`receipts ${indexes.join()}`, () => {
    const texts = indexes.map((index) => flashblock.receiptText(index))
    return `[${texts.join(',')}]`
  })

/** Returns the indexes in the block of the flashblock's transactions. */
const indexesOf = ({ first, end }: Flashblock): readonly number[] =>
  Array.from({ length: end - first }, (_, at) => first + at)

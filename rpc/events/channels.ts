/** The kinds of subscriptions to flashblocks: who gets what of an event. One kind is one channel. */
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { Flashblock } from './flashblock.ts'
import { type AwaitedLogs, createLogMatcher } from './log-filter.ts'
import type { FlashblockEvent, Gap } from './told.ts'

/** X Layer's filter. Empty addresses: every transaction. */
export type TransactionFilter = {
  readonly hasHeaders: boolean
  readonly addresses: readonly Bytes[]
  readonly shows: { readonly info: boolean; readonly receipt: boolean }
}
/** What a subscriber of each kind asks for. */
export type FlashblockOptions = {
  readonly flashblocks: TransactionFilter
  readonly newFlashblocks: undefined
  readonly pendingLogs: AwaitedLogs
  readonly newFlashblockTransactions: { readonly isFull: boolean }
  /** Hashes; empty: of every transaction. */
  readonly transactionReceipts: readonly Bytes[]
}
export type FlashblockKind = keyof FlashblockOptions

/** What each kind tells in its own way; a gap is told alike. */
type Told = Exclude<FlashblockEvent, Gap>

/** Of those that want it, `S`. */
export interface Channel<S, Options> {
  /** What it gives takes it out again. */
  add(subscriber: S, options: Options): () => void
  tell(event: Told, send: Send<S>): void
}
export type Channels<S> = {
  readonly [K in FlashblockKind]: Channel<S, FlashblockOptions[K]>
}

export const createChannels = <S>(): Channels<S> => ({
  flashblocks: transactionsChannel(),
  newFlashblocks: blocksChannel(),
  pendingLogs: logsChannel(),
  newFlashblockTransactions: hashesChannel(),
  transactionReceipts: receiptsChannel(),
})

type Send<S> = (subscriber: S, result: Bytes) => void
/** Subscribers by what they look for. */
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

/** Those that ask for the same members get the same bytes. */
type Group<S> = {
  readonly shows: TransactionFilter['shows']
  readonly all: Set<S>
  readonly byAddress: Index<Hex, S>
}

/** Headers first, then transactions in their order, as X Layer has them. */
function transactionsChannel<S>(): Channel<S, TransactionFilter> {
  const headers = new Set<S>()
  const groups = new Map<string, Group<S>>()
  return {
    add(subscriber, { hasHeaders, addresses, shows }) {
      const name = `${shows.info} ${shows.receipt}`
      const group = groups.get(name) ?? { shows, all: new Set(), byAddress: new Index() }
      groups.set(name, group)
      if (hasHeaders) headers.add(subscriber)
      if (addresses.length === 0) group.all.add(subscriber)
      const leave = group.byAddress.add(addresses.map(bytesToHex), subscriber)
      return () => {
        leave()
        headers.delete(subscriber)
        group.all.delete(subscriber)
      }
    },
    tell(event, send) {
      if (event.type === 'removed') return
      const { flashblock } = event
      for (const one of headers) send(one, flashblock.headerEvent())
      for (const index of indexesOf(flashblock))
        for (const { shows, all, byAddress } of groups.values()) {
          const named = byAddress.isEmpty ? [] : namedBy(flashblock.addresses(index), byAddress)
          for (const some of [all, named])
            for (const one of some) send(one, flashblock.transactionEvent(index, shows))
        }
    },
  }
}

/** Each once. */
function namedBy<S>(addresses: Iterable<Hex>, byAddress: Index<Hex, S>): ReadonlySet<S> {
  const named = new Set<S>()
  for (const address of addresses) for (const one of byAddress.get(address)) named.add(one)
  return named
}

/** `newFlashblocks`, a kind of Base's node until November 2026: the block so far. */
function blocksChannel<S>(): Channel<S, undefined> {
  const subscribers = new Set<S>()
  return {
    add(subscriber) {
      subscribers.add(subscriber)
      return () => subscribers.delete(subscriber)
    },
    tell(event, send) {
      if (event.type === 'removed') return
      for (const one of subscribers) send(one, event.flashblock.blockResult())
    },
  }
}

/** `pendingLogs`: a log in each message. One whose place is gone comes again, with `removed`. */
function logsChannel<S>(): Channel<S, AwaitedLogs> {
  const matcher = createLogMatcher<S>()
  return {
    add: (subscriber, awaited) => matcher.add(awaited, subscriber),
    tell(event, send) {
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

/** `newFlashblockTransactions`: one in each message, as its hash or whole with its logs. */
function hashesChannel<S>(): Channel<S, { readonly isFull: boolean }> {
  const subscribers = new Map<S, boolean>()
  return {
    add(subscriber, { isFull }) {
      subscribers.set(subscriber, isFull)
      return () => subscribers.delete(subscriber)
    },
    tell(event, send) {
      if (event.type === 'removed') return
      const { flashblock } = event
      for (const index of indexesOf(flashblock))
        for (const [one, isFull] of subscribers)
          send(one, isFull ? flashblock.transactionResult(index) : flashblock.hashResult(index))
    },
  }
}

/** go-ethereum's: a list of those receipts that are wanted, in each message. */
function receiptsChannel<S>(): Channel<S, readonly Bytes[]> {
  const all = new Set<S>()
  const byHash = new Index<Hex, S>()
  return {
    add(subscriber, hashes) {
      if (hashes.length === 0) all.add(subscriber)
      const leave = byHash.add(hashes.map(bytesToHex), subscriber)
      return () => {
        leave()
        all.delete(subscriber)
      }
    },
    tell(event, send) {
      if (event.type === 'removed' || event.flashblock.first === event.flashblock.end) return
      const { flashblock } = event
      const indexes = indexesOf(flashblock)
      for (const one of all) send(one, receiptsOf(flashblock, indexes))
      if (!byHash.isEmpty) tellWanted(flashblock, byHash, send)
    },
  }
}

function tellWanted<S>(flashblock: Flashblock, byHash: Index<Hex, S>, send: Send<S>): void {
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

/** Places in the block of what a flashblock has added. */
const indexesOf = ({ first, end }: Flashblock): readonly number[] =>
  Array.from({ length: end - first }, (_, at) => first + at)

/**
 * What the chain itself has said, flashblock by flashblock, from the sequencer's own enriched feed: the accounts and slots that each has
 * changed, its transactions, their logs. Answers of replicas are held against the place that they name.
 */
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { WHOLE_INDEX } from '../../../../engine/views/whole-index.ts'
import type { EnrichedJson } from '../../../fixtures/enriched-client.ts'
import { callMany, type RunningNode } from '../../../kit/node.ts'

/** Where a flashblock stands in the order of all. */
export type Position = number
export type Entry = {
  readonly position: Position
  readonly number: number
  readonly index: number
  /** As X-Flashblock and `since` have it. */
  readonly place: string
  /** Of the block up to here, momentary. */
  readonly hash: string
  readonly transactions: readonly string[]
  /** `transaction hash:index in the block` of each log. */
  readonly logs: readonly string[]
  /** When it was told here. */
  readonly toldAt: number
}
export type Journal = {
  readonly entries: readonly Entry[]
  /** What must never be: a chain that takes back what it has said. */
  readonly faults: readonly string[]
  readonly canonical: number
  /** When the block was canonical at the sequencer, by this process' clock. */
  canonicalAt(number: number): number | undefined
  /** A place as an answer names it; of one that is not told yet undefined. */
  find(place: string): Entry | undefined
  /** @returns undefined when nobody has told of it in time */
  reached(place: string, withinMs: number): Promise<Entry | undefined>
  /**
   * It is of a payload that is known, of which the sequencer's own node showed this flashblock only together with a later one: on a busy machine it is
   * behind its own feed.
   */
  isPassedOver(place: string): boolean
  /** The flashblock that has the transaction. */
  of(transaction: string): Entry | undefined
  /** Of an account that is tracked. */
  balance(address: string, at: Position): bigint
  nonce(address: string, at: Position): number
  slot(address: string, key: string, at: Position): bigint
  /** For the report: it and what stands around it, with the number of their transactions. */
  around(at: Entry): string
  close(): void
}

type Change = { readonly position: Position; readonly value: bigint }
type Flashblock = EnrichedJson['flashblocks'][number]

/** @param tracked accounts; what they had before the journal begins is asked for */
export async function openJournal(dev: RunningNode, tracked: readonly string[]): Promise<Journal> {
  const socket = new WebSocket(`${dev.url.replace('http', 'ws')}/feed?enrich=1`, {
    perMessageDeflate: false,
    maxPayload: 100_000_000,
  })
  const kept = createKept()
  const first = once(socket, 'message')
  socket.on('message', (data) => kept.read(JSON.parse(String(data)) as EnrichedJson))
  await first
  const at = `0x${kept.canonical.toString(16)}`
  const lists = tracked.map((address) => [address, at])
  const [balances, nonces] = await Promise.all([
    callMany(`${dev.url}/`, 'eth_getBalance', lists),
    callMany(`${dev.url}/`, 'eth_getTransactionCount', lists),
  ])
  for (const [index, address] of tracked.entries()) {
    kept.base(balanceKey(address), BigInt(balances[index] as string))
    kept.base(nonceKey(address), BigInt(nonces[index] as string))
  }
  socket.on('close', () => {
    if (!isClosed) kept.faults.push('the sequencer ended its feed')
  })
  let isClosed = false
  return Object.assign(kept.journal, {
    close() {
      isClosed = true
      socket.terminate()
    },
  })
}

const balanceKey = (address: string) => `balance ${address.toLowerCase()}`
const nonceKey = (address: string) => `nonce ${address.toLowerCase()}`
const slotKey = (address: string, key: string) => `${address.toLowerCase()} ${key.toLowerCase()}`

function createKept() {
  const entries: Entry[] = []
  const byPlace = new Map<string, Entry>()
  /** The newest flashblock of each block. */
  const byNumber = new Map<number, Entry>()
  const byTransaction = new Map<string, Entry>()
  const logCounts = new Map<number, number>()
  const changes = new Map<string, Change[]>()
  const canonicalAt = new Map<number, number>()
  const faults: string[] = []
  const waiting = new Set<() => void>()
  let canonical = 0
  let complete = 0

  function change(key: string, position: Position, value: bigint): void {
    const list = changes.get(key)
    if (list === undefined) changes.set(key, [{ position, value }])
    else list.push({ position, value })
  }
  function valueAt(key: string, at: Position): bigint {
    const list = changes.get(key) ?? []
    return list.findLast(({ position }) => position <= at)?.value ?? 0n
  }
  function add(told: Flashblock): void {
    const { number, index, payload_id: payload, header, transactions, receipts, accounts } = told
    const position = entries.length
    const logs: string[] = []
    for (const [which, { logs: own }] of receipts.entries())
      for (const _ of own) {
        const count = logCounts.get(number) ?? 0
        logCounts.set(number, count + 1)
        logs.push(`${transactions[which]!.hash}:${count}`)
      }
    const hashes = transactions.map(({ hash }) => hash)
    const place = `${number}:${index}:${payload ?? ''}`
    const entry: Entry = {
      ...{ position, number, index, place, hash: header.hash, logs },
      ...{ transactions: hashes, toldAt: performance.now() },
    }
    entries.push(entry)
    byPlace.set(place, entry)
    byNumber.set(number, entry)
    for (const hash of hashes) byTransaction.set(hash, entry)
    for (const { address, account, slots } of accounts) {
      change(balanceKey(address), position, BigInt(account?.balance ?? 0))
      change(nonceKey(address), position, BigInt(account?.nonce ?? 0))
      for (const [key, value] of slots) change(slotKey(address, key), position, BigInt(value))
    }
  }
  function find(place: string): Entry | undefined {
    const known = byPlace.get(place)
    if (known !== undefined) return known
    const [number, index, payload] = place.split(':')
    const newest = byNumber.get(Number(number))
    if (newest === undefined || newest.number > complete) return undefined
    // A block of which a replica was not told all, or a last flashblock that added nothing: what it is when nothing is added any more.
    const isLast = newest.place.split(':')[2] === payload && Number(index) > newest.index
    return Number(index) === WHOLE_INDEX || isLast ? newest : undefined
  }
  const journal = {
    entries,
    faults,
    get canonical() {
      return canonical
    },
    canonicalAt: (number: number) => canonicalAt.get(number),
    find,
    around: ({ position }: Entry) =>
      entries
        .slice(Math.max(0, position - 2), position + 3)
        .map((one) => `${one.number}:${one.index} ${one.transactions.length}`)
        .join(', '),
    isPassedOver(place: string) {
      const [number, index, payload] = place.split(':')
      const newest = byNumber.get(Number(number))
      return newest?.place.split(':')[2] === payload && newest!.index > Number(index)
    },
    of: (transaction: string) => byTransaction.get(transaction),
    reached: (place: string, withinMs: number) =>
      new Promise<Entry | undefined>((resolve) => {
        const end = (entry: Entry | undefined) => {
          waiting.delete(look)
          clearTimeout(timer)
          resolve(entry)
        }
        const look = () => {
          const entry = find(place)
          if (entry !== undefined) end(entry)
        }
        const timer = setTimeout(() => end(undefined), withinMs)
        waiting.add(look)
        look()
      }),
    balance: (address: string, at: Position) => valueAt(balanceKey(address), at),
    nonce: (address: string, at: Position) => Number(valueAt(nonceKey(address), at)),
    slot: (address: string, key: string, at: Position) => valueAt(slotKey(address, key), at),
  }
  return {
    journal,
    faults,
    get canonical() {
      return canonical
    },
    base: (key: string, value: bigint) => {
      changes.set(key, [{ position: -1, value }, ...(changes.get(key) ?? [])])
    },
    read(message: EnrichedJson): void {
      if (message.removed !== null && message.removed.blocks.length > 0)
        faults.push(`took back ${JSON.stringify(message.removed)}`)
      for (const one of message.flashblocks) add(one)
      complete = message.heads.complete.number
      for (; canonical < message.heads.canonical.number; ) {
        canonical = canonical === 0 ? message.heads.canonical.number : canonical + 1
        canonicalAt.set(canonical, performance.now())
      }
      for (const look of [...waiting]) look()
    },
  }
}

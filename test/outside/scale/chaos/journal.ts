/**
 * The journal records the chain by flashblock from the sequencer's own enriched feed: changed
 * accounts and slots, transactions, logs. Each replica response is compared with the flashblock
 * that it names.
 */
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { FULL_BLOCK_INDEX } from '../../../../engine/views/types.ts'
import type { EnrichedJson } from '../../../fixtures/enriched-client.ts'
import { callMany, type RunningNode } from '../../../kit/node.ts'

/** The position of a flashblock in the order of all. */
export type Position = number
export type Entry = {
  readonly position: Position
  readonly number: number
  readonly index: number
  /** The form is that of X-Flashblock and of `since`. */
  readonly flashblockId: string
  /** The partial hash of the block up to this flashblock. */
  readonly hash: string
  readonly transactions: readonly string[]
  /** Each log has the form `transaction hash:index in the block`. */
  readonly logs: readonly string[]
  /** The time at which the journal received the flashblock. */
  readonly emittedAt: number
}
export type Journal = {
  readonly entries: readonly Entry[]
  /** A fault is a sequencer chain that removes emitted flashblocks. */
  readonly faults: readonly string[]
  readonly canonical: number
  /** Gives the time at which the block was canonical at the sequencer, by this process's clock. */
  canonicalAt(number: number): number | undefined
  /** Finds a FlashblockId of a response; undefined: the flashblock was not received yet. */
  find(flashblockId: string): Entry | undefined
  /**
   * Waits for a flashblock.
   * @returns undefined when the flashblock was not received in time
   */
  reached(flashblockId: string, withinMs: number): Promise<Entry | undefined>
  /**
   * Reports whether the journal has a later flashblock of the same payload. The sequencer's own
   * node can make both visible together. On a busy machine the node is behind its own feed.
   */
  isPassedOver(flashblockId: string): boolean
  /** Finds the flashblock of the transaction. */
  of(transaction: string): Entry | undefined
  /** Gives the balance of a tracked account. */
  balance(address: string, at: Position): bigint
  nonce(address: string, at: Position): number
  slot(address: string, key: string, at: Position): bigint
  /**
   * Formats the flashblock and its neighbours for the report, with their numbers of transactions.
   */
  around(at: Entry): string
  close(): void
}

type Change = { readonly position: Position; readonly value: bigint }
type Flashblock = EnrichedJson['flashblocks'][number]

/**
 * Opens the journal.
 * @param tracked accounts, whose earlier values are requested
 */
export async function openJournal(dev: RunningNode, tracked: readonly string[]): Promise<Journal> {
  const socket = new WebSocket(`${dev.url.replace('http', 'ws')}/feed?enrich=1`, {
    perMessageDeflate: false,
    maxPayload: 100_000_000,
  })
  const retained = createRetained()
  const first = once(socket, 'message')
  socket.on('message', (data) => retained.read(JSON.parse(String(data)) as EnrichedJson))
  await first
  const at = `0x${retained.canonical.toString(16)}`
  const lists = tracked.map((address) => [address, at])
  const [balances, nonces] = await Promise.all([
    callMany(`${dev.url}/`, 'eth_getBalance', lists),
    callMany(`${dev.url}/`, 'eth_getTransactionCount', lists),
  ])
  for (const [index, address] of tracked.entries()) {
    retained.base(balanceKey(address), BigInt(balances[index] as string))
    retained.base(nonceKey(address), BigInt(nonces[index] as string))
  }
  socket.on('close', () => {
    if (!isClosed) retained.faults.push('the sequencer ended its feed')
  })
  let isClosed = false
  return Object.assign(retained.journal, {
    close() {
      isClosed = true
      socket.terminate()
    },
  })
}

const balanceKey = (address: string) => `balance ${address.toLowerCase()}`
const nonceKey = (address: string) => `nonce ${address.toLowerCase()}`
const slotKey = (address: string, key: string) => `${address.toLowerCase()} ${key.toLowerCase()}`

function createRetained() {
  const entries: Entry[] = []
  const byFlashblockId = new Map<string, Entry>()
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
  function add(emitted: Flashblock): void {
    const { number, index, payload_id: payload, header, transactions, receipts, accounts } = emitted
    const position = entries.length
    const logs: string[] = []
    for (const [which, { logs: own }] of receipts.entries())
      for (const _ of own) {
        const count = logCounts.get(number) ?? 0
        logCounts.set(number, count + 1)
        logs.push(`${transactions[which]!.hash}:${count}`)
      }
    const hashes = transactions.map(({ hash }) => hash)
    const flashblockId = `${number}:${index}:${payload ?? ''}`
    const entry: Entry = {
      position,
      number,
      index,
      flashblockId,
      hash: header.hash,
      logs,
      transactions: hashes,
      emittedAt: performance.now(),
    }
    entries.push(entry)
    byFlashblockId.set(flashblockId, entry)
    byNumber.set(number, entry)
    for (const hash of hashes) byTransaction.set(hash, entry)
    for (const { address, account, slots } of accounts) {
      change(balanceKey(address), position, BigInt(account?.balance ?? 0))
      change(nonceKey(address), position, BigInt(account?.nonce ?? 0))
      for (const [key, value] of slots) change(slotKey(address, key), position, BigInt(value))
    }
  }
  function find(flashblockId: string): Entry | undefined {
    const known = byFlashblockId.get(flashblockId)
    if (known !== undefined) return known
    const [number, index, payload] = flashblockId.split(':')
    const newest = byNumber.get(Number(number))
    if (newest === undefined || newest.number > complete) return undefined
    // The replica lacked a part of the block, or the last flashblock added nothing. In both cases
    // the newest flashblock is the state at the end of the block.
    const isLast = newest.flashblockId.split(':')[2] === payload && Number(index) > newest.index
    return Number(index) === FULL_BLOCK_INDEX || isLast ? newest : undefined
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
    isPassedOver(flashblockId: string) {
      const [number, index, payload] = flashblockId.split(':')
      const newest = byNumber.get(Number(number))
      return newest?.flashblockId.split(':')[2] === payload && newest!.index > Number(index)
    },
    of: (transaction: string) => byTransaction.get(transaction),
    reached: (flashblockId: string, withinMs: number) =>
      new Promise<Entry | undefined>((resolve) => {
        const end = (entry: Entry | undefined) => {
          waiting.delete(check)
          clearTimeout(timer)
          resolve(entry)
        }
        const check = () => {
          const entry = find(flashblockId)
          if (entry !== undefined) end(entry)
        }
        const timer = setTimeout(() => end(undefined), withinMs)
        waiting.add(check)
        check()
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
      for (const check of [...waiting]) check()
    },
  }
}

/**
 * This model collects the promises of frames and their outcomes by the canonical chain, and
 * compares both with the ledger. A visible promise that is not committed is lost with its process.
 * No other promise is lost, and each has one outcome.
 */

import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import type { WriterEffect } from '../../../engine/sources/writer/types.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openLedgerReader } from '../../../engine/storage/ledger/reader.ts'
import type { PromiseOutcome, StoredPromise } from '../../../engine/storage/ledger-types.ts'
import type { PersistenceRequest, StoreReader } from '../../../engine/storage/types.ts'
import { ancestorAt, type TrueBlock, type TrueChain } from './chain.ts'
import { Mismatch, same } from './visible.ts'

type Promised = {
  readonly number: number
  readonly payloadId: string
  readonly index: number
  readonly position: number
  readonly hash: string
}
/** `promised`; undefined: the start of the payload. */
type VisibleFlashblock = Pick<Promised, 'payloadId' | 'index'> & {
  readonly promised: readonly Promised[] | undefined
}

export class Promises {
  readonly #chain: TrueChain
  /**
   * The promises by content, because a flashblock that becomes visible again promises nothing new.
   */
  readonly #made = new Map<string, Promised>()
  /**
   * Heights at which a second payload became visible after the promises of the first, and before
   * their outcome.
   */
  readonly #second = new Set<number>()
  /** The visible flashblocks of this process that are not committed. */
  #awaited: VisibleFlashblock[] = []
  /** The payloads of this process, with height and number of transactions so far. */
  readonly #payloads = new Map<string, { readonly number: number; count: number }>()

  constructor(chain: TrueChain) {
    this.#chain = chain
  }

  /** Starts again with another directory. */
  forget(): void {
    this.#made.clear()
    this.#second.clear()
    this.started()
  }

  /** Forgets everything that was in an earlier process's memory. */
  started(): void {
    this.#awaited = []
    this.#payloads.clear()
  }

  onEffect(effects: readonly WriterEffect[]): void {
    for (const effect of effects)
      if (effect.type === 'executed' && effect.packet.message.type === 'flashblock')
        this.#reveal(effect.packet.message)
  }

  /** Takes a completed request of the persistence thread. */
  committed(request: PersistenceRequest, database: Database): void {
    if (request.type === 'payload') {
      const { number } = request
      const payloadId = bytesToHex(request.payloadId)
      this.#next(`${payloadId} begins`)
      const isDecided = openStore(database).durableHead().number >= number
      const others = openLedgerReader(database)
        .promisesAt(number)
        .filter((one) => bytesToHex(one.payloadId) !== payloadId && !one.causes.includes('reorg'))
      if (!isDecided && others.length > 0) this.#second.add(number)
    }
    if (request.type !== 'promise') return
    const { payloadId, index } = request.promised
    for (const one of this.#next(`${bytesToHex(payloadId)} ${index}`))
      this.#made.set(nameOf(one), one)
  }

  /** Takes the oldest flashblock that is not committed. */
  #next(requested: string): readonly Promised[] {
    const next = this.#awaited.shift()
    const visible =
      next && `${next.payloadId} ${next.promised === undefined ? 'begins' : next.index}`
    if (visible !== requested)
      throw new Mismatch(
        `of flashblocks the ledger hears "${requested}", and "${visible}" was shown`,
      )
    return next?.promised ?? []
  }

  /** Checks the ledger, and counts the promises by outcome and by cause. */
  check(database: Database, nowMs: number): ReadonlyMap<string, number> {
    const store = openStore(database)
    const head = store.durableHead()
    const top = this.#chain.byHash.get(Buffer.from(head.hash).toString('latin1'))
    if (top === undefined) throw new Mismatch(`block ${head.number} is durable, and of no chain`)
    const expected = [...this.#made.values()].map(
      (one) => `${nameOf(one)} ${outcomeOf(one, { top, store })}`,
    )
    const reader = openLedgerReader(database)
    const heights = new Set([...this.#made.values()].map(({ number }) => number))
    const found = [...heights].flatMap((number) => reader.promisesAt(number))
    const emitted = found.map((one) => `${nameOf(plain(one))} ${one.outcome}`)
    same(emitted.toSorted().join('\n'), expected.toSorted().join('\n'), 'promises and their fates')
    for (const one of found) this.#checkCauses(one)
    const counted = countsOf(found)
    const { counts } = reader.countsSince(0, nowMs)
    for (const outcome of ['kept', 'reordered', 'dropped', 'unseen'] as const)
      same(counts[outcome], counted.get(outcome) ?? 0, `promises that are counted as ${outcome}`)
    same(counts.promises, found.length, 'promises that are counted')
    return counted
  }

  #checkCauses({ number, outcome, causes, hash }: StoredPromise): void {
    if (outcome === 'open') return
    const payloads = [...this.#made.values()].filter((one) => one.number === number)
    const hasTwo =
      this.#second.has(number) || new Set(payloads.map(({ payloadId }) => payloadId)).size > 1
    const what = `a second payload beside ${bytesToHex(hash)} of block ${number}`
    same(causes.includes('secondPayload'), hasTwo, what)
  }

  #reveal({ payloadId, index, base, delta }: Flashblock): void {
    if (base !== undefined) {
      this.#payloads.set(payloadId, { number: Number(base.blockNumber), count: 0 })
      this.#awaited.push({ payloadId, index, promised: undefined })
    }
    const payload = this.#payloads.get(payloadId)
    if (payload === undefined)
      throw new Mismatch(`${payloadId} ${index} is shown without its first`)
    const { number, count } = payload
    payload.count += delta.transactions.length
    const promised = delta.transactions.flatMap((raw, at) => {
      const { type, hash } = decodeTransaction(raw)
      const isDeposit = type === 0x7e
      const position = count + at
      return isDeposit ? [] : [{ number, payloadId, index, position, hash: bytesToHex(hash) }]
    })
    if (promised.length > 0) this.#awaited.push({ payloadId, index, promised })
  }
}

/**
 * Gives the outcome of a promise by the canonical block of its height; `top` is the durable head.
 */
function outcomeOf(
  { number, position, hash }: Promised,
  { top, store }: { readonly top: TrueBlock; readonly store: StoreReader },
): PromiseOutcome {
  const block = ancestorAt(top, number)
  if (block === undefined) return 'open'
  if (store.body(block.hash) === undefined) return 'unseen'
  const index = block.executed.findIndex(({ transaction }) => bytesToHex(transaction.hash) === hash)
  if (index < 0) return 'dropped'
  return index === position ? 'kept' : 'reordered'
}

const plain = ({ number, payloadId, index, position, hash }: StoredPromise): Promised => ({
  number,
  payloadId: bytesToHex(payloadId),
  index,
  position,
  hash: bytesToHex(hash),
})
const nameOf = ({ number, payloadId, index, position, hash }: Promised): string =>
  `${number} ${payloadId} ${index} ${position} ${hash}`

function countsOf(found: readonly StoredPromise[]): Map<string, number> {
  const counted = new Map<string, number>()
  for (const { outcome, causes } of found)
    for (const what of [outcome, ...causes.map((cause) => `for ${cause}`)])
      counted.set(what, (counted.get(what) ?? 0) + 1)
  return counted
}

/**
 * What flashblocks promised by their frames, and what became of it by the canonical chain: plain comparison, held against the ledger. A promise
 * that was shown and not yet committed is lost with its process; no other one is, and each has one fate.
 */

import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import type { WriterEffect } from '../../../engine/sources/writer/types.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openLedgerReader } from '../../../engine/storage/ledger/reader.ts'
import type { Fate, StoredPromise } from '../../../engine/storage/ledger-types.ts'
import type { KeeperRequest, StoreReader } from '../../../engine/storage/types.ts'
import { ancestorAt, type TrueBlock, type TrueChain } from './chain.ts'
import { Mismatch, same } from './shown.ts'

type Promised = {
  readonly number: number
  readonly payloadId: string
  readonly index: number
  readonly position: number
  readonly hash: string
}
/** `promised`: undefined: that the payload is there. */
type Shown = Pick<Promised, 'payloadId' | 'index'> & {
  readonly promised: readonly Promised[] | undefined
}

export class Promises {
  readonly #chain: TrueChain
  /** By what they say: a flashblock that is shown again promises nothing new. */
  readonly #made = new Map<string, Promised>()
  /** Heights where a payload was shown after the promises of another one, before these were ever decided. */
  readonly #second = new Set<number>()
  /** Of this process: shown, and not committed. */
  #awaited: Shown[] = []
  /** Of this process, by payload: its height, and its transactions so far. */
  readonly #payloads = new Map<string, { readonly number: number; count: number }>()

  constructor(chain: TrueChain) {
    this.#chain = chain
  }

  /** Another directory. */
  forget(): void {
    this.#made.clear()
    this.#second.clear()
    this.started()
  }

  /** What an earlier process had in its memory is gone. */
  started(): void {
    this.#awaited = []
    this.#payloads.clear()
  }

  hear(effects: readonly WriterEffect[]): void {
    for (const effect of effects)
      if (effect.type === 'executed' && effect.packet.message.type === 'flashblock')
        this.#show(effect.packet.message)
  }

  /** The keeper has done what it was asked. */
  committed(request: KeeperRequest, database: Database): void {
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

  /** What was shown first of what is not committed. */
  #next(asked: string): readonly Promised[] {
    const next = this.#awaited.shift()
    const shown = next && `${next.payloadId} ${next.promised === undefined ? 'begins' : next.index}`
    if (shown !== asked)
      throw new Mismatch(`of flashblocks the ledger hears "${asked}", and "${shown}" was shown`)
    return next?.promised ?? []
  }

  /** Gives what there is, by fate and by cause. */
  check(database: Database, nowMs: number): ReadonlyMap<string, number> {
    const store = openStore(database)
    const head = store.durableHead()
    const top = this.#chain.byHash.get(Buffer.from(head.hash).toString('latin1'))
    if (top === undefined) throw new Mismatch(`block ${head.number} is durable, and of no chain`)
    const expected = [...this.#made.values()].map(
      (one) => `${nameOf(one)} ${fateOf(one, { top, store })}`,
    )
    const reader = openLedgerReader(database)
    const heights = new Set([...this.#made.values()].map(({ number }) => number))
    const found = [...heights].flatMap((number) => reader.promisesAt(number))
    const told = found.map((one) => `${nameOf(plain(one))} ${one.fate}`)
    same(told.toSorted().join('\n'), expected.toSorted().join('\n'), 'promises and their fates')
    for (const one of found) this.#checkCauses(one)
    const counted = countsOf(found)
    const { counts } = reader.countsSince(0, nowMs)
    for (const fate of ['kept', 'reordered', 'dropped', 'unseen'] as const)
      same(counts[fate], counted.get(fate) ?? 0, `promises that are counted as ${fate}`)
    same(counts.promises, found.length, 'promises that are counted')
    return counted
  }

  #checkCauses({ number, fate, causes, hash }: StoredPromise): void {
    if (fate === 'open') return
    const payloads = [...this.#made.values()].filter((one) => one.number === number)
    const hasTwo =
      this.#second.has(number) || new Set(payloads.map(({ payloadId }) => payloadId)).size > 1
    const what = `a second payload beside ${bytesToHex(hash)} of block ${number}`
    same(causes.includes('secondPayload'), hasTwo, what)
  }

  #show({ payloadId, index, base, delta }: Flashblock): void {
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

/** What the canonical block of its height says. `top`: the durable head. */
function fateOf(
  { number, position, hash }: Promised,
  { top, store }: { readonly top: TrueBlock; readonly store: StoreReader },
): Fate {
  const block = ancestorAt(top, number)
  if (block === undefined) return 'open'
  if (store.body(block.hash) === undefined) return 'unseen'
  const place = block.executed.findIndex(({ transaction }) => bytesToHex(transaction.hash) === hash)
  if (place < 0) return 'dropped'
  return place === position ? 'kept' : 'reordered'
}

const plain = ({ number, payloadId, index, position, hash }: StoredPromise): Promised => ({
  ...{ number, payloadId: bytesToHex(payloadId), index, position, hash: bytesToHex(hash) },
})
const nameOf = ({ number, payloadId, index, position, hash }: Promised): string =>
  `${number} ${payloadId} ${index} ${position} ${hash}`

function countsOf(found: readonly StoredPromise[]): Map<string, number> {
  const counted = new Map<string, number>()
  for (const { fate, causes } of found)
    for (const what of [fate, ...causes.map((cause) => `for ${cause}`)])
      counted.set(what, (counted.get(what) ?? 0) + 1)
  return counted
}

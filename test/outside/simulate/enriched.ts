/**
 * A client applies the node's enriched feed, and must have the node's blocks, receipts and state
 * after each snapshot.
 */
import type { Block, ChainView } from '../../../engine/chain/types.ts'
import type { Hex } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes, quantity } from '../../../engine/primitives/hex.ts'
import { packChanges } from '../../../engine/sources/writer/changes.ts'
import type { WriterEffect } from '../../../engine/sources/writer/types.ts'
import { readAccount, readCode, readSlot } from '../../../engine/state/read.ts'
import { MissingError, type StateReader } from '../../../engine/state/reader.ts'
import { latin1 } from '../../../engine/state/words.ts'
import { EnrichedFeed } from '../../../rpc/feed-server/enriched.ts'
import { headerText, receiptsText } from '../../../rpc/json/json.ts'
import { type AppliedBlock, ApplyError, EnrichedClient } from '../../fixtures/enriched-client.ts'
import type { TrueChain } from './chain.ts'
import type { Random } from './random.ts'
import { ACCOUNTS, BOXES, KEYS } from './transactions.ts'
import { Mismatch, same } from './visible.ts'

/** The number of checked slots of a snapshot, besides those that histories write most. */
const SLOTS = 20

export class EnrichedWatch {
  readonly #chain: TrueChain
  readonly #random: Random
  readonly #record: (what: string) => void
  #feed = new EnrichedFeed('0x0000000000000001')
  #client = new EnrichedClient()
  /** The state after the block at which the client started. */
  #under: StateReader | undefined

  constructor(options: { chain: TrueChain; random: Random; record: (what: string) => void }) {
    this.#chain = options.chain
    this.#random = options.random
    this.#record = options.record
  }

  /** Takes the effects of a process that has started. */
  started(effects: readonly WriterEffect[]): void {
    this.#feed = new EnrichedFeed('0x0000000000000001')
    for (const effect of effects)
      if (effect.type === 'changes') this.#feed.take(packChanges(effect.changes))
    this.#join()
  }

  onEffect(effect: WriterEffect): void {
    if (effect.type !== 'changes') return
    const { message } = this.#feed.take(packChanges(effect.changes))
    try {
      if (this.#random.chance(0.01)) this.#join()
      else this.#apply(message.data())
      if (this.#client.removedNow > 0) this.#record('enriched removed')
    } catch (error) {
      if (!(error instanceof ApplyError)) throw error
      // A client that started above must start again, because a replica would have to retain blocks
      // that are not final.
      if (!error.message.endsWith('below the base'))
        throw new Mismatch(`enriched: ${error.message}`)
      this.#record('enriched deep')
      this.#join()
    }
  }

  /** Compares the client with a view of the newest snapshot. */
  check(view: ChainView): void {
    const client = this.#client
    const { canonical, complete, pending } = client.heads!
    same(`${canonical.number} ${canonical.hash}`, textOf(view.canonical), 'enriched canonical')
    same(`${complete.number} ${complete.hash}`, textOf(view.latest), 'enriched complete')
    same(`${pending.number} ${pending.hash}`, textOf(view.pending), 'enriched pending')
    same(pending.payload_id ?? undefined, view.pending.payloadId, 'enriched payload')
    const tip = view.block({ tag: 'pending' })!
    same(pending.index ?? undefined, tip.flashblockIndex, 'enriched index')
    const top = client.blocks.at(-1)
    if (top === undefined) return
    this.#checkBlock(tip, top)
    const below = client.blockAt(top.number - 1 - this.#random.below(4))
    const block = below && view.block({ number: BigInt(below.number) })
    if (below !== undefined && block !== undefined) this.#checkBlock(block, below)
    this.#checkState(view.state(tip))
    this.#record('enriched reads')
  }

  #join(): void {
    const snapshot = this.#feed.snapshot()
    if (snapshot === undefined) throw new Mismatch('enriched: nothing was told at the start')
    this.#client = new EnrichedClient()
    this.#apply(snapshot.data())
    this.#record('enriched joined')
  }

  #apply(data: Uint8Array): void {
    const message = JSON.parse(Buffer.from(data).toString())
    this.#client.apply(message)
    if (!message.snapshot) return
    const { hash } = this.#client.base!
    const block = this.#chain.byHash.get(latin1(hexToBytes(hash)))
    if (block === undefined) throw new Mismatch(`enriched: nobody knows the canonical ${hash}`)
    this.#under = block.state
  }

  #checkBlock(block: Block, applied: AppliedBlock): void {
    const name = `enriched block ${applied.number}`
    const header = JSON.parse(headerText(block.header, block.hash))
    // A lazy state gets the roots with the canonical block, a moment before the snapshot that
    // contains them. The withdrawals root is missing where subblocks did not state it.
    const isSettled = applied.header.stateRoot === ZERO_ROOT && applied.header.hash === header.hash
    const roots = Object.entries(applied.header)
      .filter(([name, value]) => ROOTS.has(name) && value === ZERO_ROOT)
      .map(([name]) => [name, header[name]] as const)
    const emitted = isSettled ? { ...applied.header, ...Object.fromEntries(roots) } : applied.header
    sameJson(emitted, header, `${name}, header`)
    sameJson(
      applied.transactions.map(({ raw, from, hash }) => [raw, from, hash]),
      block
        .transactions()
        .map(({ raw, from, hash }) => [raw, from, hash].map((one) => bytesToHex(one))),
      `${name}, transactions`,
    )
    sameJson(
      this.#client.rpcReceipts(applied),
      JSON.parse(receiptsText(block)),
      `${name}, receipts`,
    )
  }

  #checkState(state: StateReader): void {
    const emitted = this.#client.blocks.flatMap(({ accounts }) => [...accounts.keys()])
    for (const address of new Set([
      ...emitted,
      ...[...ACCOUNTS.map(({ address }) => address), ...BOXES].map(bytesToHex),
    ]))
      ifThere(() => this.#checkAccount(state, address))
    const slots = this.#client.blocks.flatMap(({ slots }) => [...slots.keys()])
    const some = Array.from({ length: Math.min(SLOTS, slots.length) }, () =>
      this.#random.pick(slots),
    )
    const boxes = BOXES.flatMap((box) =>
      Array.from({ length: KEYS }, (_, key) => `${bytesToHex(box)}${wordOf(key)}`),
    )
    for (const name of [...some, ...boxes])
      ifThere(() => {
        const [address, key] = [name.slice(0, 42) as Hex, name.slice(42) as Hex]
        const [account, slot] = [hexToBytes(address), hexToBytes(key)]
        const own =
          this.#client.slot(address, key) ?? bytesToHex(readSlot(this.#under!, account, slot))
        same(own, bytesToHex(readSlot(state, account, slot)), `enriched slot ${key} of ${address}`)
      })
  }

  #checkAccount(state: StateReader, address: Hex): void {
    const emitted = this.#client.account(address)
    const bytes = hexToBytes(address)
    const jsonOf = (found: ReturnType<typeof readAccount>) =>
      found === undefined
        ? null
        : {
            nonce: quantity(found.nonce),
            balance: quantity(found.balance),
            codeHash: bytesToHex(found.codeHash),
          }
    const own = emitted === undefined ? jsonOf(readAccount(this.#under!, bytes)) : emitted
    sameJson(own, jsonOf(readAccount(state, bytes)), `enriched account ${address}`)
    const code = own && this.#client.codes.get(own.codeHash)
    if (code) same(code, bytesToHex(readCode(state, bytes)), `enriched code of ${address}`)
  }
}

/** Skips checks of state that a lazy node does not have. */
function ifThere(check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
  }
}

const ROOTS = new Set(['stateRoot', 'withdrawalsRoot'])
const ZERO_ROOT = `0x${'00'.repeat(32)}`
const wordOf = (number: number): string => `0x${number.toString(16).padStart(64, '0')}`
const textOf = ({ number, hash }: { number: bigint; hash: Uint8Array }) =>
  `${number} ${bytesToHex(hash)}`

function sameJson(found: unknown, wanted: unknown, what: string): void {
  same(sorted(found), sorted(wanted), what)
}
/** Sorts the keys of objects, because the comparison ignores their order. */
const sorted = (value: unknown): string =>
  JSON.stringify(value, (_, inner) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )

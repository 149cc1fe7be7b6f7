/** The txpool: what was accepted and is not final yet. Holds no thread, no clock and no view of its own. */
import type { InvalidTransaction } from '../execution/transaction/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { keccak256 } from '../primitives/keccak.ts'
import type { SignedTransaction } from '../primitives/transaction.ts'
import { type Announcements, createAnnouncements } from './announcements.ts'
import { chooseBest } from './best.ts'
import { createDeparted, type Departure, LEFT, type Standing } from './departed.ts'
import { candidate, hasShare, victims } from './eviction.ts'
import { outdated } from './expiry.ts'
import { createGapRound } from './gap-round.ts'
import { createIncluded, type Included } from './included.ts'
import { createJournalWriter, type JournalWriter } from './journal.ts'
import { createKept, type Kept } from './kept.ts'
import { TXPOOL_LIMITS, type TxpoolLimits } from './limits.ts'
import { refusal } from './refusal.ts'
import { createRefusals, type Refusals } from './refusals.ts'
import { countsOf, firstGap, newSender, type Sender, spending, takeBackUnused } from './sender.ts'
import {
  type Entry,
  type Known,
  keyOf,
  type NonceOf,
  newEntry,
  type Offered,
  type PendingListener,
  type ReadHead,
  type RejectedTransaction,
  type SettledHeads,
  type Submitted,
  type TxpoolHead,
  type TxpoolOptions,
  type Undigested,
  type Unlisted,
  type Unproven,
  type Wanted,
} from './types.ts'
import { createUnwanted, type Unwanted } from './unwanted.ts'
import {
  type Acceptance,
  checkFunds,
  checkReplacement,
  checkReserved,
  checkTransaction,
  decodeSubmitted,
  isFree,
  openSubmitted,
  RESTORED,
} from './validation.ts'

export class Txpool {
  readonly limits: TxpoolLimits
  readonly #journal: JournalWriter
  readonly #now: () => number
  readonly #onNews: () => void
  readonly #kept: Kept
  readonly #refusals: Refusals
  readonly #departed: ReturnType<typeof createDeparted>
  /** Only senders with entries that are not in a block. */
  readonly #senders = new Map<string, Sender>()
  readonly #included: Included
  readonly #watcher: TxpoolOptions['watcher']
  readonly #unwanted: Unwanted
  readonly #announcements: Announcements
  #arrivals = 0
  #bytes = 0
  #open = 0
  #dropped = 0
  #canonical = -1
  readonly #gapped: () => readonly Sender[]

  constructor(options: TxpoolOptions) {
    this.limits = { ...TXPOOL_LIMITS, ...options.limits }
    const { journal, watcher } = options
    this.#watcher = watcher
    this.#kept = createKept(watcher)
    this.#included = createIncluded(watcher)
    this.#journal = createJournalWriter(journal, this.#kept.transactions, this.limits.journalSlack)
    this.#now = options.now
    this.#refusals = createRefusals(this.limits, options.now)
    this.#departed = createDeparted(this.limits, options.onDeparted)
    this.#onNews = options.onNews ?? (() => {})
    this.#announcements = createAnnouncements(this.#onNews)
    this.#unwanted = createUnwanted(this.limits.unwanted)
    this.#gapped = createGapRound(this.#senders, this.limits.gapSenders)
  }

  /**
   * Validates against the pending head, journals, accepts; a refusal is a value. `raw`: an envelope, or the network form of a blob
   * transaction. Blobs are accepted when they come back proven, a long envelope with its digest, a free call listed. The head is read for
   * bytes that are a transaction and a new one. @throws whatever `readHead` throws
   */
  submit(
    raw: Bytes,
    readHead: ReadHead,
    { digest, isProven, isListed = false, isTaken = false }: Known = {},
  ): Submitted | Unproven | Undigested | Unlisted {
    const opened = openSubmitted(raw, this.limits)
    if ('error' in opened) return opened
    const { envelope } = opened
    if (digest === undefined && envelope.length > this.limits.ownDigestBytes)
      return { undigested: envelope }
    const key = keyOf(digest?.hash ?? keccak256(envelope))
    const known = this.#kept.get(key)
    if (known !== undefined && known.place.status !== 'included')
      return { error: refusal.alreadyKnown() }
    const reason = this.#refusals.reasonOf(key)
    if (reason !== undefined) return { error: refusal.dropped(reason) }
    const decoded = decodeSubmitted(envelope, digest)
    this.#unwanted.delete(key)
    if ('error' in decoded) return decoded
    const acceptance: Acceptance = {
      journal: this.#journal.append,
      sidecar: opened.sidecar && (isProven === true ? 'proven' : opened.sidecar),
      digest,
      isListed,
    }
    const result = readHead((head) => this.#accept(decoded.transaction, head, acceptance))
    this.#announce(decoded.transaction.from)
    if (isTaken) this.#announcements.tellLate(decoded.transaction, this.#kept.get(key), result)
    return result
  }

  /**
   * Puts a journalled transaction back: nothing is written, and what pays for it may be in blocks that are not back yet. False: it does
   * not fit any more. @throws {ViewError}
   */
  restore(raw: Bytes, head: TxpoolHead): boolean {
    if (this.#kept.get(keyOf(keccak256(raw))) !== undefined) return true
    const decoded = decodeSubmitted(raw)
    if ('error' in decoded) return false
    this.#journal.noteFound()
    return !('error' in this.#accept(decoded.transaction, head, RESTORED))
  }

  get(hash: Bytes): SignedTransaction | undefined {
    const entry = this.#kept.get(keyOf(hash))
    return entry === undefined || entry.place.status === 'included' ? undefined : entry.transaction
  }

  /** What is kept of it: in the txpool, or in a block that is not final yet. */
  kept(hash: Bytes): SignedTransaction | undefined {
    return this.#kept.get(keyOf(hash))?.transaction
  }

  /** undefined: it is in a block, or nothing is known of it. */
  standingOf(hash: Bytes): Standing | undefined {
    const entry = this.#kept.get(keyOf(hash))
    if (entry === undefined) return this.#departed.of(keyOf(hash))
    const ms = this.#now() - entry.addedAtMs
    return entry.place.status === 'included' ? undefined : { why: 'waits', ms }
  }

  isExpected(hash: Bytes): boolean {
    return this.kept(hash) !== undefined
  }

  /** The nonce after the consecutive ones that the txpool knows from `stateNonce` on; that state may be older than the pending one. */
  nextNonce(address: Bytes, stateNonce: bigint): bigint {
    const key = keyOf(address)
    const nonce = this.#included.nonceAfter(key, stateNonce)
    const sender = this.#senders.get(key)
    return sender === undefined ? nonce : firstGap(sender, nonce)
  }

  /** Transactions not in a block: executable ones, and those behind a missing nonce. */
  counts(): { readonly pending: number; readonly queued: number } {
    return countsOf(this.#senders.values(), this.#open)
  }

  stats(): Readonly<Record<'open' | 'bytes' | 'included' | 'dropped', number>> {
    return {
      open: this.#open,
      bytes: this.#bytes,
      included: this.#kept.size - this.#open,
      dropped: this.#dropped,
    }
  }

  /** Called with each transaction when it becomes executable, once. Returns the way to stop. */
  onPending(listener: PendingListener): () => void {
    return this.#announcements.listen(listener)
  }

  /** Hands out transactions for one flashblock: none again until that is published without it. @throws {ViewError} from `nonceOf`. */
  best(wanted: Wanted): Offered {
    for (const key of wanted.excluded) {
      const entry = this.#kept.get(key)
      if (entry !== undefined) entry.isStopped = true
    }
    const { entries, hasMore, reserved } = chooseBest(this.#senders.values(), wanted, (sender) =>
      this.#moveNonce(sender, wanted.nonceOf(sender.address, sender.nonce)),
    )
    const atMs = this.#now()
    for (const entry of entries) entry.place = { status: 'handed', target: wanted.target, atMs }
    const transactions = entries.map(({ transaction }) => transaction)
    return { transactions, hasMore, reserved: reserved?.transaction }
  }

  /** Handed out and not executed: may be handed out again at once. */
  takeBack(hashes: readonly Bytes[]): void {
    for (const hash of hashes) {
      const entry = this.#kept.get(keyOf(hash))
      if (entry?.place.status === 'handed') entry.place = { status: 'waiting' }
    }
  }

  /**
   * What the sequencer could not execute leaves the txpool. A nonce that is too low or too high says only that the sequencer is ahead of
   * the pending view, or that a transaction before it failed: those stay handed out until their flashblock is published. `isFinal`: the
   * same transaction is not taken again for a while, and whoever sends it is told why. `isUnwanted`: also where a block has it.
   */
  rejected(all: readonly RejectedTransaction[]): void {
    for (const { hash, reason, isFinal, isUnwanted = false } of all) {
      const entry = this.#kept.get(keyOf(hash))
      // Views may show it for some time yet.
      if (isUnwanted) this.#unwanted.add(keyOf(hash))
      if (entry === undefined || (entry.place.status === 'included' && !isUnwanted)) continue
      if (/^nonce too (low|high)/.test(reason)) continue
      this.#included.drop(entry)
      this.#remove(entry, { why: 'dropped', reason })
      if (isFinal === true) this.#refusals.add(entry.key, reason)
    }
    if (all.some(({ isUnwanted }) => isUnwanted)) this.rewriteJournal()
  }

  /** A transaction is in block `blockNumber` of the pending chain, whether it came through this txpool or not. */
  include(transaction: SignedTransaction, blockNumber: number): void {
    const key = keyOf(transaction.hash)
    const known = this.#kept.get(key)
    const entry = known ?? { ...this.#entry(transaction, 0n, false), isUntold: true }
    if (known === undefined) this.#kept.add(entry)
    else if (known.place.status !== 'included') this.#close(known)
    entry.place = { status: 'included', blockNumber }
    entry.isAnnounced = true
    this.#included.add(entry)
    const sender = this.#senders.get(entry.sender)
    if (sender !== undefined && sender.nonce <= transaction.nonce)
      this.#moveNonce(sender, transaction.nonce + 1n)
    this.#announce(transaction.from)
  }

  /**
   * The pending chain was replaced, in part at least: what is gone from it comes back, all nonces are read anew. `blockOf`: of the new one.
   */
  rewind(chain: { blockOf(hash: Bytes): number | undefined; readonly nonceOf: NonceOf }): void {
    for (const entry of this.#kept.list()) {
      if (entry.place.status !== 'included') continue
      const blockNumber = chain.blockOf(entry.transaction.hash)
      if (blockNumber !== undefined) entry.place = { status: 'included', blockNumber }
      else this.#reopen(entry, chain.nonceOf(entry.transaction.from, entry.transaction.nonce))
    }
    takeBackUnused(this.#senders.values())
    for (const sender of [...this.#senders.values()])
      this.#moveNonce(sender, chain.nonceOf(sender.address, sender.nonce))
    for (const sender of [...this.#senders.values()]) this.#announce(sender.address)
    this.#onNews()
  }

  /** After each publish: frees what was handed out for flashblocks up to `pending` and is not in them, and forgets what is old. */
  settle(heads: SettledHeads): void {
    const now = this.#now()
    const handedBeforeMs = now - this.limits.handedMs
    const stale = takeBackUnused(this.#senders.values(), { pending: heads.pending, handedBeforeMs })
    if (stale.size > 0) this.#onNews()
    const isNewBlock = heads.canonical !== this.#canonical
    for (const sender of isNewBlock ? [...stale, ...this.#gapped()] : stale)
      if (this.#moveNonce(sender, heads.nonceOf(sender.address, sender.nonce)))
        this.#announce(sender.address)
    if (!isNewBlock) return
    this.#canonical = heads.canonical
    this.#forget({ canonical: heads.canonical, nowMs: now, limits: this.limits })
    this.#journal.rewriteWhenDue()
  }

  /** Leaves in the journal what a restart needs: everything that could still be lost, and what could not be looked at yet. */
  rewriteJournal(kept?: readonly Bytes[]): void {
    this.#journal.rewrite(kept)
  }

  #accept(
    transaction: SignedTransaction,
    head: TxpoolHead,
    { journal, sidecar, digest, isListed }: Acceptance,
  ): Submitted | Unproven | Unlisted {
    const account = head.account(transaction.from)
    const nonce = account?.nonce ?? 0n
    const checked = checkTransaction(transaction, {
      head,
      nonce,
      sidecar,
      digest,
      limits: journal === undefined ? { ...this.limits, feeCap: 0n } : this.limits,
    })
    if ('error' in checked) return checked
    const entry = this.#entry(transaction, checked.cost, checked.isGasless)
    const sender = this.#senders.get(entry.sender) ?? newSender(entry, transaction.from, nonce)
    // The head may be newer than the last `settle`; it is never older than the sender's own nonce by more than a flush.
    this.#moveNonce(sender, nonce)
    const replaced = sender.entries.get(transaction.nonce)
    const spent = spending(sender, nonce, transaction.nonce)
    const error =
      checkReserved(sender, transaction) ??
      (replaced && checkReplacement(replaced, entry, this.limits)) ??
      (journal && checkFunds({ balance: account?.balance ?? 0n, cost: entry.cost, spent }))
    if (error !== undefined) return { error }
    if (sidecar !== undefined && sidecar !== 'proven') return { unproven: sidecar }
    if (!isListed && isFree(transaction, head)) return { unlisted: transaction }
    const noRoom = replaced ? undefined : this.#makeRoom(sender, entry, head.baseFee)
    if (noRoom !== undefined) return { error: noRoom }
    journal?.(transaction.raw)
    if (replaced !== undefined) this.#remove(replaced, LEFT.replacedBy(transaction))
    this.#insert(sender, entry)
    return { hash: transaction.hash }
  }

  #entry(transaction: SignedTransaction, cost: bigint, isGasless: boolean): Entry {
    const [arrival, addedAtMs] = [this.#arrivals++, this.#now()]
    return newEntry(transaction, { cost, isGasless, arrival, addedAtMs })
  }

  #makeRoom(sender: Sender, entry: Entry, baseFee: bigint): InvalidTransaction | undefined {
    const { total, totalBytes } = this.limits
    const newcomer = candidate(sender, entry, baseFee)
    const isQueued = newcomer.distance > 0n
    if (!hasShare(sender, newcomer, this.limits)) return refusal.accountLimit(sender.entries.size)
    const bytes = entry.transaction.raw.length
    while (this.#open >= total || this.#bytes + bytes > totalBytes) {
      // In bulk, so that a full txpool does not look at every sender for each newcomer.
      const count = Math.max(1, total >> 7)
      const worse = victims(this.#senders.values(), newcomer, { count, baseFee })
      if (worse.length === 0) return isQueued ? refusal.full() : refusal.underpriced()
      for (const victim of worse) this.#remove(victim, LEFT.full)
    }
    return undefined
  }

  #insert(sender: Sender, entry: Entry): void {
    this.#kept.add(entry)
    this.#senders.set(sender.key, sender)
    sender.entries.set(entry.transaction.nonce, entry)
    this.#watcher?.open(entry, true)
    this.#open++
    this.#bytes += entry.transaction.raw.length
  }

  /** Takes an entry out of its sender's queue; it stays known by its hash. */
  #close(entry: Entry): void {
    const sender = this.#senders.get(entry.sender)
    if (sender?.entries.get(entry.transaction.nonce) !== entry) return
    sender.entries.delete(entry.transaction.nonce)
    if (sender.entries.size === 0) this.#senders.delete(sender.key)
    this.#watcher?.open(entry, false)
    this.#open--
    this.#bytes -= entry.transaction.raw.length
  }

  #remove(entry: Entry, departure: Departure): void {
    this.#close(entry)
    this.#kept.delete(entry)
    this.#departed.add(entry.key, departure)
    this.#dropped++
  }

  /** An included entry that no block has any more goes back; it was shown, so it wins over another with its nonce. */
  #reopen(entry: Entry, nonce: bigint): void {
    this.#included.drop(entry)
    if (this.#unwanted.has(entry.key)) return void this.#remove(entry, LEFT.unwanted)
    entry.place = { status: 'waiting' }
    const sender =
      this.#senders.get(entry.sender) ?? newSender(entry, entry.transaction.from, nonce)
    const other = sender.entries.get(entry.transaction.nonce)
    if (other !== undefined) this.#remove(other, LEFT.replacedBy(entry.transaction))
    this.#insert(sender, entry)
  }

  /** True when the nonce moved. Entries below it can never be included: they go, unless a flashblock that was not published yet may have them. */
  #moveNonce(sender: Sender, nonce: bigint): boolean {
    const hasMoved = sender.nonce !== nonce
    sender.nonce = nonce
    for (const entry of [...sender.entries.values()])
      if (entry.transaction.nonce < nonce && entry.place.status === 'waiting')
        this.#remove(entry, LEFT.nonceUsed)
    return hasMoved
  }

  #announce(address: Bytes): void {
    const sender = this.#senders.get(keyOf(address))
    if (sender !== undefined) this.#announcements.tell(sender)
  }

  #forget(at: Parameters<typeof outdated>[1]): void {
    for (const entry of outdated(this.#kept.list(), at))
      if (entry.place.status !== 'included') this.#remove(entry, LEFT.expired)
      else if (this.#kept.delete(entry)) this.#included.drop(entry)
  }
}

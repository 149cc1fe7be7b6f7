/** The txpool: accepted transactions that are not final yet. It has no thread, clock or view. */
import { type InvalidTransaction, refusal } from '../execution/transaction/invalid.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { keccak256 } from '../primitives/keccak.ts'
import type { SignedTransaction } from '../primitives/transaction.ts'
import { type Announcements, createAnnouncements } from './announcements.ts'
import { chooseBest } from './best.ts'
import { createDeparted, type Departure, LEFT, type Standing } from './departed.ts'
import { createRefusals, createUnwanted, type Refusals, type Unwanted } from './dropped.ts'
import { createGapRound, createIncluded, createRetainedEntries } from './entries.ts'
import { candidate, hasShare, outdated, victims } from './eviction.ts'
import { createJournalWriter, type JournalWriter } from './journal.ts'
import { TXPOOL_LIMITS, type TxpoolLimits } from './limits.ts'
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
  readonly #retained: ReturnType<typeof createRetainedEntries>
  readonly #refusals: Refusals
  readonly #departed: ReturnType<typeof createDeparted>
  /** Only senders with entries that are not in a block. */
  readonly #senders = new Map<string, Sender>()
  readonly #included: ReturnType<typeof createIncluded>
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
    this.#retained = createRetainedEntries(watcher)
    this.#included = createIncluded(watcher)
    const { transactions } = this.#retained
    this.#journal = createJournalWriter(journal, transactions, this.limits.journalSlack)
    this.#now = options.now
    this.#refusals = createRefusals(this.limits, options.now)
    this.#departed = createDeparted(this.limits, options.onDeparted)
    this.#onNews = options.onNews ?? (() => {})
    this.#announcements = createAnnouncements(this.#onNews)
    this.#unwanted = createUnwanted(this.limits.unwanted)
    this.#gapped = createGapRound(this.#senders, this.limits.gapSenders)
  }

  /**
   * Validates a transaction against the pending head, journals it and accepts it. Blobs need
   * checked proofs, a long envelope its digest, a free call its listing.
   * @param raw an envelope, or the network form of a blob transaction
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
    const known = this.#retained.get(key)
    if (known !== undefined && known.state.status !== 'included')
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
    if (isTaken)
      this.#announcements.announceLate(decoded.transaction, this.#retained.get(key), result)
    return result
  }

  /**
   * Restores a journalled transaction; funds may be in blocks that are not back yet.
   * @returns false when the transaction does not fit any more
   */
  restore(raw: Bytes, head: TxpoolHead): boolean {
    if (this.#retained.get(keyOf(keccak256(raw))) !== undefined) return true
    const decoded = decodeSubmitted(raw)
    if ('error' in decoded) return false
    this.#journal.countFound()
    return !('error' in this.#accept(decoded.transaction, head, RESTORED))
  }

  get(hash: Bytes): SignedTransaction | undefined {
    const entry = this.#retained.get(keyOf(hash))
    return entry === undefined || entry.state.status === 'included' ? undefined : entry.transaction
  }

  /** Returns a retained transaction, waiting or in a block that is not final yet. */
  retained(hash: Bytes): SignedTransaction | undefined {
    return this.#retained.get(keyOf(hash))?.transaction
  }

  /** undefined: the transaction is in a block, or unknown. */
  standingOf(hash: Bytes): Standing | undefined {
    const entry = this.#retained.get(keyOf(hash))
    if (entry === undefined) return this.#departed.of(keyOf(hash))
    const ms = this.#now() - entry.addedAtMs
    return entry.state.status === 'included' ? undefined : { why: 'waits', ms }
  }

  isExpected(hash: Bytes): boolean {
    return this.retained(hash) !== undefined
  }

  /**
   * Returns the nonce after the consecutive ones from `stateNonce` on, of a possibly older state.
   */
  nextNonce(address: Bytes, stateNonce: bigint): bigint {
    const key = keyOf(address)
    const nonce = this.#included.nonceAfter(key, stateNonce)
    const sender = this.#senders.get(key)
    return sender === undefined ? nonce : firstGap(sender, nonce)
  }

  counts(): { readonly pending: number; readonly queued: number } {
    return countsOf(this.#senders.values(), this.#open)
  }

  stats(): Readonly<Record<'open' | 'bytes' | 'included' | 'dropped', number>> {
    return {
      open: this.#open,
      bytes: this.#bytes,
      included: this.#retained.size - this.#open,
      dropped: this.#dropped,
    }
  }

  /**
   * Notifies once for each executable transaction. Returns the function that removes the listener.
   */
  onPending(listener: PendingListener): () => void {
    return this.#announcements.listen(listener)
  }

  /** Selects transactions. Each is selected once, unless its flashblock comes without it. */
  best(wanted: Wanted): Offered {
    for (const key of wanted.excluded) {
      const entry = this.#retained.get(key)
      if (entry !== undefined) entry.isStopped = true
    }
    const { entries, hasMore, reserved } = chooseBest(this.#senders.values(), wanted, (sender) =>
      this.#moveNonce(sender, wanted.nonceOf(sender.address, sender.nonce)),
    )
    const atMs = this.#now()
    for (const entry of entries) entry.state = { status: 'selected', target: wanted.target, atMs }
    const transactions = entries.map(({ transaction }) => transaction)
    return { transactions, hasMore, reserved: reserved?.transaction }
  }

  takeBack(hashes: readonly Bytes[]): void {
    for (const hash of hashes) {
      const entry = this.#retained.get(keyOf(hash))
      if (entry?.state.status === 'selected') entry.state = { status: 'waiting' }
    }
  }

  /**
   * Removes transactions that the sequencer could not execute. A wrong nonce leaves the transaction
   * selected until its flashblock is published, because the sequencer may be ahead.
   * @param all `isFinal`: a repeated submission is refused for a while. `isUnwanted`: the
   * transaction is removed even from a block.
   */
  rejected(all: readonly RejectedTransaction[]): void {
    for (const { hash, reason, isFinal, isUnwanted = false } of all) {
      const entry = this.#retained.get(keyOf(hash))
      // Views may contain the transaction for some time yet.
      if (isUnwanted) this.#unwanted.add(keyOf(hash))
      if (entry === undefined || (entry.state.status === 'included' && !isUnwanted)) continue
      if (/^nonce too (low|high)/.test(reason)) continue
      this.#included.drop(entry)
      this.#remove(entry, { why: 'dropped', reason })
      if (isFinal === true) this.#refusals.add(entry.key, reason)
    }
    if (all.some(({ isUnwanted }) => isUnwanted)) this.rewriteJournal()
  }

  /** The transaction is in a block of the pending chain; it may be unknown to this txpool. */
  include(transaction: SignedTransaction, blockNumber: number): void {
    const known = this.#retained.get(keyOf(transaction.hash))
    const entry = known ?? { ...this.#entry(transaction, 0n, false), awaitsLateAnnouncement: true }
    if (known === undefined) this.#retained.add(entry)
    else if (known.state.status !== 'included') this.#close(known)
    entry.state = { status: 'included', blockNumber }
    entry.isAnnounced = true
    this.#included.add(entry)
    const sender = this.#senders.get(entry.sender)
    if (sender !== undefined && sender.nonce <= transaction.nonce)
      this.#moveNonce(sender, transaction.nonce + 1n)
    this.#announce(transaction.from)
  }

  /** Handles a new pending chain: lost transactions come back, and all nonces are read again. */
  rewind(chain: { blockOf(hash: Bytes): number | undefined; readonly nonceOf: NonceOf }): void {
    for (const entry of this.#retained.list()) {
      if (entry.state.status !== 'included') continue
      const blockNumber = chain.blockOf(entry.transaction.hash)
      if (blockNumber !== undefined) entry.state = { status: 'included', blockNumber }
      else this.#reopen(entry, chain.nonceOf(entry.transaction.from, entry.transaction.nonce))
    }
    takeBackUnused(this.#senders.values())
    for (const sender of [...this.#senders.values()])
      this.#moveNonce(sender, chain.nonceOf(sender.address, sender.nonce))
    for (const sender of [...this.#senders.values()]) this.#announce(sender.address)
    this.#onNews()
  }

  /** Called after each publish. Releases selected transactions and forgets old ones. */
  settle(heads: SettledHeads): void {
    const now = this.#now()
    const staleBeforeMs = now - this.limits.selectedMs
    const stale = takeBackUnused(this.#senders.values(), { pending: heads.pending, staleBeforeMs })
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

  /** Rewrites the journal. `retained`: transactions that could not be restored yet. */
  rewriteJournal(retained?: readonly Bytes[]): void {
    this.#journal.rewrite(retained)
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
    // The head may be newer than the last `settle`, and older only after a flush.
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
    const poolFull = replaced ? undefined : this.#evictFor(sender, entry, head.baseFee)
    if (poolFull !== undefined) return { error: poolFull }
    journal?.(transaction.raw)
    if (replaced !== undefined) this.#remove(replaced, LEFT.replacedBy(transaction))
    this.#insert(sender, entry)
    return { hash: transaction.hash }
  }

  #entry(transaction: SignedTransaction, cost: bigint, isGasless: boolean): Entry {
    const [arrival, addedAtMs] = [this.#arrivals++, this.#now()]
    return newEntry(transaction, { cost, isGasless, arrival, addedAtMs })
  }

  #evictFor(sender: Sender, entry: Entry, baseFee: bigint): InvalidTransaction | undefined {
    const { total, totalBytes } = this.limits
    const newcomer = candidate(sender, entry, baseFee)
    const isQueued = newcomer.distance > 0n
    if (!hasShare(sender, newcomer, this.limits)) return refusal.accountLimit(sender.entries.size)
    const bytes = entry.transaction.raw.length
    while (this.#open >= total || this.#bytes + bytes > totalBytes) {
      // Eviction is in bulk, so that a full txpool does not check every sender for each newcomer.
      const count = Math.max(1, total >> 7)
      const worse = victims(this.#senders.values(), newcomer, { count, baseFee })
      if (worse.length === 0) return isQueued ? refusal.full() : refusal.underpriced()
      for (const victim of worse) this.#remove(victim, LEFT.full)
    }
    return undefined
  }

  #insert(sender: Sender, entry: Entry): void {
    this.#included.drop(entry)
    this.#retained.add(entry)
    this.#senders.set(sender.key, sender)
    sender.entries.set(entry.transaction.nonce, entry)
    this.#watcher?.open(entry, true)
    this.#open++
    this.#bytes += entry.transaction.raw.length
  }

  /** Removes an entry from its sender's queue. The entry can still be found by hash. */
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
    this.#retained.delete(entry)
    this.#departed.add(entry.key, departure)
    this.#dropped++
  }

  /** Moves a lost entry back. It was visible, so it wins over another with its nonce. */
  #reopen(entry: Entry, nonce: bigint): void {
    this.#included.drop(entry)
    if (this.#unwanted.has(entry.key)) return void this.#remove(entry, LEFT.unwanted)
    entry.state = { status: 'waiting' }
    const sender =
      this.#senders.get(entry.sender) ?? newSender(entry, entry.transaction.from, nonce)
    const other = sender.entries.get(entry.transaction.nonce)
    if (other !== undefined) this.#remove(other, LEFT.replacedBy(entry.transaction))
    this.#insert(sender, entry)
  }

  /** Sets the nonce. Lower entries go, except selected ones, which a flashblock may include. */
  #moveNonce(sender: Sender, nonce: bigint): boolean {
    const hasMoved = sender.nonce !== nonce
    sender.nonce = nonce
    for (const entry of [...sender.entries.values()])
      if (entry.transaction.nonce < nonce && entry.state.status === 'waiting')
        this.#remove(entry, LEFT.nonceUsed)
    return hasMoved
  }

  #announce(address: Bytes): void {
    const sender = this.#senders.get(keyOf(address))
    if (sender !== undefined) this.#announcements.announce(sender)
  }

  #forget(at: Parameters<typeof outdated>[1]): void {
    for (const entry of outdated(this.#retained.list(), at))
      if (entry.state.status !== 'included') this.#remove(entry, LEFT.expired)
      else if (this.#retained.delete(entry)) this.#included.drop(entry)
  }
}

/** The txpool of the main thread: serves methods and the sequencer, and follows each publish. */

import type { ChainReader } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import {
  type InvalidTransaction,
  invalid as reasons,
  refusal,
} from '../../engine/execution/transaction/invalid.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { envelopeOf } from '../../engine/primitives/transaction-codec.ts'
import type { Offered } from '../../engine/sources/sequencer/types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import { JournalError } from '../../engine/storage/directory/journal.ts'
import { storageFailure } from '../../engine/storage/persistence/failure.ts'
import {
  followViews,
  noncesOf,
  pendingBlock,
  type Restored,
  restoreTxpool,
} from '../../engine/txpool/follow.ts'
import { headOf } from '../../engine/txpool/head.ts'
import type { TxpoolLimits } from '../../engine/txpool/limits.ts'
import { SharedTxpool } from '../../engine/txpool/shared/txpool.ts'
import type { WaitingWriter } from '../../engine/txpool/shared/writer.ts'
import { Txpool } from '../../engine/txpool/txpool.ts'
import {
  type Known,
  keyOf,
  type ReadHead,
  type TxpoolJournal,
  type TxpoolOptions,
  type Undigested,
  type Unlisted,
  type Unproven,
} from '../../engine/txpool/types.ts'
import { broken, invalidTransaction } from '../../rpc/core/errors.ts'
import type { PoolClient } from '../../rpc/core/executor.ts'
import type { Submission, TransactionService } from '../../rpc/core/ports.ts'
import type { FromSequencer } from '../thread/messages.ts'
import type { MakeDigest } from './digester.ts'
import type { Prove } from './prover.ts'
import type { IsListed } from './whitelist.ts'

/**
 * A raw transaction and its sender's client. A worker's time for it is charged to that client and
 * uses its turn.
 */
type SubmitRequest = { readonly raw: Bytes; readonly client: PoolClient }
/** Submissions that need further work first. */
type Unfinished = Undigested | Unlisted | Unproven
type Want = Extract<FromSequencer, { readonly type: 'want' }>
type Rejected = Extract<FromSequencer, { readonly type: 'rejected' }>

export interface Transactions {
  readonly service: TransactionService
  /**
   * Restores the journalled transactions once the first snapshot can be read, and again those that
   * wait for state.
   */
  restore(journalled: Iterable<Bytes>): Restored
  /**
   * Updates the txpool after a publish.
   * @param visible hashes of the transactions that became visible
   * @returns milliseconds since acceptance, of those that came through this txpool
   */
  published(visible: readonly Bytes[]): readonly number[]
  wanted(want: Want): Offered
  rejected(message: Pick<Rejected, 'transactions'>): void
  /** Hashes of transactions that were selected and not executed. */
  returned(transactions: readonly Bytes[]): void
  /**
   * Calls `listener` once when there may be transactions to select, and again only after the next
   * `wanted`.
   */
  onNews(listener: () => void): void
  stats(): Readonly<Record<string, number>>
}

type Options = {
  readonly reader: ChainReader
  readonly chain: ChainSpec
  readonly journal: TxpoolJournal
  readonly limits: Pick<TxpoolLimits, 'transactionBytes' | 'blobTransactionBytes'>
  readonly prove: Prove
  readonly makeDigest: MakeDigest
  readonly isListed: IsListed
  /** Memory that other fronts read; undefined when there are none. */
  readonly waiting?: WaitingWriter | undefined
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Reports that the journal cannot be written, with the problem and its remedy. */
  readonly onFailure: (message: string) => void
}

export function createTransactions(options: Options): Transactions {
  const { reader, chain, journal, limits, waiting, now } = options
  let onNews = () => {}
  let isAnnounced = false
  const departures = collectDepartures()
  const txpool = openTxpool(waiting, {
    journal,
    now,
    limits,
    onDeparted: departures.add,
    onNews() {
      if (isAnnounced) return
      isAnnounced = true
      onNews()
    },
  })
  const follower = followViews(txpool)
  const submit = createSubmit(txpool, options)

  return {
    service: {
      submit,
      get: (hash) => txpool.retained(hash),
      nextNonce: (sender, stateNonce) => txpool.nextNonce(sender, stateNonce),
      isExpected: (hash) => txpool.isExpected(hash),
      standingOf: (hash) => txpool.standingOf(hash),
      counts: () => txpool.counts(),
      onPending: (listener) => txpool.onPending(listener),
      onDeparted: departures.listen,
    },
    restore: (journalled) => {
      const raws = [...journalled]
      // Rewriting the journal waits for the disk, so an empty restore returns early.
      if (raws.length === 0) return { restored: 0, waiting: [], missing: [] }
      return readNewest(reader, 'flashblocks', (view) =>
        restoreTxpool(txpool, raws, { view, head: headOf(view, chain) }),
      )
    },
    published: (visible) => {
      const waited = visible.flatMap((hash) => waitedMs(txpool.standingOf(hash)))
      // A view that becomes stale here has a successor, whose publish updates the txpool.
      passOver(() => readNewest(reader, 'flashblocks', (view) => follower.update(view)))
      return waited
    },
    wanted({ gas, blockGas, count, baseFee, number, index, excluded, isGaslessWanted }) {
      isAnnounced = false
      return offeredBy(() =>
        readNewest(reader, 'flashblocks', (view) =>
          txpool.best({
            gas,
            blockGas,
            count,
            baseFee,
            isGaslessWanted,
            target: { number, index },
            excluded: new Set(excluded.map(keyOf)),
            nonceOf: noncesOf(view, pendingBlock(view)),
          }),
        ),
      )
    },
    rejected: ({ transactions }) => txpool.rejected(transactions),
    returned: (transactions) => txpool.takeBack(transactions),
    onNews(listener) {
      onNews = listener
    },
    stats: () => ({ ...txpool.stats(), ...txpool.counts() }),
  }
}

const waitedMs = (standing: ReturnType<Txpool['standingOf']>): readonly number[] =>
  standing?.why === 'waits' ? [standing.ms] : []

/**
 * Returns the offer to the sequencer. A view that became stale gives an empty offer, and the next
 * request reads a newer one.
 */
function offeredBy(choose: () => ReturnType<Txpool['best']>): Offered {
  const best = passOver(choose)
  if (best === undefined) return { transactions: [], hasMore: true }
  const { transactions, hasMore, reserved } = best
  return {
    transactions: transactions.map(envelopeOf),
    hasMore,
    reserved: reserved && { hash: reserved.hash, gasLimit: reserved.gasLimit },
  }
}

/**
 * Departures of one turn of the event loop are reported together, because a full txpool drops many
 * at once.
 */
function collectDepartures() {
  const listeners: ((hashes: readonly Bytes[]) => void)[] = []
  let departed: Bytes[] = []
  return {
    listen: (listener: (hashes: readonly Bytes[]) => void) => void listeners.push(listener),
    add(hash: Bytes) {
      departed.push(hash)
      if (departed.length > 1) return
      setImmediate(() => {
        const hashes = departed
        departed = []
        for (const listener of listeners) listener(hashes)
      })
    },
  }
}

const openTxpool = (waiting: WaitingWriter | undefined, options: TxpoolOptions): Txpool =>
  waiting === undefined ? new Txpool(options) : new SharedTxpool(options, waiting)

/**
 * Creates the submission to the txpool. Workers do the expensive checks, and the txpool then judges
 * the transaction again.
 */
function createSubmit(txpool: Txpool, options: Options): TransactionService['submit'] {
  const { reader, chain, prove, makeDigest, isListed, onFailure } = options
  const readHead: ReadHead = (use) =>
    readNewest(reader, 'flashblocks', (view) => use(headOf(view, chain)))

  function submitToTxpool(raw: Bytes, known: Known): Submission | Unfinished {
    try {
      const submitted = txpool.submit(raw, readHead, known)
      return 'error' in submitted ? refused(submitted.error) : submitted
    } catch (error) {
      if (!(error instanceof JournalError)) throw error
      if (error.reason === 'full') return refused(refusal.full())
      onFailure(storageFailure(error)!)
      return { error: broken('the transaction cannot be stored: the disk fails').toObject() }
    }
  }

  /** Submits repeatedly, each time with the result of a worker, until no check is left. */
  function submitKnowing(request: SubmitRequest, known: Known): Submission | Promise<Submission> {
    const { raw, client } = request
    const submitted = submitToTxpool(raw, known)
    if ('undigested' in submitted)
      return makeDigest(submitted.undigested, client).then((made) =>
        'error' in made ? made : submitKnowing(request, { ...known, digest: made.digest }),
      )
    if ('unproven' in submitted)
      return prove(submitted.unproven, client).then((error) =>
        error === undefined ? submitKnowing(request, { ...known, isProven: true }) : { error },
      )
    if ('unlisted' in submitted)
      return isListed(submitted.unlisted, client).then((isListed) =>
        isListed
          ? submitKnowing(request, { ...known, isListed: true })
          : refused(reasons.feeBelowBaseFee()),
      )
    return submitted
  }

  const TAKEN: Known = { isProven: true, isListed: true, isTaken: true }
  return (raw, client, isTaken = false) => submitKnowing({ raw, client }, isTaken ? TAKEN : {})
}

const refused = (reason: InvalidTransaction): Submission => ({
  error: invalidTransaction(reason).toObject(),
})

function passOver<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof ViewError) return undefined
    throw error
  }
}

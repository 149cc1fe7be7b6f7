/** The txpool of the main thread: what methods ask of it, what the sequencer wants from it, and each publish. */

import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { invalid as reasons } from '../../engine/execution/transaction/invalid.ts'
import type { InvalidTransaction } from '../../engine/execution/transaction/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { envelopeOf } from '../../engine/primitives/transaction-codec.ts'
import type { Offered } from '../../engine/sources/sequencer/types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import { JournalError } from '../../engine/storage/directory/journal.ts'
import { storageFailure } from '../../engine/storage/keeper/failure.ts'
import {
  followViews,
  noncesOf,
  pendingBlock,
  type Restored,
  restoreTxpool,
} from '../../engine/txpool/follow.ts'
import { headOf } from '../../engine/txpool/head.ts'
import type { TxpoolLimits } from '../../engine/txpool/limits.ts'
import { refusal } from '../../engine/txpool/refusal.ts'
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
import { broken, invalidTransaction } from '../../rpc/seam/errors.ts'
import type { PoolClient } from '../../rpc/seam/executor.ts'
import type { Submission, TransactionService } from '../../rpc/seam/ports.ts'
import type { FromSequencer } from '../thread/messages.ts'
import type { MakeDigest } from './digester.ts'
import type { Prove } from './prover.ts'
import type { IsListed } from './whitelist.ts'

/** A transaction as it was sent, and by whom: what a worker does for it is charged to them, and has their turn. */
type Asked = { readonly raw: Bytes; readonly client: PoolClient }
/** There is more to find out about it. */
type Unfinished = Undigested | Unlisted | Unproven
type Want = Extract<FromSequencer, { readonly type: 'want' }>
type Rejected = Extract<FromSequencer, { readonly type: 'rejected' }>

export interface Transactions {
  readonly service: TransactionService
  /** When the first record can be read, and again with those that wait for state: puts the journalled ones back. */
  restore(journalled: Iterable<Bytes>): Restored
  /** After each publish, with the hashes of what became visible. Milliseconds since those of them were taken that came through this txpool. */
  published(shown: readonly Bytes[]): readonly number[]
  wanted(want: Want): Offered
  rejected(message: Pick<Rejected, 'transactions'>): void
  /** Hashes of transactions that were handed out and not executed. */
  returned(transactions: readonly Bytes[]): void
  /** `listener` is called once when there may be something to hand out, and not again before `wanted` was. */
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
  /** What other fronts read of it; undefined: there are none. */
  readonly waiting?: WaitingWriter | undefined
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** The journal cannot be written: what is wrong and what to do. */
  readonly onFailure: (message: string) => void
}

export function createTransactions(options: Options): Transactions {
  const { reader, chain, journal, limits, waiting, now } = options
  let onNews = () => {}
  let isTold = false
  const departures = collectDepartures()
  const txpool = openTxpool(waiting, {
    journal,
    now,
    limits,
    onDeparted: departures.add,
    onNews() {
      if (isTold) return
      isTold = true
      onNews()
    },
  })
  const follower = followViews(txpool)
  const submit = createSubmit(txpool, options)

  return {
    service: {
      submit,
      get: (hash) => txpool.kept(hash),
      nextNonce: (sender, stateNonce) => txpool.nextNonce(sender, stateNonce),
      isExpected: (hash) => txpool.isExpected(hash),
      standingOf: (hash) => txpool.standingOf(hash),
      counts: () => txpool.counts(),
      onPending: (listener) => txpool.onPending(listener),
      onDeparted: departures.listen,
    },
    restore: (journalled) => {
      const raws = [...journalled]
      // Writing the journal anew waits for the disk: not when there is nothing to leave out.
      if (raws.length === 0) return { restored: 0, waiting: [], missing: [] }
      return readNewest(reader, 'flashblocks', (view) =>
        restoreTxpool(txpool, raws, { view, head: headOf(view, chain) }),
      )
    },
    published: (shown) => {
      const waited = shown.flatMap((hash) => {
        const standing = txpool.standingOf(hash)
        return standing?.why === 'waits' ? [standing.ms] : []
      })
      // A view that vanishes while it is read has a successor, whose publish comes here too.
      passOver(() => readNewest(reader, 'flashblocks', (view) => follower.update(view)))
      return waited
    },
    wanted({ gas, blockGas, count, baseFee, number, index, excluded, isGaslessWanted }) {
      isTold = false
      return offeredBy(() =>
        readNewest(reader, 'flashblocks', (view) =>
          txpool.best({
            ...{ gas, blockGas, count, baseFee, isGaslessWanted },
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

/** What the sequencer is given. A view that vanished under the question gives nothing: the next question reads another. */
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

/** Departures of one turn of the event loop are reported together, because a full txpool loses many at once. */
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

/** Takes a transaction into the txpool: what is dear to find out about it a worker finds out, and it is looked at again. */
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

  /** Once more with what a worker has found out, as often as there is more to find out. */
  function submitKnowing(asked: Asked, known: Known): Submission | Promise<Submission> {
    const { raw, client } = asked
    const submitted = submitToTxpool(raw, known)
    if ('undigested' in submitted)
      return makeDigest(submitted.undigested, client).then((made) =>
        'error' in made ? made : submitKnowing(asked, { ...known, digest: made.digest }),
      )
    if ('unproven' in submitted)
      return prove(submitted.unproven, client).then((error) =>
        error === undefined ? submitKnowing(asked, { ...known, isProven: true }) : { error },
      )
    if ('unlisted' in submitted)
      return isListed(submitted.unlisted, client).then((isListed) =>
        isListed
          ? submitKnowing(asked, { ...known, isListed: true })
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

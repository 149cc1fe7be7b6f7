/** The transaction pool of the main thread: what methods ask of it, what the sequencer wants from it, and each publish. */
import type { ChainReader } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { InvalidTransaction } from '../engine/execution/types.ts'
import type { BlobSidecar } from '../engine/primitives/blob-sidecar.ts'
import type { Bytes } from '../engine/primitives/bytes.ts'
import type { Offered } from '../engine/sources/sequencer-types.ts'
import { ViewError } from '../engine/state/reader.ts'
import { storageFailure } from '../engine/storage/failure.ts'
import { JournalError } from '../engine/storage/journal.ts'
import { followViews, noncesOf, pendingBlock, restorePool } from '../engine/txpool/follow.ts'
import { headOf } from '../engine/txpool/head.ts'
import type { PoolLimits } from '../engine/txpool/limits.ts'
import { TransactionPool } from '../engine/txpool/pool.ts'
import { keyOf, type PoolHead, type PoolJournal, type Submitted } from '../engine/txpool/types.ts'
import { invalid } from '../engine/txpool/validation.ts'
import { readNewest } from '../rpc/scope.ts'
import type { PoolService } from '../rpc/services.ts'
import type { FromSequencer } from './messages.ts'

type Want = Extract<FromSequencer, { readonly type: 'want' }>
type Rejected = Extract<FromSequencer, { readonly type: 'rejected' }>

export interface Transactions {
  readonly service: PoolService
  /** Once, when the first record can be read: puts the journalled ones back. Returns how many. */
  restore(journalled: Iterable<Bytes>): number
  /** After each publish. */
  published(): void
  wanted(want: Want): Offered
  rejected(message: Rejected): void
  /** Hashes of transactions that were handed out and not executed. */
  returned(transactions: readonly Bytes[]): void
  /** `listener` is called once when there may be something to hand out, and not again before `wanted` was. */
  onNews(listener: () => void): void
  stats(): Readonly<Record<string, number>>
}

export function createTransactions(options: {
  readonly reader: ChainReader
  readonly chain: ChainSpec
  readonly journal: PoolJournal
  readonly limits: Pick<PoolLimits, 'transactionBytes' | 'blobTransactionBytes'>
  /** Checks the proofs of blobs; undefined: they are right. */
  readonly prove: (sidecar: BlobSidecar) => Promise<InvalidTransaction | undefined>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** The journal cannot be written: what is wrong and what to do. */
  readonly onFailure: (message: string) => void
}): Transactions {
  const { reader, chain } = options
  const { journal, limits, now, prove } = options
  let onNews = () => {}
  let isTold = false
  const pool = new TransactionPool({
    journal,
    now,
    limits,
    onNews() {
      if (isTold) return
      isTold = true
      onNews()
    },
  })
  const follower = followViews(pool)

  function submitTo<T>(submit: (head: PoolHead) => T): T | Submitted {
    try {
      return readNewest(reader, 'flashblocks', (view) => submit(headOf(view, chain)))
    } catch (error) {
      if (!(error instanceof JournalError)) throw error
      if (error.reason === 'full') return { error: invalid('txpool is full', -32003) }
      options.onFailure(storageFailure(error)!)
      return { error: invalid('the transaction cannot be stored: the disk fails', -32603) }
    }
  }

  return {
    service: {
      submit(raw) {
        const submitted = submitTo((head) => pool.submit(raw, head))
        if (!('unproven' in submitted)) return submitted
        return prove(submitted.unproven).then((error) =>
          error === undefined ? submitTo((head) => pool.submit(raw, head, 'proven')) : { error },
        )
      },
      get: (hash) => pool.get(hash),
      nextNonce: (sender, stateNonce) => pool.nextNonce(sender, stateNonce),
      isExpected: (hash) => pool.isExpected(hash),
      counts: () => pool.counts(),
      onPending: (listener) => pool.onPending(listener),
    },
    restore: (journalled) => {
      const raws = [...journalled]
      // Writing the journal anew waits for the disk: not when there is nothing to leave out.
      if (raws.length === 0) return 0
      return readNewest(reader, 'flashblocks', (view) =>
        restorePool(pool, raws, { view, head: headOf(view, chain) }),
      )
    },
    published: () => {
      // A view that vanishes while it is read has a successor, whose publish comes here too.
      passOver(() => readNewest(reader, 'flashblocks', (view) => follower.update(view)))
    },
    wanted({ gas, count, baseFee, number, index, excluded }) {
      isTold = false
      const best = passOver(() =>
        readNewest(reader, 'flashblocks', (view) =>
          pool.best({
            gas,
            count,
            baseFee,
            target: { number, index },
            excluded: new Set(excluded.map(keyOf)),
            nonceOf: noncesOf(view, pendingBlock(view)),
          }),
        ),
      )
      // A view that vanished under it: the next question reads another.
      if (best === undefined) return { raw: [], hasMore: true }
      return { raw: best.transactions.map(({ raw }) => raw), hasMore: best.hasMore }
    },
    rejected: ({ transactions }) => pool.rejected(transactions),
    returned: (transactions) => pool.takeBack(transactions),
    onNews(listener) {
      onNews = listener
    },
    stats: () => ({ ...pool.stats(), ...pool.counts() }),
  }
}

function passOver<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof ViewError) return undefined
    throw error
  }
}

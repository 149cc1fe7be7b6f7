/** What became of transactions, and of what flashblocks said of them. */
import type { Block, ChainReader, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex, quantity } from '../../engine/primitives/hex.ts'
import { readAccount } from '../../engine/state/read.ts'
import type { StoredPromise } from '../../engine/storage/ledger-types.ts'
import type { Standing } from '../../engine/txpool/departed.ts'
import { hash } from '../json/codecs.ts'
import { plainResult } from '../json/results.ts'
import { type FrontContext, frontMethod, optional, param } from '../method/method.ts'
import { DEFAULT_WINDOW_SECONDS, statsOf, window } from './shared/promise-stats.ts'

export const flashblocks_transactionStatus = frontMethod({
  name: 'flashblocks_transactionStatus',
  summary:
    'What became of a transaction: unknown, pooled, forwarded, preconfirmed, sealed, dropped or replaced, with its places and times, and what flashblocks promised of it.',
  endpoints: ['flashblocks'],
  params: [param('Transaction hash', hash)],
  result: plainResult('Status', { title: 'Transaction status', type: 'object' }),
  handler(context, wanted) {
    const { services, readNewest } = context
    const statusJson = (standing: Standing | undefined) => {
      // Before the view: a promise was shown before it was written down.
      const promises = services.promises.of(wanted)
      return readNewest((view) => {
        const told = shownOf(promises, view, services.reader)
        const status = statusOf(view, context, { wanted, promises: told, standing })
        return { hash: bytesToHex(wanted), ...status, promises: told.map(promiseJson) }
      })
    }
    // Before all else: what has left the txpool for a block is in the view then.
    const standing = services.transactions.standingOf(wanted)
    return standing instanceof Promise ? standing.then(statusJson) : statusJson(standing)
  },
})

export const base_transactionStatus = frontMethod({
  name: 'base_transactionStatus',
  summary:
    'Whether the txpool has a transaction that is in no canonical block yet: Known or Unknown.',
  params: [param('Transaction hash', hash)],
  result: plainResult('Status', { title: 'Transaction status', type: 'object' }),
  handler({ services, readNewest }, wanted) {
    const isKnown =
      services.transactions.isExpected(wanted) &&
      readNewest((view) => {
        const place = view.findTransaction(wanted)
        return place === undefined || place.block.number > view.canonical.number
      })
    return { status: isKnown ? 'Known' : 'Unknown' }
  },
})

export const flashblocks_stats = frontMethod({
  name: 'flashblocks_stats',
  summary:
    'What flashblocks promised in the last seconds and what became of it, how soon transactions of this node were shown, and how much later they were sealed.',
  endpoints: ['flashblocks'],
  params: [optional('Window', window, DEFAULT_WINDOW_SECONDS)],
  result: plainResult('Statistics', { title: 'Flashblock statistics', type: 'object' }),
  handler: ({ services }, seconds) => statsOf(services.promises, seconds),
})

/** Without those of flashblocks that clients are not shown yet: nobody was promised anything. */
function shownOf(
  promises: readonly StoredPromise[],
  { pending }: ChainView,
  reader: ChainReader,
): readonly StoredPromise[] {
  if (reader.newestOfAll() === reader.newestRecord()) return promises
  const isShown = ({ number, index }: StoredPromise) =>
    BigInt(number) < pending.number || (BigInt(number) === pending.number && index <= pending.index)
  return promises.filter(isShown)
}

type Asked = {
  readonly wanted: Bytes
  readonly promises: readonly StoredPromise[]
  readonly standing: Standing | undefined
}

/** What holds now, the first that applies. @throws {MissingError} {ViewError} */
function statusOf(
  view: ChainView,
  { services }: Pick<FrontContext, 'services'>,
  { wanted, promises, standing }: Asked,
): Readonly<Record<string, unknown>> {
  const place = view.findTransaction(wanted)
  if (place !== undefined) return shownAt(view, place, promises)
  const newest = promises.at(-1)
  if (newest !== undefined) return broken(view, newest, standing)
  if (standing?.why === 'waits') {
    const takenAt = Math.round(services.promises.nowMs() - standing.ms)
    return { status: services.forward === undefined ? 'pooled' : 'forwarded', takenAt }
  }
  if (standing?.why === 'replaced') return replacedBy(standing.by)
  if (standing?.why === 'dropped') return { status: 'dropped', reason: standing.reason }
  return { status: 'unknown' }
}

/** It was shown, and is not any more. Where it waits in the txpool again it may come back. @throws {MissingError} {ViewError} */
function broken(view: ChainView, promise: StoredPromise, standing: Standing | undefined) {
  if (standing?.why === 'replaced') return replacedBy(standing.by)
  const pending = view.block({ tag: 'pending' })
  const nonce = pending && (readAccount(view.state(pending), promise.sender)?.nonce ?? 0n)
  if (nonce !== undefined && nonce > promise.nonce) return replacedBy(undefined)
  return { status: 'dropped', isWaiting: standing?.why === 'waits' }
}

const replacedBy = (by: Bytes | undefined) => ({
  status: 'replaced',
  ...(by === undefined ? {} : { replacedBy: bytesToHex(by) }),
})

function shownAt(
  view: ChainView,
  { block, index }: { readonly block: Block; readonly index: number },
  promises: readonly StoredPromise[],
): Readonly<Record<string, unknown>> {
  const { number } = block
  const isSealed = number <= view.canonical.number
  const promise = promises.findLast(
    (one) => BigInt(one.number) === number && one.position === index,
  )
  const sealedAt = isSealed ? promise?.decidedAtMs : undefined
  return {
    status: isSealed ? 'sealed' : 'preconfirmed',
    blockNumber: quantity(number),
    blockHash: bytesToHex(block.hash),
    transactionIndex: quantity(index),
    ...(promise === undefined
      ? {}
      : { flashblockIndex: promise.index, preconfirmedAt: promise.atMs }),
    ...(sealedAt === undefined ? {} : { sealedAt }),
  }
}

/** Times in milliseconds since 1970. */
const promiseJson = (promise: StoredPromise) => ({
  blockNumber: quantity(promise.number),
  payloadId: bytesToHex(promise.payloadId),
  flashblockIndex: promise.index,
  transactionIndex: quantity(promise.position),
  preconfirmedAt: promise.atMs,
  fate: promise.fate,
  ...(promise.decidedAtMs === undefined ? {} : { decidedAt: promise.decidedAtMs }),
  ...(promise.causes.length === 0 ? {} : { causes: promise.causes }),
})

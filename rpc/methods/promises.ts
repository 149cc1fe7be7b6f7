/** Methods about the outcomes of transactions and of flashblocks' promises. */
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
    'Status of a transaction: unknown, pooled, forwarded, preconfirmed, sealed, dropped or replaced. Includes its locations and times, and each flashblock that promised it, with the outcome.',
  endpoints: ['flashblocks'],
  params: [param('Transaction hash', hash)],
  result: plainResult('Status', { title: 'Transaction status', type: 'object' }),
  handler(context, wanted) {
    const { services, readNewest } = context
    const statusJson = (standing: Standing | undefined) => {
      // The promises are read before the view, because a promise is visible before it is stored.
      const promises = services.promises.of(wanted)
      return readNewest((view) => {
        const visible = visibleOf(promises, view, services.reader)
        const status = statusOf(view, context, { wanted, promises: visible, standing })
        return { hash: bytesToHex(wanted), ...status, promises: visible.map(promiseJson) }
      })
    }
    // The txpool is read first. A transaction that left it for a block is then in the view.
    const standing = services.transactions.standingOf(wanted)
    return standing instanceof Promise ? standing.then(statusJson) : statusJson(standing)
  },
})

export const base_transactionStatus = frontMethod({
  name: 'base_transactionStatus',
  summary:
    'Known if the txpool has a transaction that is not in a canonical block yet, else Unknown.',
  params: [param('Transaction hash', hash)],
  result: plainResult('Status', { title: 'Transaction status', type: 'object' }),
  handler({ services, readNewest }, wanted) {
    const isKnown =
      services.transactions.isExpected(wanted) &&
      readNewest((view) => {
        const location = view.findTransaction(wanted)
        return location === undefined || location.block.number > view.canonical.number
      })
    return { status: isKnown ? 'Known' : 'Unknown' }
  },
})

export const flashblocks_stats = frontMethod({
  name: 'flashblocks_stats',
  summary:
    'Statistics of the last seconds: promised transactions by outcome, and, for transactions sent to this node, the times until they were visible and from then until they were sealed.',
  endpoints: ['flashblocks'],
  params: [optional('Window', window, DEFAULT_WINDOW_SECONDS)],
  result: plainResult('Statistics', { title: 'Flashblock statistics', type: 'object' }),
  handler: ({ services }, seconds) => statsOf(services.promises, seconds),
})

/** Excludes promises of flashblocks that are not visible to clients yet. */
function visibleOf(
  promises: readonly StoredPromise[],
  { pending }: ChainView,
  reader: ChainReader,
): readonly StoredPromise[] {
  if (reader.newestOfAll() === reader.newestSnapshot()) return promises
  const isVisible = ({ number, index }: StoredPromise) =>
    BigInt(number) < pending.number || (BigInt(number) === pending.number && index <= pending.index)
  return promises.filter(isVisible)
}

type StatusRequest = {
  readonly wanted: Bytes
  readonly promises: readonly StoredPromise[]
  readonly standing: Standing | undefined
}

/**
 * Returns the current status, by the first case that applies.
 * @throws {MissingError} {ViewError}
 */
function statusOf(
  view: ChainView,
  { services }: Pick<FrontContext, 'services'>,
  { wanted, promises, standing }: StatusRequest,
): Readonly<Record<string, unknown>> {
  const location = view.findTransaction(wanted)
  if (location !== undefined) return visibleAt(view, location, promises)
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

/**
 * Returns the status of a transaction that is no longer visible. It may return if it waits in the
 * txpool again.
 * @throws {MissingError} {ViewError}
 */
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

function visibleAt(
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

/** Times are milliseconds since 1970. */
const promiseJson = (promise: StoredPromise) => ({
  blockNumber: quantity(promise.number),
  payloadId: bytesToHex(promise.payloadId),
  flashblockIndex: promise.index,
  transactionIndex: quantity(promise.position),
  preconfirmedAt: promise.atMs,
  fate: promise.outcome,
  ...(promise.decidedAtMs === undefined ? {} : { decidedAt: promise.decidedAtMs }),
  ...(promise.causes.length === 0 ? {} : { causes: promise.causes }),
})

/**
 * Read-your-receipts on the flashblocks endpoint. Unmodified clients read `latest` right after a
 * preconfirmed receipt, and poll their filters. If the receipt's block is incomplete, such a read
 * waits for the block, at most `shownHoldMs`. The read must name an address of the receipt.
 * `latest` does not change its meaning, and other clients do not wait.
 */
import type { Block, ChainReader, ChainView } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { Receipt } from '../../engine/primitives/receipt.ts'
import type { Transaction } from '../../engine/primitives/transaction.ts'
import type { About } from '../core/about.ts'
import type { Client } from '../core/client.ts'
import type { Limits } from '../core/limits.ts'
import { type Now, ringAfter } from '../core/timeout.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import { createSeenAccounts, type SeenAccounts } from './seen-accounts.ts'

export interface SeenReceipts {
  /**
   * Records a receipt that is sent to the client.
   * @param height number of the receipt's block
   */
  record(client: Client, height: bigint, seen: { transaction: Transaction; receipt: Receipt }): void
  /**
   * Waits for the blocks that the calls need. undefined: no wait; otherwise the calls run when the
   * promise settles.
   */
  before(calls: readonly WaitingCall[], client: Client): Promise<void> | undefined
  readonly stats: SeenStats
}
/** Records the receipt at `location` for the client if its block is above `latest`. */
export function recordSeenReceipt(
  { seen }: { readonly seen: SeenReceipts },
  client: Client,
  {
    view,
    location,
  }: { readonly view: ChainView; readonly location: { block: Block; index: number } },
): void {
  const { block, index } = location
  if (block.number <= view.latest.number) return
  const transaction = block.transaction(index)
  const receipt = block.receipt(index)
  if (transaction !== undefined && receipt !== undefined)
    seen.record(client, block.number, { transaction, receipt })
}
export type SeenStats = {
  readonly held: number
  readonly expired: number
  /** Reads that did not wait because of a concurrency limit. */
  readonly refused: number
}
/** A call that may wait for a block or flashblock before it runs. */
export type WaitingCall = {
  readonly found: { readonly about: About | undefined }
  readonly params: readonly unknown[]
  /** JSON text of the parameters. */
  readonly text: string
}

/** Head that a read waits for: latest of this endpoint, or canonical for filters. */
type Head = 'latest' | 'canonical'
type Target = { readonly head: Head; readonly height: bigint; readonly ms: number }
type Waiter = Target & { readonly end: () => void }

export function createSeenReceipts(options: {
  readonly reader: ChainReader
  readonly onPublish: (listener: () => void) => () => void
  readonly limits: Pick<
    Limits,
    | 'holdsPerClient'
    | 'holdsTotal'
    | 'shownHoldMs'
    | 'announcedHoldMs'
    | 'shownClients'
    | 'shownAddresses'
  >
  readonly concurrencyLimits: OpenConcurrencyLimit
  /** Accounts over several fronts; left out: of this front only. */
  readonly seenAccounts?: SeenAccounts | undefined
  readonly now: Now
}): SeenReceipts {
  const { reader, limits, seenAccounts = createSeenAccounts(limits), now } = options
  const concurrencyLimits = options.concurrencyLimits('seen', {
    perClient: limits.holdsPerClient,
    total: limits.holdsTotal,
  })
  const waiting = new Set<Waiter>()
  const stats = { held: 0, expired: 0, refused: 0 }
  const heads = (): Record<Head, bigint> =>
    readNewest(reader, 'flashblocks', ({ latest, canonical }) => ({
      latest: latest.number,
      canonical: canonical.number,
    }))

  options.onPublish(() => {
    if (seenAccounts.isEmpty && waiting.size === 0) return
    const seen = heads()
    for (const waiter of [...waiting]) if (waiter.height <= seen[waiter.head]) waiter.end()
    seenAccounts.forget(seen.canonical)
  })

  function targetOf(call: WaitingCall, client: Client, seen?: bigint): Target | undefined {
    if (call.found.about?.is === 'filter') {
      // Without a receipt a filter waits for the height that eth_blockNumber announces here. Its
      // block is about to be canonical.
      const ms = seen === undefined ? limits.announcedHoldMs : limits.shownHoldMs
      if (ms === 0) return undefined
      return { head: 'canonical', height: seen ?? heads().latest, ms }
    }
    if (seen === undefined || limits.shownHoldMs === 0 || !requestsLatest(call)) return undefined
    const height = seenAccounts.named(client.address, call.text.toLowerCase())
    return { head: 'latest', height, ms: limits.shownHoldMs }
  }

  function before(calls: readonly WaitingCall[], client: Client): Promise<void> | undefined {
    const seen = seenAccounts.height(client.address)
    let target: Target | undefined
    for (const call of calls) {
      const wanted = targetOf(call, client, seen)
      if (wanted !== undefined && wanted.height > (target?.height ?? 0n)) target = wanted
    }
    if (target === undefined || target.height <= heads()[target.head]) return undefined
    const giveBack = concurrencyLimits.take(client.address)
    if (giveBack === undefined) {
      stats.refused++
      return undefined
    }
    stats.held++
    const onExpired = () => stats.expired++
    return wait(target, client.signal, { waiting, onExpired, now }).then(giveBack)
  }

  return { record: recordIn(seenAccounts, limits), before, stats }
}

function recordIn(
  seenAccounts: SeenAccounts,
  { shownHoldMs }: Pick<Limits, 'shownHoldMs'>,
): SeenReceipts['record'] {
  return ({ endpoint, address }, height, seen) => {
    if (endpoint === 'flashblocks' && shownHoldMs > 0)
      seenAccounts.record(address, height, addressesOf(seen))
  }
}

/** Waits until the waiter is ended, the client disconnects or the time is over. */
function wait(
  target: Target,
  signal: AbortSignal,
  {
    waiting,
    onExpired,
    now,
  }: { readonly waiting: Set<Waiter>; readonly onExpired: () => void; readonly now: Now },
): Promise<void> {
  return new Promise((resolve) => {
    const waiter: Waiter = {
      ...target,
      end() {
        if (!waiting.delete(waiter)) return
        stop()
        signal.removeEventListener('abort', waiter.end)
        resolve()
      },
    }
    const expire = (): void => {
      onExpired()
      waiter.end()
    }
    const stop = ringAfter(target.ms, expire, now)
    signal.addEventListener('abort', waiter.end, { once: true })
    waiting.add(waiter)
    if (signal.aborted) waiter.end()
  })
}

function requestsLatest({ found: { about }, params }: WaitingCall): boolean {
  if (about === undefined || about.isLocalOnly || about.isAtOnce) return false
  if (about.is === 'state') return (params[about.at] ?? about.whenLeftOut ?? LATEST) === LATEST
  if (about.is !== 'query') return false
  const filter = params[about.at]
  return typeof filter === 'object' && filter !== null && Reflect.get(filter, 'toBlock') === LATEST
}
const LATEST = 'latest'

function addressesOf({
  transaction,
  receipt,
}: {
  transaction: Transaction
  receipt: Receipt
}): Set<string> {
  const digits = [transaction.from, transaction.to, receipt.contractAddress]
    .concat(receipt.logs.map(({ address }) => address))
    .filter((address) => address !== undefined)
    .map((address) => Buffer.from(address).toString('hex'))
  return new Set(digits)
}

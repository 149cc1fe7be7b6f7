/**
 * Read your receipts, on the flashblocks endpoint: stock clients read `latest` right after a preconfirmed receipt, and poll their
 * filters. A client that was shown a receipt of a block which is not complete yet has such a read wait for that block, at most
 * `shownHoldMs`, when it names an address the receipt named. `latest` keeps its meaning, and nobody else waits.
 */
import { readNewest } from '../../engine/chain/newest.ts'
import type { Block, ChainReader, ChainView } from '../../engine/chain/types.ts'
import type { Receipt } from '../../engine/primitives/receipt.ts'
import type { Transaction } from '../../engine/primitives/transaction.ts'
import type { About } from '../seam/about.ts'
import type { Client } from '../seam/client.ts'
import type { Limits } from '../seam/limits.ts'
import { type Now, ringAfter } from '../seam/patience.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'
import { createShownNotes, type ShownNotes } from './shown-notes.ts'

export interface ShownReceipts {
  /** A receipt of the block of this height goes to the client. */
  note(client: Client, height: bigint, shown: { transaction: Transaction; receipt: Receipt }): void
  /** Undefined: nothing to wait for, go on now; else go on when it settles. */
  before(calls: readonly HeldCall[], client: Client): Promise<void> | undefined
  readonly stats: ShownStats
}
/** Remembers the receipt at `place` for the client when its block is above `latest`. */
export function noteShown(
  { shown }: { readonly shown: ShownReceipts },
  client: Client,
  { view, place }: { readonly view: ChainView; readonly place: { block: Block; index: number } },
): void {
  const { block, index } = place
  if (block.number <= view.latest.number) return
  const transaction = block.transaction(index)
  const receipt = block.receipt(index)
  if (transaction !== undefined && receipt !== undefined)
    shown.note(client, block.number, { transaction, receipt })
}
export type ShownStats = {
  readonly held: number
  readonly expired: number
  /** Not held because of a cap. */
  readonly refused: number
}
/** A call of a body that may be held before it runs: its answer waits for a block or a flashblock. */
export type HeldCall = {
  readonly found: { readonly about: About | undefined }
  readonly params: readonly unknown[]
  /** JSON text of the parameters. */
  readonly text: string
}

/** Latest on this endpoint; canonical, which filters follow. */
type Head = 'latest' | 'canonical'
type Target = { readonly head: Head; readonly height: bigint; readonly ms: number }
type Waiter = Target & { readonly end: () => void }

export function createShownReceipts(options: {
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
  readonly caps: OpenCaps
  /** Left out: of this front alone. */
  readonly notes?: ShownNotes | undefined
  readonly now: Now
}): ShownReceipts {
  const { reader, limits, notes = createShownNotes(limits), now } = options
  const caps = options.caps('shown', {
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
    if (notes.isEmpty && waiting.size === 0) return
    const shown = heads()
    for (const waiter of [...waiting]) if (waiter.height <= shown[waiter.head]) waiter.end()
    notes.forget(shown.canonical)
  })

  function targetOf(call: HeldCall, client: Client, shown: bigint | undefined): Target | undefined {
    if (call.found.about?.is === 'filter') {
      // Without a receipt: up to the height that eth_blockNumber announces here, whose block is about to be canonical.
      const ms = shown === undefined ? limits.announcedHoldMs : limits.shownHoldMs
      if (ms === 0) return undefined
      return { head: 'canonical', height: shown ?? heads().latest, ms }
    }
    if (shown === undefined || limits.shownHoldMs === 0 || !asksLatest(call)) return undefined
    const height = notes.named(client.address, call.text.toLowerCase())
    return { head: 'latest', height, ms: limits.shownHoldMs }
  }

  function before(calls: readonly HeldCall[], client: Client): Promise<void> | undefined {
    const shown = notes.height(client.address)
    let target: Target | undefined
    for (const call of calls) {
      const wanted = targetOf(call, client, shown)
      if (wanted !== undefined && wanted.height > (target?.height ?? 0n)) target = wanted
    }
    if (target === undefined || target.height <= heads()[target.head]) return undefined
    const giveBack = caps.take(client.address)
    if (giveBack === undefined) {
      stats.refused++
      return undefined
    }
    stats.held++
    const onExpired = () => stats.expired++
    return wait(target, client.signal, { waiting, onExpired, now }).then(giveBack)
  }

  return { note: noteIn(notes, limits), before, stats }
}

function noteIn(
  notes: ShownNotes,
  { shownHoldMs }: Pick<Limits, 'shownHoldMs'>,
): ShownReceipts['note'] {
  return ({ endpoint, address }, height, shown) => {
    if (endpoint === 'flashblocks' && shownHoldMs > 0)
      notes.note(address, height, addressesOf(shown))
  }
}

/** Until the waiter is ended, its client has left or its time is up. */
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

function asksLatest({ found: { about }, params }: HeldCall): boolean {
  if (about === undefined || about.isHereOnly || about.isAtOnce) return false
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

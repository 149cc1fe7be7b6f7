/**
 * Messages to viewers of the status page: flashblocks on arrival, and stats once a second. Without
 * viewers only the arrival times of flashblocks are recorded.
 */
import { randomUUID } from 'node:crypto'
import type { ChainReader, ChainView } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { Limits } from '../../rpc/core/limits.ts'
import type { FlashblockEvent } from '../../rpc/events/emitted-flashblocks.ts'
import type { FlashblockFeed } from '../../rpc/events/flashblock-feed.ts'
import type { Connection, Open } from '../../rpc/http/websocket.ts'
import type {
  BlockSealed,
  Counts,
  FlashblockAdded,
  Hello,
  LiveMessage,
  PageStats,
} from '../../rpc/page/messages.ts'
import type { FromWriter } from '../thread/messages.ts'
import type { ReportedReadiness } from './health.ts'
import type { Metrics } from './metrics.ts'
import { readInside, readPageStats } from './page-stats.ts'
import type { Report } from './reporter.ts'
import { createTimes } from './times.ts'

export interface Live {
  /** Opens a connection of a public viewer. */
  readonly open: Open
  /** Opens a connection on the admin port, which also gets the node's internals. */
  readonly openInside: Open
  /** Receives the writer's messages before the state that they announce is read. */
  onMessage(message: FromWriter): void
  readonly viewers: number
}

type LiveOptions = {
  readonly feed: FlashblockFeed
  readonly hello: Omit<Hello, 'type' | 'isInside' | 'now'>
  readonly metrics: Pick<Metrics, 'read'>
  readonly readiness: () => ReportedReadiness | Promise<ReportedReadiness>
  readonly heads: () => Counts
  readonly limits: Pick<Limits, 'pageViewers'>
  readonly onBug: (error: unknown) => void
  /** Monotonic milliseconds, and milliseconds since 1970. */
  readonly now: () => number
  readonly wallMs: () => number
}

const PAGE_STATS_MS = 1_000
/** Past events that a new viewer gets. */
const MAX_BACKLOG = 200
const MAX_SEALS = 32
const MAX_UNTIMED = 16
const FULL = 'too many status pages are open (--limit-page-viewers): try again later'
/** The writer's counts that the page displays, because they describe the feed or the chain. */
const LISTED =
  /^(feed_(?!next$|first|complete$|already_complete$|duplicate$|unknown_end$)|mismatch_|payload_replaced$|promise_broken$|rewind$|reconcile_|begun_anew$|canonical_mismatch$|sealed_completed_flashblocks$|sealed_executed_whole$)/

export const isListed = (counted: string): boolean => LISTED.test(counted)

export type PageMode = Hello['mode']
/**
 * Returns the node's mode on the page.
 * @param role role of the node
 */
export const modeOf = (role: {
  readonly mode?: PageMode | undefined
  readonly startSource: unknown
}): PageMode => role.mode ?? (role.startSource === undefined ? 'stored' : 'dev')

type Around = Pick<LiveOptions, 'metrics' | 'readiness' | 'limits' | 'now'> & {
  readonly pageMode?: PageMode | undefined
  readonly hasControls: boolean
  readonly flashblocks: FlashblockFeed
  readonly reader: ChainReader
  readonly chain: ChainSpec
  readonly report: Report
  readonly version: () => string
}
/** Opens the page's connections; undefined when the page is disabled. */
export function openLive(around: Around): Live | undefined {
  const { pageMode: mode, chain, reader, report } = around
  if (mode === undefined) return undefined
  return new LivePage({
    ...around,
    feed: around.flashblocks,
    hello: {
      mode,
      version: around.version(),
      run: randomUUID(),
      hasControls: around.hasControls,
      chainId: String(chain.chainId),
      chainName: chain.name,
      blockMs: chain.blockTime * 1_000,
    },
    heads: () => readNewest(reader, 'flashblocks', headsOf),
    onBug: (error) => report('answer_not_sent', { err: error }),
    wallMs: () => Date.now(),
  })
}

function headsOf(view: ChainView): Counts {
  const heads: Record<string, number> = {
    canonical: Number(view.canonical.number),
    latest: Number(view.latest.number),
    pending: Number(view.pending.number),
    index: view.pending.index,
  }
  for (const tag of ['safe', 'finalized'] as const) {
    const block = view.block({ tag })
    if (block !== undefined) heads[tag] = Number(block.number)
  }
  return heads
}

class LivePage implements Live {
  readonly #options: LiveOptions
  readonly #times = createTimes()
  readonly #outside = new Set<Connection>()
  readonly #inside = new Set<Connection>()
  /** Newest sealed blocks, oldest first. */
  readonly #seals: BlockSealed[] = []
  /** Flashblocks that were sent without times, which may still arrive. */
  readonly #untimed = new Map<string, FlashblockAdded>()
  #publishedAt: number | undefined
  #stop: (() => void) | undefined
  #isReading = false

  constructor(options: LiveOptions) {
    this.#options = options
  }

  get viewers(): number {
    return this.#outside.size + this.#inside.size
  }

  readonly open: Open = (connection) => this.#join(connection, this.#outside)
  readonly openInside: Open = (connection) => this.#join(connection, this.#inside)

  onMessage(message: FromWriter): void {
    const { now, wallMs } = this.#options
    if (message.type === 'published') {
      this.#publishedAt = now()
      if (message.publishMs > 0) this.#timed(message, wallMs() - message.publishMs)
      return
    }
    if (message.type === 'sealed') {
      const sealed = sealedOf(message, wallMs())
      this.#seals.push(sealed)
      if (this.#seals.length > MAX_SEALS) this.#seals.shift()
      this.#broadcast([sealed])
      return
    }
    if (message.type === 'count' && this.#stop !== undefined && isListed(message.what))
      this.#broadcast([{ type: 'happened', what: message.what, at: wallMs(), by: message.by }])
  }

  /**
   * The feed may have read a flashblock before its publish message came. The flashblock is then
   * sent again with its times.
   */
  #timed(published: Published, at: number): void {
    this.#times.add(published, at)
    const key = keyOf(published.pending, published.index)
    const flashblock = this.#untimed.get(key)
    if (flashblock === undefined) return
    this.#untimed.delete(key)
    this.#broadcast([{ ...flashblock, ...this.#times.of(flashblock) }])
  }

  #join(connection: Connection, viewers: Set<Connection>) {
    const { hello, feed, limits, wallMs } = this.#options
    if (this.viewers >= limits.pageViewers) {
      connection.close(1013, FULL)
      return {}
    }
    this.#start()
    const isInside = viewers === this.#inside
    const { events } = feed.since({ number: -1n, index: 0 })
    const first: LiveMessage[] = [
      { type: 'hello', ...hello, isInside, now: wallMs() },
      ...events.slice(-MAX_BACKLOG).flatMap((event) => this.#messagesOf(event)),
      ...this.#seals,
    ]
    connection.send(JSON.stringify(first))
    viewers.add(connection)
    void this.#sendStats()
    return {
      onClose: () => {
        viewers.delete(connection)
        if (this.viewers === 0) this.#end()
      },
    }
  }

  #start(): void {
    if (this.#stop !== undefined) return
    const leave = this.#options.feed.listen((events) =>
      this.#broadcast(events.flatMap((event) => this.#messagesOf(event))),
    )
    const timer = setInterval(() => void this.#sendStats(), PAGE_STATS_MS).unref()
    this.#stop = () => {
      leave()
      clearInterval(timer)
    }
  }

  #end(): void {
    this.#stop?.()
    this.#stop = undefined
  }

  #broadcast(messages: readonly LiveMessage[]): void {
    if (messages.length === 0 || this.viewers === 0) return
    const text = JSON.stringify(messages)
    for (const viewers of [this.#outside, this.#inside]) send(viewers, text)
  }

  #messagesOf(event: FlashblockEvent): LiveMessage[] {
    if (event.type === 'gap') return []
    const { number, index, payloadId, header, first, end } = event.flashblock
    const flashblockId = { number: Number(number), index, payloadId }
    if (event.type === 'removed')
      return event.first > first ? [] : [{ type: 'removed', ...flashblockId }]
    const { gasUsed, gasLimit } = header
    const times = this.#times.of(flashblockId)
    const flashblock: FlashblockAdded = {
      type: 'flashblock',
      ...flashblockId,
      ...times,
      transactions: end - first,
      gasUsed: Number(gasUsed),
      gasLimit: Number(gasLimit),
    }
    if (times === undefined) this.#wait(flashblock)
    return [flashblock]
  }

  #wait(flashblock: FlashblockAdded): void {
    const [oldest] = this.#untimed.keys()
    if (this.#untimed.size >= MAX_UNTIMED && oldest !== undefined) this.#untimed.delete(oldest)
    this.#untimed.set(keyOf(flashblock.number, flashblock.index), flashblock)
  }

  /** At most one read runs at a time, even when it takes longer than a second. */
  async #sendStats(): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    try {
      const { metrics, readiness } = this.#options
      const { details, status, reasons, outside } = await readiness()
      const stats: PageStats = {
        type: 'figures',
        at: this.#options.wallMs(),
        status,
        reasons,
        heads: this.#options.heads(),
        ageMs: this.#publishedAt === undefined ? 0 : this.#options.now() - this.#publishedAt,
        ...(await readPageStats(metrics)),
      }
      if (this.#outside.size > 0) {
        send(this.#outside, JSON.stringify([{ ...stats, reasons: outside }]))
      }
      if (this.#inside.size === 0) return
      const inside = await readInside(metrics, details)
      send(this.#inside, JSON.stringify([{ ...stats, inside }]))
    } catch (error) {
      this.#options.onBug(error)
    } finally {
      this.#isReading = false
    }
  }
}

type Published = Extract<FromWriter, { readonly type: 'published' }>

const keyOf = (number: number, index: number): string => `${number}:${index}`

function sealedOf(
  { number, hash, flashblocks, transactions, gasUsed }: Extract<FromWriter, { type: 'sealed' }>,
  at: number,
): BlockSealed {
  const counts = { number, flashblocks, transactions, gasUsed: Number(gasUsed) }
  return { type: 'sealed', ...counts, hash: bytesToHex(hash), at }
}

function send(viewers: ReadonlySet<Connection>, text: string): void {
  for (const viewer of viewers) viewer.send(text)
}

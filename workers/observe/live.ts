/**
 * What whoever looks at the status page is told: flashblocks as they come, and figures once a second. Nothing is read while nobody looks, but
 * when flashblocks came is always noted.
 */
import { randomUUID } from 'node:crypto'
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader, ChainView } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { FlashblockFeed } from '../../rpc/events/flashblock-feed.ts'
import type { FlashblockEvent } from '../../rpc/events/told.ts'
import type { Connection, Open } from '../../rpc/http/websocket.ts'
import type {
  BlockSealed,
  Counts,
  Figures,
  FlashblockTold,
  Hello,
  LiveMessage,
} from '../../rpc/page/messages.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import type { FromWriter } from '../thread/messages.ts'
import { readFigures, readInside } from './figures.ts'
import type { ToldReadiness } from './health.ts'
import type { Metrics } from './metrics.ts'
import type { Report } from './reporter.ts'
import { createTimes } from './times.ts'

export interface Live {
  /** Of whoever may see what a public endpoint tells. */
  readonly open: Open
  /** For the admin port: what is inside, too. */
  readonly openInside: Open
  /** Before anything that the message is about is read. */
  hear(message: FromWriter): void
  readonly viewers: number
}

type LiveOptions = {
  readonly feed: FlashblockFeed
  readonly hello: Omit<Hello, 'type' | 'isInside' | 'now'>
  readonly metrics: Pick<Metrics, 'read'>
  readonly readiness: () => ToldReadiness | Promise<ToldReadiness>
  readonly heads: () => Counts
  readonly limits: Pick<Limits, 'pageViewers'>
  readonly onBug: (error: unknown) => void
  /** Monotonic milliseconds, and those since 1970. */
  readonly now: () => number
  readonly wallMs: () => number
}

const FIGURES_MS = 1_000
/** Of the past, for who begins to look. */
const MOST_TOLD = 200
const MOST_SEALS = 32
const MOST_UNTIMED = 16
const FULL = 'too many look at the page already, try again later'
/** What the writer counts that tells how the feed or the chain is doing: a page shows it. */
const SHOWN =
  /^(feed_(?!next$|first|complete$|already_complete$|duplicate$|unknown_end$)|mismatch_|payload_replaced$|promise_broken$|rewind$|reconcile_|begun_anew$|canonical_mismatch$|sealed_completed_flashblocks$|sealed_executed_whole$)/

export const isShown = (counted: string): boolean => SHOWN.test(counted)

export type PageMode = Hello['mode']
/** @param role of the node */
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
/** undefined: nobody may look. */
export function openLive(around: Around): Live | undefined {
  const { pageMode: mode, chain, reader, report } = around
  if (mode === undefined) return undefined
  return new LivePage({
    ...around,
    feed: around.flashblocks,
    hello: {
      ...{ mode, version: around.version(), run: randomUUID(), hasControls: around.hasControls },
      ...{ chainId: String(chain.chainId), chainName: chain.name },
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
  /** The newest, oldest first. */
  readonly #seals: BlockSealed[] = []
  /** Told without times that may still come. */
  readonly #untimed = new Map<string, FlashblockTold>()
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

  hear(message: FromWriter): void {
    const { now, wallMs } = this.#options
    if (message.type === 'published') {
      this.#publishedAt = now()
      if (message.publishMs > 0) this.#timed(message, wallMs() - message.publishMs)
      return
    }
    if (message.type === 'sealed') {
      const sealed = sealedOf(message, wallMs())
      this.#seals.push(sealed)
      if (this.#seals.length > MOST_SEALS) this.#seals.shift()
      this.#tell([sealed])
      return
    }
    if (message.type === 'count' && this.#stop !== undefined && isShown(message.what))
      this.#tell([{ type: 'happened', what: message.what, at: wallMs(), by: message.by }])
  }

  /** The feed may have read a flashblock before the message that tells of it came: it is told again, with its times. */
  #timed(shown: Published, at: number): void {
    this.#times.add(shown, at)
    const key = keyOf(shown.pending, shown.index)
    const told = this.#untimed.get(key)
    if (told === undefined) return
    this.#untimed.delete(key)
    this.#tell([{ ...told, ...this.#times.of(told) }])
  }

  #join(connection: Connection, viewers: Set<Connection>) {
    const { hello, feed, limits, wallMs } = this.#options
    if (this.viewers >= limits.pageViewers) {
      connection.close(1013, FULL)
      return {}
    }
    this.#begin()
    const isInside = viewers === this.#inside
    const { events } = feed.since({ number: -1n, index: 0 })
    const first: LiveMessage[] = [
      { type: 'hello', ...hello, isInside, now: wallMs() },
      ...events.slice(-MOST_TOLD).flatMap((event) => this.#toldOf(event)),
      ...this.#seals,
    ]
    connection.send(JSON.stringify(first))
    viewers.add(connection)
    void this.#sendFigures()
    return {
      onClose: () => {
        viewers.delete(connection)
        if (this.viewers === 0) this.#end()
      },
    }
  }

  #begin(): void {
    if (this.#stop !== undefined) return
    const leave = this.#options.feed.listen((events) =>
      this.#tell(events.flatMap((event) => this.#toldOf(event))),
    )
    const timer = setInterval(() => void this.#sendFigures(), FIGURES_MS).unref()
    this.#stop = () => {
      leave()
      clearInterval(timer)
    }
  }

  #end(): void {
    this.#stop?.()
    this.#stop = undefined
  }

  #tell(messages: readonly LiveMessage[]): void {
    if (messages.length === 0 || this.viewers === 0) return
    const text = JSON.stringify(messages)
    for (const viewers of [this.#outside, this.#inside]) send(viewers, text)
  }

  #toldOf(event: FlashblockEvent): LiveMessage[] {
    if (event.type === 'gap') return []
    const { number, index, payloadId, header, first, end } = event.flashblock
    const place = { number: Number(number), index, payloadId }
    if (event.type === 'removed') return event.first > first ? [] : [{ type: 'removed', ...place }]
    const { gasUsed, gasLimit } = header
    const times = this.#times.of(place)
    const told: FlashblockTold = {
      type: 'flashblock',
      ...place,
      ...times,
      transactions: end - first,
      gasUsed: Number(gasUsed),
      gasLimit: Number(gasLimit),
    }
    if (times === undefined) this.#wait(told)
    return [told]
  }

  #wait(told: FlashblockTold): void {
    const [oldest] = this.#untimed.keys()
    if (this.#untimed.size >= MOST_UNTIMED && oldest !== undefined) this.#untimed.delete(oldest)
    this.#untimed.set(keyOf(told.number, told.index), told)
  }

  /** A reading that takes longer than a second is not begun twice. */
  async #sendFigures(): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    try {
      const { metrics, readiness } = this.#options
      const { details, status, reasons, outside } = await readiness()
      const figures: Figures = {
        ...{ type: 'figures', at: this.#options.wallMs(), status, reasons },
        heads: this.#options.heads(),
        ageMs: this.#publishedAt === undefined ? 0 : this.#options.now() - this.#publishedAt,
        ...(await readFigures(metrics)),
      }
      if (this.#outside.size > 0) {
        send(this.#outside, JSON.stringify([{ ...figures, reasons: outside }]))
      }
      if (this.#inside.size === 0) return
      const inside = await readInside(metrics, details)
      send(this.#inside, JSON.stringify([{ ...figures, inside }]))
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

/**
 * State of the page, built from the node's messages: bounded plain data, replaced with each
 * message.
 */
import type {
  BlockSealed,
  FlashblockAdded,
  FlashblockRemoved,
  Happened,
  Hello,
  LiveMessage,
  PageStats,
} from './messages.ts'

export type Tile = Omit<FlashblockAdded, 'type' | 'gasUsed' | 'gasLimit'> & {
  readonly gas: number
  readonly isReplaced: boolean
}
/** `late` means that the flashblock came with the canonical block, without a frame. */
export type TileState = 'shown' | 'late' | 'replaced'
export const tileStateOf = (
  { sealed }: Pick<Row, 'sealed'>,
  { isReplaced, at }: Tile,
): TileState =>
  isReplaced ? 'replaced' : sealed !== undefined && at === undefined ? 'late' : 'shown'
export type Row = {
  readonly number: number
  readonly tiles: readonly Tile[]
  /** Arrival of the first frame; undefined when unknown. */
  readonly startedAt: number | undefined
  readonly gasUsed: number
  readonly gasLimit: number
  readonly sealed: Omit<BlockSealed, 'type'> | undefined
  readonly markers: readonly Omit<Happened, 'type'>[]
}

/** Values for the charts, by second. */
export type Series = {
  readonly at: readonly number[]
  readonly requests: readonly number[]
  readonly errors: readonly number[]
  readonly residentMb: readonly number[]
  readonly cpu: readonly number[]
}
/** Values by block. */
export type Load = {
  readonly at: readonly number[]
  readonly transactions: readonly number[]
  readonly mgas: readonly number[]
}

export type Page = {
  readonly hello: Hello | undefined
  /** Newest first. */
  readonly rows: readonly Row[]
  readonly stats: PageStats | undefined
  /** One entry every few seconds, oldest first. */
  readonly snapshots: readonly PageStats[]
  readonly series: Series
  readonly load: Load
  /** The node's clock minus the browser's. */
  readonly clockOffset: number
}

export const MAX_ROWS = 24
const MAX_MARKERS = 12
const MAX_POINTS = 300
const MAX_BLOCKS = 180
const SNAPSHOT_MS = 5_000
const MAX_SNAPSHOTS = 13

const NO_SERIES: Series = { at: [], requests: [], errors: [], residentMb: [], cpu: [] }
const NO_LOAD: Load = { at: [], transactions: [], mgas: [] }
export const EMPTY: Page = {
  hello: undefined,
  rows: [],
  stats: undefined,
  snapshots: [],
  series: NO_SERIES,
  load: NO_LOAD,
  clockOffset: 0,
}

/**
 * Applies messages to the page.
 * @param now the browser's milliseconds since 1970
 */
export const applyAll = (page: Page, messages: readonly LiveMessage[], now: number): Page =>
  messages.reduce((before, message) => apply(before, message, now), page)

function apply(page: Page, message: LiveMessage, now: number): Page {
  switch (message.type) {
    case 'hello': {
      /*
       * The messages after `hello` contain the node's full state, so the rows are reset. Data of
       * another run is dropped, because its clock differs.
       */
      const isSame = message.run === page.hello?.run
      const clockOffset = message.now - now
      const retained = isSame ? page : EMPTY
      return { ...retained, rows: [], hello: message, clockOffset }
    }
    case 'flashblock':
      return { ...page, rows: withFlashblock(page.rows, message) }
    case 'removed':
      return { ...page, rows: page.rows.map((row) => withoutFlashblock(row, message)) }
    case 'sealed':
      return {
        ...page,
        rows: page.rows.map((row) =>
          row.number === message.number ? { ...row, sealed: message } : row,
        ),
        load: withBlock(page.load, message),
      }
    case 'happened':
      return { ...page, rows: withMarker(page.rows, message) }
    case 'figures':
      return withStats(page, message)
  }
}

function withFlashblock(rows: readonly Row[], added: FlashblockAdded): readonly Row[] {
  const { number, gasLimit, gasUsed } = added
  const known = rows.find((row) => row.number === number)
  const { type: _type, gasUsed: _used, gasLimit: _limit, ...flashblock } = added
  const row = known ?? {
    number,
    gasLimit,
    gasUsed: 0,
    tiles: [],
    markers: [],
    startedAt: undefined,
    sealed: undefined,
  }
  const before = added.index === 0 ? 0 : row.gasUsed
  const tile: Tile = {
    ...flashblock,
    gas: Math.max(0, gasUsed - before),
    isReplaced: false,
  }
  // A flashblock may be sent twice when it arrives while the connection opens.
  const others = row.tiles.filter((one) => !isAt(one, added) || one.isReplaced)
  const grown: Row = {
    ...row,
    gasUsed,
    gasLimit,
    startedAt: row.startedAt ?? added.at,
    tiles: [...others, tile],
    sealed: known?.sealed,
  }
  const rest = rows.filter((one) => one !== known)
  return [...rest, grown].sort((a, b) => b.number - a.number).slice(0, MAX_ROWS)
}

function withoutFlashblock(row: Row, removed: FlashblockRemoved): Row {
  if (row.number !== removed.number) return row
  return {
    ...row,
    sealed: undefined,
    tiles: row.tiles.map((tile) => (isAt(tile, removed) ? { ...tile, isReplaced: true } : tile)),
  }
}

const isAt = (
  { index, payloadId }: Pick<Tile, 'index' | 'payloadId'>,
  flashblockId: Pick<FlashblockRemoved, 'index' | 'payloadId'>,
): boolean => index === flashblockId.index && payloadId === flashblockId.payloadId

function withMarker(rows: readonly Row[], { what, at, by }: Happened): readonly Row[] {
  const [newest, ...others] = rows
  if (newest === undefined) return rows
  return [
    { ...newest, markers: [...newest.markers, { what, at, by }].slice(-MAX_MARKERS) },
    ...others,
  ]
}

function withBlock(load: Load, { at, transactions, gasUsed }: BlockSealed): Load {
  const add = (list: readonly number[], value: number) => [...list, value].slice(-MAX_BLOCKS)
  return {
    at: add(load.at, at / 1_000),
    transactions: add(load.transactions, transactions),
    mgas: add(load.mgas, gasUsed / 1e6),
  }
}

function withStats(page: Page, stats: PageStats): Page {
  const newest = page.snapshots.at(-1)
  const isDue = newest === undefined || stats.at - newest.at >= SNAPSHOT_MS
  return {
    ...page,
    stats,
    snapshots: isDue ? [...page.snapshots, stats].slice(-MAX_SNAPSHOTS) : page.snapshots,
    series: withSecond(page.series, stats, page.stats),
  }
}

function withSecond(series: Series, now: PageStats, before: PageStats | undefined): Series {
  const [inside, earlier] = [now.inside, before?.inside]
  if (inside === undefined || earlier === undefined || before === undefined) return series
  const seconds = (now.at - before.at) / 1_000
  if (seconds <= 0) return series
  const responseCount = (calls: typeof inside.calls) =>
    Object.values(calls).reduce((all, { count }) => all + count, 0)
  const failed = (errors: typeof inside.errors) =>
    Object.values(errors).reduce((all, number) => all + number, 0)
  const per = (a: number, b: number) => Math.max(0, a - b) / seconds
  const add = (list: readonly number[], value: number) => [...list, value].slice(-MAX_POINTS)
  return {
    at: add(series.at, now.at / 1_000),
    requests: add(series.requests, per(responseCount(inside.calls), responseCount(earlier.calls))),
    errors: add(series.errors, per(failed(inside.errors), failed(earlier.errors))),
    residentMb: add(series.residentMb, inside.residentBytes / 2 ** 20),
    cpu: add(series.cpu, 100 * per(inside.cpuSeconds, earlier.cpuSeconds)),
  }
}

/** Returns stats of about `seconds` ago; undefined when the page is younger. */
export function statsAgo({ snapshots, stats }: Page, seconds: number): PageStats | undefined {
  if (stats === undefined) return undefined
  const at = stats.at - 1_000 * seconds
  return snapshots.findLast((one) => one.at <= at)
}

/** Returns stats of about a minute ago, or the page's oldest. */
export const oldestStats = ({ snapshots }: Page): PageStats | undefined => snapshots[0]

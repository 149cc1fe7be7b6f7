/** What the page knows, from what the node has told: plain data, bounded, made anew with each message. */
import type {
  BlockSealed,
  Figures,
  FlashblockRemoved,
  FlashblockTold,
  Happened,
  Hello,
  LiveMessage,
} from './messages.ts'

export type Cell = Omit<FlashblockTold, 'type' | 'gasUsed' | 'gasLimit'> & {
  readonly gas: number
  readonly isReplaced: boolean
}
/** `late`: it came with the canonical block, its frame did not. */
export type Fate = 'shown' | 'late' | 'replaced'
export const fateOf = ({ sealed }: Pick<Row, 'sealed'>, { isReplaced, at }: Cell): Fate =>
  isReplaced ? 'replaced' : sealed !== undefined && at === undefined ? 'late' : 'shown'
export type Row = {
  readonly number: number
  readonly cells: readonly Cell[]
  /** When its first frame arrived, as far as that is known. */
  readonly begunAt: number | undefined
  readonly gasUsed: number
  readonly gasLimit: number
  readonly sealed: Omit<BlockSealed, 'type'> | undefined
  readonly marks: readonly Omit<Happened, 'type'>[]
}

/** For the charts, by second. */
export type Series = {
  readonly at: readonly number[]
  readonly requests: readonly number[]
  readonly errors: readonly number[]
  readonly residentMb: readonly number[]
  readonly cpu: readonly number[]
}
/** By block. */
export type Load = {
  readonly at: readonly number[]
  readonly transactions: readonly number[]
  readonly mgas: readonly number[]
}

export type Page = {
  readonly hello: Hello | undefined
  /** Newest first. */
  readonly rows: readonly Row[]
  readonly figures: Figures | undefined
  /** One of every few seconds, oldest first. */
  readonly snapshots: readonly Figures[]
  readonly series: Series
  readonly load: Load
  /** The node's clock less that of the browser. */
  readonly clockOffset: number
}

export const MOST_ROWS = 24
const MOST_MARKS = 12
const MOST_POINTS = 300
const MOST_BLOCKS = 180
const SNAPSHOT_MS = 5_000
const MOST_SNAPSHOTS = 13

const NO_SERIES: Series = { at: [], requests: [], errors: [], residentMb: [], cpu: [] }
const NO_LOAD: Load = { at: [], transactions: [], mgas: [] }
export const EMPTY: Page = {
  hello: undefined,
  rows: [],
  figures: undefined,
  snapshots: [],
  series: NO_SERIES,
  load: NO_LOAD,
  clockOffset: 0,
}

/** @param now the browser's milliseconds since 1970 */
export const applyAll = (page: Page, messages: readonly LiveMessage[], now: number): Page =>
  messages.reduce((before, message) => apply(before, message, now), page)

function apply(page: Page, message: LiveMessage, now: number): Page {
  switch (message.type) {
    case 'hello': {
      // What a connection begins with is all that the node has; what another run said is of another clock.
      const isSame = message.run === page.hello?.run
      const clockOffset = message.now - now
      const kept = isSame ? page : EMPTY
      return { ...kept, rows: [], hello: message, clockOffset }
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
      return { ...page, rows: withMark(page.rows, message) }
    case 'figures':
      return withFigures(page, message)
  }
}

function withFlashblock(rows: readonly Row[], told: FlashblockTold): readonly Row[] {
  const { number, gasLimit, gasUsed } = told
  const known = rows.find((row) => row.number === number)
  const { type: _type, gasUsed: _used, gasLimit: _limit, ...place } = told
  const row = known ?? {
    ...{ number, gasLimit, gasUsed: 0, cells: [], marks: [] },
    ...{ begunAt: undefined, sealed: undefined },
  }
  const before = told.index === 0 ? 0 : row.gasUsed
  const cell: Cell = {
    ...place,
    gas: Math.max(0, gasUsed - before),
    isReplaced: false,
  }
  // Told twice where a connection begins while it comes.
  const others = row.cells.filter((one) => !isAt(one, told) || one.isReplaced)
  const grown: Row = {
    ...row,
    ...{ gasUsed, gasLimit },
    begunAt: row.begunAt ?? told.at,
    cells: [...others, cell],
    sealed: known?.sealed,
  }
  const rest = rows.filter((one) => one !== known)
  return [...rest, grown].sort((a, b) => b.number - a.number).slice(0, MOST_ROWS)
}

function withoutFlashblock(row: Row, removed: FlashblockRemoved): Row {
  if (row.number !== removed.number) return row
  return {
    ...row,
    sealed: undefined,
    cells: row.cells.map((cell) => (isAt(cell, removed) ? { ...cell, isReplaced: true } : cell)),
  }
}

const isAt = (
  { index, payloadId }: Pick<Cell, 'index' | 'payloadId'>,
  place: Pick<FlashblockRemoved, 'index' | 'payloadId'>,
): boolean => index === place.index && payloadId === place.payloadId

function withMark(rows: readonly Row[], { what, at, by }: Happened): readonly Row[] {
  const [newest, ...others] = rows
  if (newest === undefined) return rows
  return [{ ...newest, marks: [...newest.marks, { what, at, by }].slice(-MOST_MARKS) }, ...others]
}

function withBlock(load: Load, { at, transactions, gasUsed }: BlockSealed): Load {
  const add = (list: readonly number[], value: number) => [...list, value].slice(-MOST_BLOCKS)
  return {
    at: add(load.at, at / 1_000),
    transactions: add(load.transactions, transactions),
    mgas: add(load.mgas, gasUsed / 1e6),
  }
}

function withFigures(page: Page, figures: Figures): Page {
  const newest = page.snapshots.at(-1)
  const isDue = newest === undefined || figures.at - newest.at >= SNAPSHOT_MS
  return {
    ...page,
    figures,
    snapshots: isDue ? [...page.snapshots, figures].slice(-MOST_SNAPSHOTS) : page.snapshots,
    series: withSecond(page.series, figures, page.figures),
  }
}

function withSecond(series: Series, now: Figures, before: Figures | undefined): Series {
  const [inside, earlier] = [now.inside, before?.inside]
  if (inside === undefined || earlier === undefined || before === undefined) return series
  const seconds = (now.at - before.at) / 1_000
  if (seconds <= 0) return series
  const answered = (calls: typeof inside.calls) =>
    Object.values(calls).reduce((all, { count }) => all + count, 0)
  const failed = (errors: typeof inside.errors) =>
    Object.values(errors).reduce((all, number) => all + number, 0)
  const per = (a: number, b: number) => Math.max(0, a - b) / seconds
  const add = (list: readonly number[], value: number) => [...list, value].slice(-MOST_POINTS)
  return {
    at: add(series.at, now.at / 1_000),
    requests: add(series.requests, per(answered(inside.calls), answered(earlier.calls))),
    errors: add(series.errors, per(failed(inside.errors), failed(earlier.errors))),
    residentMb: add(series.residentMb, inside.residentBytes / 2 ** 20),
    cpu: add(series.cpu, 100 * per(inside.cpuSeconds, earlier.cpuSeconds)),
  }
}

/** Figures of about so many seconds ago; undefined: the page is younger. */
export function figuresAgo({ snapshots, figures }: Page, seconds: number): Figures | undefined {
  if (figures === undefined) return undefined
  const at = figures.at - 1_000 * seconds
  return snapshots.findLast((one) => one.at <= at)
}

/** Figures of about a minute ago, or the oldest that the page has. */
export const oldestFigures = ({ snapshots }: Page): Figures | undefined => snapshots[0]

/** The parts of a state of the model, and the first one. */
import { type BlockState, nextState } from '../../../engine/chain/life.ts'
import type { Rules } from './rules.ts'
import {
  type Ask,
  FINAL,
  GENESIS,
  GENESIS_STATE,
  type HeadName,
  type Key,
  type Scenario,
  type Truth,
  type Values,
} from './scenario.ts'

/** As in engine/views/record.ts; `block` is the oracle's, the product has no such word. */
export type Position = {
  readonly id: number
  readonly height: number
  /** 0: only the store knows it. */
  readonly table: number
  readonly tag: number
  readonly block: string
}
export type ViewRecord = {
  readonly base: { readonly id: number; readonly height: number; readonly block: string }
  readonly unfolds: number
} & Readonly<Record<HeadName, Position>>

/** One page each. 'torn': the index word is there, the entry is not. */
export type Table = {
  readonly id: number
  readonly block: string
  readonly height: number
  readonly parent: number
  readonly parentHeight: number
  readonly entries: Readonly<Partial<Record<Key, readonly Entry[]>>>
}
/** Newest first. */
export type Entry = readonly [tag: number, value: string]
export const TORN = 'torn'

/** Control words and rows of engine/views/arena.ts. */
export type Words = {
  readonly head: number
  readonly floor: number
  readonly fold: number
  readonly unfolds: number
  readonly oldest: number
  /** Negative: set, and not yet looked at the floor. */
  readonly rows: readonly number[]
  readonly stamps: Readonly<Record<Key, number>>
}

export type Answer =
  | { readonly type: 'root' | 'appended' | 'folded'; readonly id: number }
  | {
      readonly type: 'unfolded'
      readonly id: number
      readonly block: string
      readonly unfolds: number
    }
export type Request =
  | { readonly type: 'root'; readonly id: number }
  | { readonly type: 'append'; readonly id: number; readonly block: string }

export type Block = {
  readonly block: string
  readonly number: number
  /** Id; 0: none, as from the fold on. */
  readonly parent: number
  readonly state: BlockState
  readonly tables: readonly number[]
  /** Newest flashblock index, FINAL when finished, −1 before the first. */
  readonly tag: number
  readonly isWhole: boolean
}
/** An event of the writer that takes several steps: a flashblock or a whole block on its way into its table. */
export type Job = {
  readonly id: number
  readonly index: number
  /** What is left to do, in order: a key to write, '~key' its index word too early, or 'head'. */
  readonly left: readonly string[]
}
export type Writer = {
  readonly feed: number
  readonly sealed: number
  readonly job: Job | null
  /** Of the blocks that are held, dropped ones until their tables are retired. */
  readonly blocks: Readonly<Record<number, Block>>
  readonly base: number
  readonly canonical: number
  readonly complete: number
  readonly pending: number
  readonly handed: number
  readonly whole: number
  readonly unfolds: number
  readonly nextId: number
  readonly retired: readonly { readonly table: number; readonly record: number }[]
  /** How far a look at the rows has come, and the oldest record seen; `bound`: below it no record is read. */
  readonly recycle: { readonly at: number; readonly oldest: number } | null
  readonly bound: number
}

export type Keeper = {
  /** Ids as KnownBlocks has them: the base, the durable head, and the names of folded blocks. */
  readonly base: number
  readonly durable: number
  readonly blocks: Readonly<Record<number, { readonly block: string; readonly parent: number }>>
  readonly folded: Readonly<Record<string, number>>
  readonly roots: readonly number[]
  readonly fold: {
    readonly id: number
    readonly at: 'word' | 'first' | 'last' | 'stamp' | 'answer' | 'late'
  } | null
  readonly unfold: {
    readonly id: number
    readonly block: string
    readonly to: string
    readonly isCounted: boolean
  } | null
  readonly prune: 'horizon' | 'word' | 'rows' | 'lateWord' | null
}

/** RocksDB; blocks by name, since the product has them by hash. */
export type Database = {
  readonly flat: Values
  readonly history: Readonly<Partial<Record<Key, readonly History[]>>>
  readonly foldHead: string
  readonly durableHead: string
  readonly folding: string | null
  readonly numbers: Readonly<Record<number, string>>
  /** Height of the transaction's block. */
  readonly transaction: number | null
  readonly oldest: number
  readonly pruned: number
}
/** The first change after `height − 1`: value before it. */
export type History = readonly [height: number, previous: string]

export type Cached = {
  readonly value: string
  readonly id: number
  readonly height: number
  readonly unfolds: number
}
export type View = {
  readonly at: Position
  readonly base: ViewRecord['base']
  readonly unfolds: number
  readonly ask: Ask
}
export type Reader = {
  readonly at: string
  readonly left: number
  /** Record being leased. */
  readonly number: number
  /** Records that are leased. */
  readonly leases: readonly number[]
  readonly view: View | null
  readonly value: string | null
  readonly word: number
  readonly entry: string | null
  readonly cache: Readonly<Partial<Record<Key, Cached>>>
  /** Of the front, in which it told of the record. */
  readonly session: number
  readonly isDead: boolean
}

export type State = {
  readonly words: Words
  readonly records: Readonly<Record<number, ViewRecord>>
  /** By table number; null: its page was given to somebody else. */
  readonly tables: readonly (Table | null)[]
  readonly writer: Writer
  readonly answers: readonly Answer[]
  readonly requests: readonly Request[]
  readonly keeper: Keeper
  readonly database: Database
  readonly task: Task | null
  readonly front: Reader
  readonly worker: Reader
  readonly secondTask: Task | null
  readonly secondFront: Reader
  readonly secondWorker: Reader
}
/** A record that a front told its worker of, and in which of its sessions. */
type Task = { readonly record: number; readonly session: number }

/** A scenario under a set of rules. */
export type World = {
  readonly scenario: Scenario
  readonly rules: Rules
  readonly truth: Truth
}

export function firstState({ readers }: Scenario): State {
  const at: Position = { id: 1, height: 0, table: 0, tag: FINAL, block: GENESIS }
  const record: ViewRecord = {
    base: { id: 1, height: 0, block: GENESIS },
    unfolds: 0,
    canonical: at,
    complete: at,
    pending: at,
  }
  const genesis: Block = {
    block: GENESIS,
    number: 0,
    parent: 0,
    state: nextState('none', 'find'),
    tables: [],
    tag: FINAL,
    isWhole: false,
  }
  const reader = (n: number): Reader => ({
    at: 'idle',
    left: readers[n]?.sessions ?? 0,
    number: 0,
    leases: [],
    view: null,
    value: null,
    word: 0,
    entry: null,
    cache: {},
    session: 0,
    isDead: false,
  })
  return {
    words: {
      head: 1,
      floor: 0,
      fold: 1,
      unfolds: 0,
      oldest: 0,
      rows: Array.from({ length: Math.max(2, readers.length) }, () => 0),
      stamps: { a: 0, x: 0, y: 0 },
    },
    records: { 1: record },
    tables: [null],
    writer: {
      feed: 0,
      sealed: 0,
      job: null,
      blocks: { 1: genesis },
      base: 1,
      canonical: 1,
      complete: 1,
      pending: 1,
      handed: 0,
      whole: 0,
      unfolds: 0,
      nextId: 2,
      retired: [],
      recycle: null,
      bound: 0,
    },
    answers: [],
    requests: [],
    keeper: {
      base: 1,
      durable: 1,
      blocks: { 1: { block: GENESIS, parent: 0 } },
      folded: { [GENESIS]: 1 },
      roots: [],
      fold: null,
      unfold: null,
      prune: null,
    },
    database: {
      flat: GENESIS_STATE,
      history: {},
      foldHead: GENESIS,
      durableHead: GENESIS,
      folding: null,
      numbers: { 0: GENESIS },
      transaction: null,
      oldest: 0,
      pruned: 0,
    },
    task: null,
    front: reader(0),
    worker: reader(1),
    secondTask: null,
    secondFront: reader(2),
    secondWorker: reader(3),
  }
}

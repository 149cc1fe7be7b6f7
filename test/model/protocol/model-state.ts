/** The parts of a state of the model, and the first state. */
import { type BlockState, nextState } from '../../../engine/chain/block-state.ts'
import type { Rules } from './rules.ts'
import {
  FINAL,
  GENESIS,
  GENESIS_STATE,
  type HeadName,
  type Key,
  type Query,
  type Scenario,
  type Truth,
  type Values,
} from './scenario.ts'

/**
 * The position of engine/views/chain-snapshot.ts. The oracle adds `block`, which the product does
 * not have.
 */
export type Position = {
  readonly id: number
  readonly height: number
  /** 0: only the store knows the block. */
  readonly diffLayer: number
  readonly tag: number
  readonly block: string
}
export type ChainSnapshot = {
  readonly base: { readonly id: number; readonly height: number; readonly block: string }
  readonly unwinds: number
} & Readonly<Record<HeadName, Position>>

/** Each diff layer takes one page. 'torn': the index word is written, the entry is not. */
export type DiffLayer = {
  readonly id: number
  readonly block: string
  readonly height: number
  readonly parent: number
  readonly parentHeight: number
  readonly entries: Readonly<Partial<Record<Key, readonly Entry[]>>>
}
/** Entries are sorted newest first. */
export type Entry = readonly [tag: number, value: string]
export const TORN = 'torn'

/** Control words and rows of engine/views/arena.ts. */
export type Words = {
  readonly head: number
  readonly floor: number
  readonly persistedId: number
  readonly unwinds: number
  readonly oldest: number
  /** Negative: the thread has set its row, but has not yet read the floor. */
  readonly rows: readonly number[]
  readonly stamps: Readonly<Record<Key, number>>
}

export type ModelResponse =
  | { readonly type: 'root' | 'appended' | 'persisted'; readonly id: number }
  | {
      readonly type: 'unwound'
      readonly id: number
      readonly block: string
      readonly unwinds: number
    }
export type Request =
  | { readonly type: 'root'; readonly id: number }
  | { readonly type: 'append'; readonly id: number; readonly block: string }

export type Block = {
  readonly block: string
  readonly number: number
  /** Id of the parent; 0: none, from the persist pass on. */
  readonly parent: number
  readonly state: BlockState
  readonly diffLayers: readonly number[]
  /** Newest flashblock index, FINAL when finished, −1 before the first. */
  readonly tag: number
  readonly isFullBlock: boolean
}
/**
 * A flashblock or a full block on its way into its diff layer: an event of the writer that takes
 * several steps.
 */
export type Job = {
  readonly id: number
  readonly index: number
  /**
   * Remaining steps in order: a key to write, '~key' for an index word that is written too early,
   * or 'head'.
   */
  readonly left: readonly string[]
}
export type Writer = {
  readonly feed: number
  readonly upstreamTaken: number
  readonly job: Job | null
  /** Blocks that the writer knows. A dropped block leaves when its diff layers are retired. */
  readonly blocks: Readonly<Record<number, Block>>
  readonly base: number
  readonly canonical: number
  readonly complete: number
  readonly pending: number
  readonly submitted: number
  readonly fullBlock: number
  readonly unwinds: number
  readonly nextId: number
  readonly retired: readonly { readonly diffLayer: number; readonly snapshot: number }[]
  /**
   * Progress of a read of the rows, and the oldest snapshot found. No thread reads a snapshot below
   * `bound`.
   */
  readonly recycle: { readonly at: number; readonly oldest: number } | null
  readonly bound: number
}

export type Persistence = {
  /** Ids as in KnownBlocks: the base, the durable head, and the names of persisted blocks. */
  readonly base: number
  readonly durable: number
  readonly blocks: Readonly<Record<number, { readonly block: string; readonly parent: number }>>
  readonly persisted: Readonly<Record<string, number>>
  readonly roots: readonly number[]
  readonly persisting: {
    readonly id: number
    readonly at: 'word' | 'first' | 'last' | 'stamp' | 'answer' | 'late'
  } | null
  readonly unwind: {
    readonly id: number
    readonly block: string
    readonly to: string
    readonly isCounted: boolean
  } | null
  readonly prune: 'horizon' | 'word' | 'rows' | 'lateWord' | null
}

/** The rows in RocksDB. Blocks go by name here, and by hash in the product. */
export type Database = {
  readonly flat: Values
  readonly history: Readonly<Partial<Record<Key, readonly History[]>>>
  readonly persistedHead: string
  readonly durableHead: string
  readonly persisting: string | null
  readonly numbers: Readonly<Record<number, string>>
  /** Height of the transaction's block. */
  readonly transaction: number | null
  readonly oldest: number
  readonly pruned: number
}
/** Height of a change, and the value before the change. */
export type History = readonly [height: number, previous: string]

export type Cached = {
  readonly value: string
  readonly id: number
  readonly height: number
  readonly unwinds: number
}
export type View = {
  readonly at: Position
  readonly base: ChainSnapshot['base']
  readonly unwinds: number
  readonly request: Query
}
export type Reader = {
  readonly at: string
  readonly left: number
  /** Snapshot that the thread is about to lease. */
  readonly number: number
  /** Leased snapshots. */
  readonly leases: readonly number[]
  readonly view: View | null
  readonly value: string | null
  readonly word: number
  readonly entry: string | null
  readonly cache: Readonly<Partial<Record<Key, Cached>>>
  /** Session of the front in which it offered the snapshot. */
  readonly session: number
  readonly isDead: boolean
}

export type State = {
  readonly words: Words
  readonly snapshots: Readonly<Record<number, ChainSnapshot>>
  /** By diff layer number; null: the page belongs to another diff layer now. */
  readonly diffLayers: readonly (DiffLayer | null)[]
  readonly writer: Writer
  readonly responses: readonly ModelResponse[]
  readonly requests: readonly Request[]
  readonly persistence: Persistence
  readonly database: Database
  readonly task: Task | null
  readonly front: Reader
  readonly worker: Reader
  readonly secondTask: Task | null
  readonly secondFront: Reader
  readonly secondWorker: Reader
}
/** A snapshot that a front offered to its worker, and the front's session at that time. */
type Task = { readonly snapshot: number; readonly session: number }

/** A scenario under a set of rules. */
export type World = {
  readonly scenario: Scenario
  readonly rules: Rules
  readonly truth: Truth
}

export function firstState({ readers }: Scenario): State {
  const at: Position = { id: 1, height: 0, diffLayer: 0, tag: FINAL, block: GENESIS }
  const snapshot: ChainSnapshot = {
    base: { id: 1, height: 0, block: GENESIS },
    unwinds: 0,
    canonical: at,
    complete: at,
    pending: at,
  }
  const genesis: Block = {
    block: GENESIS,
    number: 0,
    parent: 0,
    state: nextState('none', 'find'),
    diffLayers: [],
    tag: FINAL,
    isFullBlock: false,
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
      persistedId: 1,
      unwinds: 0,
      oldest: 0,
      rows: Array.from({ length: Math.max(2, readers.length) }, () => 0),
      stamps: { a: 0, x: 0, y: 0 },
    },
    snapshots: { 1: snapshot },
    diffLayers: [null],
    writer: {
      feed: 0,
      upstreamTaken: 0,
      job: null,
      blocks: { 1: genesis },
      base: 1,
      canonical: 1,
      complete: 1,
      pending: 1,
      submitted: 0,
      fullBlock: 0,
      unwinds: 0,
      nextId: 2,
      retired: [],
      recycle: null,
      bound: 0,
    },
    responses: [],
    requests: [],
    persistence: {
      base: 1,
      durable: 1,
      blocks: { 1: { block: GENESIS, parent: 0 } },
      persisted: { [GENESIS]: 1 },
      roots: [],
      persisting: null,
      unwind: null,
      prune: null,
    },
    database: {
      flat: GENESIS_STATE,
      history: {},
      persistedHead: GENESIS,
      durableHead: GENESIS,
      persisting: null,
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

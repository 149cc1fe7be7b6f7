/** The parts of a scenario, and the results of its blocks by plain execution. */
import type { Rules } from './rules.ts'

/**
 * A block with its name. `flashblocks` has the writes of each, one letter per key. W wipes the
 * account: every slot that exists.
 */
export type Content = {
  readonly name: string
  readonly number: number
  readonly parent: string
  readonly flashblocks: readonly string[]
  /** Flashblock with the one transaction that readers ask for. */
  readonly transaction?: number
}
export type HeadName = 'canonical' | 'complete' | 'pending'
/**
 * Selects the block that a session reads: a head, the block n blocks above genesis, or a block
 * after a flashblock, by its hash at that point.
 */
export type Choice = HeadName | number | { readonly block: string; readonly index: number }
/** Asks for a key of state, the header, the transaction, or the hash of a number. */
export type Query = Key | 'header' | 'transaction' | `#${number}`
export type Key = 'a' | 'x' | 'y'
export const KEYS: readonly Key[] = ['a', 'x', 'y']

/** The work of one thread: a number of sessions, each with any choice and any question. */
export type Reading = {
  readonly sessions: number
  readonly choices: readonly Choice[]
  readonly requests: readonly Query[]
  /** The thread takes the snapshot that the front offers. */
  readonly isAdopter?: boolean
  /** The thread takes an offered snapshot in its last session only. */
  readonly isLateAdopter?: boolean
  /** The thread takes a second lease before it releases the first. */
  readonly isNested?: boolean
  /** The thread may die in the middle of a read. */
  readonly isMortal?: boolean
}
export type Scenario = {
  readonly name: string
  readonly blocks: readonly Content[]
  /** Messages in order. 'flush' drops pending, as another payload and an invalid flashblock do. */
  readonly feed: readonly (readonly [block: string, index: number] | 'flush')[]
  /** Canonical blocks in the order of decision. */
  readonly upstreamBlocks: readonly string[]
  /** Each diff layer takes one page. */
  readonly pages: number
  /** Snapshots in the ring. */
  readonly ring: number
  readonly foldDepth: number
  /** History up to this height is pruned once a higher block is persisted. */
  readonly pruned?: number
  readonly hasCache?: boolean
  /** Blocks with more than one flashblock take a second diff layer. */
  readonly isLarge?: boolean
  /** In order: a front, its worker, another front, its worker. */
  readonly readers: readonly Reading[]
}

/** Newest tag of a finished block. */
export const FINAL = 9
export type Values = Readonly<Record<Key, string>>

/** The oracle: plain execution. */
export type Truth = {
  block(name: string): Content
  /** State after a flashblock; FINAL: after the block. */
  state(name: string, tag: number): Values
  /** The writes of one flashblock. */
  writes(name: string, index: number): Partial<Values>
  diff(name: string): Partial<Values>
  ancestor(name: string, number: number): string
  isAncestor(ancestor: string, name: string): boolean
  /** The block with the transaction, on the chain of this block. */
  transaction(name: string, tag: number): string | undefined
}
export const GENESIS = 'g'
export const GENESIS_STATE: Values = { a: 'g', x: 'g', y: 'g' }
const GENESIS_BLOCK: Content = { name: GENESIS, number: 0, parent: '', flashblocks: [''] }

/** With the rule `wipe` off, a wipe forgets the slots that no diff layer of this run has. */
export function truthOf({ blocks }: Scenario, { wipe }: Pick<Rules, 'wipe'>): Truth {
  const contents = new Map([GENESIS_BLOCK, ...blocks].map((block) => [block.name, block]))
  const states = new Map<string, readonly Values[]>([[GENESIS, [GENESIS_STATE]]])
  const written = new Map<string, readonly Partial<Values>[]>([[GENESIS, [{}]]])
  for (const { name, parent, flashblocks } of blocks) {
    let state = states.get(parent)!.at(-1)!
    const after: Values[] = []
    const writes: Partial<Values>[] = []
    for (const [index, text] of flashblocks.entries()) {
      const changed = changesOf(state, text, `${name}.${index}`)
      state = { ...state, ...changed }
      after.push(state)
      const { y: _, ...unseen } = changed
      writes.push(wipe || !text.includes('W') ? changed : unseen)
    }
    states.set(name, after)
    written.set(name, writes)
  }
  const truth: Truth = {
    block: (name) => contents.get(name)!,
    state: (name, tag) => states.get(name)!.at(tag === FINAL ? -1 : tag)!,
    writes: (name, index) => written.get(name)![index]!,
    diff: (name) => Object.assign({}, ...written.get(name)!),
    ancestor: (name, number) => {
      let at = truth.block(name)
      while (at.number > number) at = truth.block(at.parent)
      return at.name
    },
    isAncestor: (ancestor, name) => {
      const { number } = truth.block(ancestor)
      return truth.block(name).number >= number && truth.ancestor(name, number) === ancestor
    },
    transaction: (name, tag) => {
      for (let at = truth.block(name); at.name !== GENESIS; at = truth.block(at.parent)) {
        const isVisible = at.name !== name || (at.transaction ?? FINAL) <= tag
        if (at.transaction !== undefined && isVisible) return at.name
      }
      return undefined
    },
  }
  return truth
}

/** A wipe writes a zero for every slot that exists; there is no marker. */
function changesOf(before: Values, text: string, value: string): Partial<Values> {
  const changes: Partial<Record<Key, string>> = {}
  if (text.includes('W')) {
    changes.a = '0'
    for (const slot of ['x', 'y'] as const) if (before[slot] !== '0') changes[slot] = '0'
  }
  for (const key of KEYS) if (text.includes(key)) changes[key] = value
  return changes
}

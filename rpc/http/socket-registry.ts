/**
 * Entries of open sockets, limited per address and in total. If all entries are taken, a new client
 * evicts an idle one.
 */
import type { ConcurrencyLimit } from '../core/concurrency-limit.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'

/** 'arriving': the connection's only request is incomplete. */
export type Activity = 'idle' | 'arriving' | 'busy'

export type SocketEntry<T> = {
  readonly item: T
  /** undefined: the entry belongs to no address and is never evicted. */
  readonly owner: Owner<T> | undefined
  activity: Activity
  /** Sequence number of the last change of activity. */
  since: number
  isTaken: boolean
  /** Gives back the permit that counts over several servers. */
  readonly giveBack: () => void
}
type Owner<T> = {
  readonly key: string
  readonly entries: Set<SocketEntry<T>>
  /** Number of entries that are not busy. */
  losable: number
}

export interface SocketRegistry<T> {
  /**
   * Adds an idle entry. If all are taken, the address with the most entries loses its oldest idle
   * or arriving one. Addresses with only busy entries lose none. undefined: the address is at its
   * limit, or all entries are busy.
   * @param key key of the address; undefined counts in the total only
   */
  enter(
    key: string | undefined,
    item: T,
  ): { readonly entry: SocketEntry<T>; readonly evicted: T | undefined } | undefined
  /** Tells whether the address is at its limit. */
  isFull(key: string): boolean
  /** Returns the idle and arriving items of an address. */
  openRequests(key: string): readonly T[]
  set(entry: SocketEntry<T>, activity: Activity): void
  /** Removes an entry; repeated calls have no effect. */
  leave(entry: SocketEntry<T>): void
  readonly size: number
}

type SocketBounds = {
  readonly total: number
  /** Maximum entries per key; 0 means no limit. */
  readonly perKey: number
  /** Counts the entries of a key over several servers; left out: only these. */
  readonly concurrencyLimits?: OpenConcurrencyLimit | undefined
}

/**
 * Creates a registry. Each request sets an activity three times, which costs two additions. If all
 * entries are taken, a new one searches the busy addresses and the evicted address's entries. With
 * 10,000 entries this takes 5 µs for 40 addresses. For one busy entry per address it takes 50 µs.
 * For a single address it takes 150 µs, which the default limit excludes (2026-11).
 */
export function createSocketRegistry<T>(bounds: SocketBounds): SocketRegistry<T> {
  const { total } = bounds
  const owners = new Map<string, Owner<T>>()
  const ranks = createRanks<T>()
  const counts = countOf(bounds, (key) => owners.get(key)?.entries.size ?? 0)
  let size = 0
  let changes = 0

  function evict(): T | undefined {
    const entry = firstToLose(ranks.largest())
    if (entry !== undefined) leave(entry)
    return entry?.item
  }

  function leave(entry: SocketEntry<T>): void {
    if (!entry.isTaken) return
    entry.isTaken = false
    size--
    entry.giveBack()
    const { owner } = entry
    if (owner === undefined) return
    ranks.unlist(owner)
    owner.entries.delete(entry)
    if (entry.activity !== 'busy') owner.losable--
    if (owner.entries.size === 0) owners.delete(owner.key)
    else ranks.list(owner)
  }

  return {
    isFull: (key) => counts.isFull(key),
    openRequests(key) {
      const entries = [...(owners.get(key)?.entries ?? [])]
      return entries.filter(({ activity }) => activity !== 'busy').map(({ item }) => item)
    },
    enter(key, item) {
      const giveBack = key === undefined ? nothing : counts.take(key)
      if (giveBack === undefined) return undefined
      const evicted = size >= total ? evict() : undefined
      if (size >= total) {
        giveBack()
        return undefined
      }
      size++
      const owner = key === undefined ? undefined : ownerOf(owners, key)
      const state = { activity: 'idle', since: ++changes, isTaken: true } as const
      const entry: SocketEntry<T> = { ...state, item, owner, giveBack }
      if (owner !== undefined) {
        ranks.unlist(owner)
        owner.entries.add(entry)
        owner.losable++
        ranks.list(owner)
      }
      return { entry, evicted }
    },
    set(entry, activity) {
      const { owner, activity: before } = entry
      if (before === activity || !entry.isTaken) return
      entry.activity = activity
      entry.since = ++changes
      if (owner === undefined) return
      if (before === 'busy') owner.losable++
      else if (activity === 'busy') owner.losable--
    },
    leave,
    get size() {
      return size
    },
  }
}

/**
 * Returns the counter of entries per key.
 * @param countTaken number of a key's entries in this registry
 */
function countOf(
  { perKey, concurrencyLimits }: SocketBounds,
  countTaken: (key: string) => number,
): Pick<ConcurrencyLimit, 'isFull' | 'take'> {
  if (concurrencyLimits !== undefined && perKey > 0)
    return concurrencyLimits('sockets', { perClient: perKey, total: Infinity })
  const isFull = (key: string) => perKey > 0 && countTaken(key) >= perKey
  return { isFull, take: (key) => (isFull(key) ? undefined : nothing) }
}
const nothing = () => {}

function ownerOf<T>(owners: Map<string, Owner<T>>, key: string): Owner<T> {
  const owner = owners.get(key) ?? { key, entries: new Set(), losable: 0 }
  owners.set(key, owner)
  return owner
}

/** Returns the oldest idle entry. Without idle entries, the oldest arriving one is returned. */
function firstToLose<T>(owner: Owner<T> | undefined): SocketEntry<T> | undefined {
  let first: SocketEntry<T> | undefined
  for (const entry of owner?.entries ?? []) {
    if (entry.activity === 'busy') continue
    if (first === undefined || isBefore(entry, first)) first = entry
  }
  return first
}

const isBefore = <T>(one: SocketEntry<T>, other: SocketEntry<T>): boolean =>
  one.activity === other.activity ? one.since < other.since : one.activity === 'idle'

/** Owners ranked by the number of their entries. */
function createRanks<T>() {
  const ranks: Set<Owner<T>>[] = []
  /** Highest rank that may have an owner. */
  let top = 0
  return {
    list(owner: Owner<T>): void {
      const count = owner.entries.size
      while (ranks.length <= count) ranks.push(new Set())
      ranks[count]!.add(owner)
      top = Math.max(top, count)
    },
    unlist: (owner: Owner<T>) => ranks[owner.entries.size]?.delete(owner),
    /** Returns the largest owner with an entry that can be evicted. */
    largest(): Owner<T> | undefined {
      while (top > 0 && ranks[top]!.size === 0) top--
      for (let rank = top; rank > 0; rank--)
        for (const owner of ranks[rank]!) if (owner.losable > 0) return owner
      return undefined
    },
  }
}

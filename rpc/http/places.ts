/** Places for open sockets: so many of one address, so many in all. Where all are taken, an idle one makes room for a new client. */

/** 'arriving': of its only request a part is missing. */
export type Activity = 'idle' | 'arriving' | 'busy'

export type Place<T> = {
  readonly item: T
  /** undefined: of no address, and never taken away. */
  readonly owner: Owner<T> | undefined
  activity: Activity
  isTaken: boolean
}
type Owner<T> = {
  readonly key: string
  count: number
  /** Those that have been idle for longest stand first. */
  readonly idle: Set<Place<T>>
  readonly arriving: Set<Place<T>>
}

export interface Places<T> {
  /**
   * An idle place. Where all are taken, the address with the most (of those that have an idle or arriving one) has lost the one that was
   * idle for longest, or an arriving one. undefined: refused, because the address has as many as it may, or because all are busy.
   * @param key of the address; undefined: counts in the sum only
   */
  enter(
    key: string | undefined,
    item: T,
  ): { readonly place: Place<T>; readonly evicted: T | undefined } | undefined
  /** Whether the address has as many as it may. */
  isFull(key: string): boolean
  /** Those of an address that are idle or arriving. */
  unanswered(key: string): readonly T[]
  set(place: Place<T>, activity: Activity): void
  /** Once or more often. */
  leave(place: Place<T>): void
  readonly size: number
}

/** @param perKey 0: no bound. Each step costs the same for any number of places, but for a walk over the counts that are not taken. */
export function createPlaces<T>({
  total,
  perKey,
}: {
  readonly total: number
  readonly perKey: number
}): Places<T> {
  const owners = new Map<string, Owner<T>>()
  const { list, unlist, most } = createRanks<T>()
  let size = 0

  function evict(): T | undefined {
    const place = firstToLose(most())
    if (place !== undefined) leave(place)
    return place?.item
  }

  function leave(place: Place<T>): void {
    if (!place.isTaken) return
    place.isTaken = false
    size--
    const { owner } = place
    if (owner === undefined) return
    unlist(owner)
    owner.count--
    if (place.activity !== 'busy') owner[place.activity].delete(place)
    if (owner.count === 0) owners.delete(owner.key)
    else list(owner)
  }

  const isFull = (key: string) => perKey > 0 && (owners.get(key)?.count ?? 0) >= perKey

  return {
    isFull,
    unanswered(key) {
      const owner = owners.get(key)
      return owner === undefined ? [] : [...owner.idle, ...owner.arriving].map(({ item }) => item)
    },
    enter(key, item) {
      if (key !== undefined && isFull(key)) return undefined
      const evicted = size >= total ? evict() : undefined
      if (size >= total) return undefined
      size++
      const owner = key === undefined ? undefined : ownerOf(owners, key)
      const place: Place<T> = { item, owner, activity: 'idle', isTaken: true }
      if (owner !== undefined) {
        unlist(owner)
        owner.count++
        owner.idle.add(place)
        list(owner)
      }
      return { place, evicted }
    },
    set(place, activity) {
      const { owner } = place
      if (place.activity === activity || !place.isTaken) return
      if (owner !== undefined && place.activity !== 'busy') owner[place.activity].delete(place)
      place.activity = activity
      if (owner === undefined) return
      if (activity !== 'busy') owner[activity].add(place)
      if (!hasToLose(owner)) unlist(owner)
      else if (activity !== 'busy') list(owner)
    },
    leave,
    get size() {
      return size
    },
  }
}

function ownerOf<T>(owners: Map<string, Owner<T>>, key: string): Owner<T> {
  const owner = owners.get(key) ?? { key, count: 0, idle: new Set(), arriving: new Set() }
  owners.set(key, owner)
  return owner
}

/** The oldest idle one, else the oldest arriving. */
function firstToLose<T>(owner: Owner<T> | undefined): Place<T> | undefined {
  for (const places of owner === undefined ? [] : [owner.idle, owner.arriving])
    for (const place of places) return place
  return undefined
}

const hasToLose = <T>({ idle, arriving }: Owner<T>) => idle.size + arriving.size > 0

/** Owners with something to lose, by their count. */
function createRanks<T>() {
  const ranks: Set<Owner<T>>[] = []
  /** No rank above it has anybody. */
  let top = 0
  return {
    list(owner: Owner<T>): void {
      if (!hasToLose(owner)) return
      while (ranks.length <= owner.count) ranks.push(new Set())
      ranks[owner.count]!.add(owner)
      top = Math.max(top, owner.count)
    },
    unlist: (owner: Owner<T>) => ranks[owner.count]?.delete(owner),
    most(): Owner<T> | undefined {
      while (top > 0 && ranks[top]!.size === 0) top--
      for (const owner of ranks[top] ?? []) return owner
      return undefined
    },
  }
}

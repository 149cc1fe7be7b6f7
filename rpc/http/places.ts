/** Places for open sockets: so many of one address, so many in all. Where all are taken, an idle one makes room for a new client. */
import type { Caps } from '../seam/caps.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'

/** 'arriving': of its only request a part is missing. */
export type Activity = 'idle' | 'arriving' | 'busy'

export type Place<T> = {
  readonly item: T
  /** undefined: of no address, and never taken away. */
  readonly owner: Owner<T> | undefined
  activity: Activity
  /** Counts up with each change of an activity: the less, the longer ago. */
  since: number
  isTaken: boolean
  /** To what counts it over several servers. */
  readonly giveBack: () => void
}
type Owner<T> = {
  readonly key: string
  readonly places: Set<Place<T>>
  /** Those of them that are not busy. */
  losable: number
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

type PlaceBounds = {
  readonly total: number
  /** 0: no bound. */
  readonly perKey: number
  /** Counts those of a key over several of these; left out: these are all. */
  readonly caps?: OpenCaps | undefined
}

/**
 * Each request sets an activity three times, so that costs two additions. Where all are taken, a newcomer is a walk over the addresses
 * that are busy with all of theirs, and over the places of the one that loses one. Of 10,000 places: 5 µs where 40 addresses have them, 50
 * where each has one and is busy, 150 where one has all, which the default bound does not allow (2026-11).
 */
export function createPlaces<T>(bounds: PlaceBounds): Places<T> {
  const { total } = bounds
  const owners = new Map<string, Owner<T>>()
  const ranks = createRanks<T>()
  const counts = countOf(bounds, (key) => owners.get(key)?.places.size ?? 0)
  let size = 0
  let changes = 0

  function evict(): T | undefined {
    const place = firstToLose(ranks.most())
    if (place !== undefined) leave(place)
    return place?.item
  }

  function leave(place: Place<T>): void {
    if (!place.isTaken) return
    place.isTaken = false
    size--
    place.giveBack()
    const { owner } = place
    if (owner === undefined) return
    ranks.unlist(owner)
    owner.places.delete(place)
    if (place.activity !== 'busy') owner.losable--
    if (owner.places.size === 0) owners.delete(owner.key)
    else ranks.list(owner)
  }

  return {
    isFull: (key) => counts.isFull(key),
    unanswered(key) {
      const places = [...(owners.get(key)?.places ?? [])]
      return places.filter(({ activity }) => activity !== 'busy').map(({ item }) => item)
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
      const since = ++changes
      const place: Place<T> = { item, owner, activity: 'idle', since, isTaken: true, giveBack }
      if (owner !== undefined) {
        ranks.unlist(owner)
        owner.places.add(place)
        owner.losable++
        ranks.list(owner)
      }
      return { place, evicted }
    },
    set(place, activity) {
      const { owner, activity: before } = place
      if (before === activity || !place.isTaken) return
      place.activity = activity
      place.since = ++changes
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

/** @param held places of a key among these */
function countOf(
  { perKey, caps }: PlaceBounds,
  held: (key: string) => number,
): Pick<Caps, 'isFull' | 'take'> {
  if (caps !== undefined && perKey > 0)
    return caps('sockets', { perClient: perKey, total: Infinity })
  const isFull = (key: string) => perKey > 0 && held(key) >= perKey
  return { isFull, take: (key) => (isFull(key) ? undefined : nothing) }
}
const nothing = () => {}

function ownerOf<T>(owners: Map<string, Owner<T>>, key: string): Owner<T> {
  const owner = owners.get(key) ?? { key, places: new Set(), losable: 0 }
  owners.set(key, owner)
  return owner
}

/** The oldest idle one, else the oldest arriving. */
function firstToLose<T>(owner: Owner<T> | undefined): Place<T> | undefined {
  let first: Place<T> | undefined
  for (const place of owner?.places ?? []) {
    if (place.activity === 'busy') continue
    if (first === undefined || isBefore(place, first)) first = place
  }
  return first
}

const isBefore = <T>(one: Place<T>, other: Place<T>): boolean =>
  one.activity === other.activity ? one.since < other.since : one.activity === 'idle'

/** Owners by the count of their places. */
function createRanks<T>() {
  const ranks: Set<Owner<T>>[] = []
  /** No rank above it has anybody. */
  let top = 0
  return {
    list(owner: Owner<T>): void {
      const count = owner.places.size
      while (ranks.length <= count) ranks.push(new Set())
      ranks[count]!.add(owner)
      top = Math.max(top, count)
    },
    unlist: (owner: Owner<T>) => ranks[owner.places.size]?.delete(owner),
    /** Of those that have something to lose. */
    most(): Owner<T> | undefined {
      while (top > 0 && ranks[top]!.size === 0) top--
      for (let rank = top; rank > 0; rank--)
        for (const owner of ranks[rank]!) if (owner.losable > 0) return owner
      return undefined
    },
  }
}

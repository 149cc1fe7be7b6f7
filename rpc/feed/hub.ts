/**
 * Readers of /feed: every message to each of them, from the moment it joined or from where it had been before; whoever is too slow or too many
 * is closed with 1013.
 */
import { gapMessage } from '../../engine/flashblocks/codec.ts'
import { placeText } from '../../engine/flashblocks/places.ts'
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Changes } from '../../engine/sources/writer/changes.ts'
import type { FeedDoor, FeedVisit } from '../http/upgrades.ts'
import type { Connection, ConnectionHandlers } from '../http/websocket.ts'
import type { Limits } from '../seam/limits.ts'
import { type Begun, EnrichedFeed, type EnrichedMessage } from './enriched.ts'
import type { FeedGate } from './gate.ts'
import { type Held, HeldMessages } from './held.ts'
import { type FeedQuery, readFeedQuery } from './query.ts'

export interface FeedHub {
  /** Who comes, by its URL. */
  readonly door: FeedDoor
  /** To every reader; a string goes out as text, bytes as binary. */
  broadcast(packet: Packet, place: FeedPlace | undefined): void
  /** What a record shows, to those who read the enriched feed. */
  changed(changes: Changes): void
  readonly subscribers: number
  readonly counts: FeedCounts
  /** For a hub in another thread that is to go on from here. */
  seed(): FeedSeed
}
/** Plain data. */
export type FeedSeed = {
  readonly run: string
  readonly packets: readonly Held<Packet>[]
  readonly enriched: Begun
}
export type FeedCounts = {
  readonly packets: number
  readonly enriched: number
  /** Closed because too many bytes waited. */
  readonly lagging: number
  /** Closed at once because of the limit. */
  readonly refused: number
  /** Readers that asked for what they had missed, and of those, whom something was gone for. */
  readonly replays: number
  readonly gaps: number
}

type Packet = string | Bytes
/** What a reader gets before what is new. */
type First = { readonly packets: readonly Packet[]; readonly isGap: boolean }

export type FeedLimits = Pick<
  Limits,
  'feedSubscribers' | 'feedQueueBytes' | 'feedHeldFrames' | 'feedHeldBytes' | 'feedEnrichedBytes'
>

type FeedAbout = { readonly run: string; readonly gate: FeedGate; readonly seed?: FeedSeed }

/**
 * `feedQueueBytes` is the bound that the connections have: it only tells a slow reader from one that is leaving.
 * @param about `run` names this run of the node to readers of the enriched feed, `gate`: who may be one; `seed`: what a hub of the same run has had already
 */
export function createFeedHub(limits: FeedLimits, { run, gate, seed }: FeedAbout): FeedHub {
  const counts = { packets: 0, enriched: 0, lagging: 0, refused: 0, replays: 0, gaps: 0 }
  const { feedHeldFrames: messages, feedHeldBytes, feedEnrichedBytes } = limits
  const held = new HeldMessages<Packet>({ messages, bytes: feedHeldBytes }, ({ length }) => length)
  const heldEnriched = new HeldMessages<EnrichedMessage>(
    { messages, bytes: feedEnrichedBytes },
    ({ bytes }) => bytes,
  )
  const enriched = new EnrichedFeed(run, seed?.enriched)
  for (const packet of seed?.packets ?? []) held.add(packet)
  const readers = () => createReaders(limits, counts)
  const plain = readers()
  const enriching = { data: readers(), compressed: readers() }
  const size = () => FORMS.reduce((sum, form) => sum + enriching[form].size, plain.size)

  /** A handshake is one turn: nobody comes or leaves between the door and `open`. */
  function admit(query: FeedQuery): FeedVisit {
    const { since } = query
    const { oldest } = query.isEnriched ? heldEnriched : held
    const heldHeader = `X-Feed-Held: ${oldest === undefined ? 'none' : placeText(oldest)}`
    // Before anything is made for it: a snapshot is megabytes.
    if (size() >= limits.feedSubscribers)
      return { headers: [heldHeader], replayBytes: 0, open: refuse }
    const first = query.isEnriched
      ? firstEnriched(query, { held: heldEnriched, enriched })
      : firstPlain(query, held)
    return {
      headers: [heldHeader, ...(since !== undefined && !first.isGap ? ['X-Feed-Resumed: 1'] : [])],
      replayBytes: first.packets.reduce<number>((sum, { length }) => sum + length, 0),
      open(connection) {
        if (since !== undefined) counts.replays++
        if (first.isGap) counts.gaps++
        return readersOf(query).join(connection, first.packets)
      },
    }
  }

  const readersOf = (query: FeedQuery) => (query.isEnriched ? enriching[formOf(query)] : plain)
  const refuse = (connection: Connection) => refuseReader(connection, counts)

  return {
    door(url, visitor) {
      const query = readFeedQuery(url)
      if ('wrong' in query) return query
      if (!query.isEnriched) return admit(query)
      if (feedEnrichedBytes === 0) return { wrong: 'enrich: this node has no enriched feed' }
      return gate(visitor) ?? admit(query)
    },
    broadcast(packet, place) {
      counts.packets++
      if (place !== undefined) held.add({ place, message: packet })
      plain.send(() => packet)
    },
    changed(changes) {
      counts.enriched++
      const { message, place } = enriched.take(changes)
      if (place !== undefined) heldEnriched.add({ place, message })
      for (const form of FORMS) enriching[form].send(() => message[form]())
    },
    get subscribers() {
      return size()
    },
    counts,
    seed: () => ({ run, packets: held.all, enriched: enriched.begun() }),
  }
}

/** Of an enriched message. */
const FORMS = ['data', 'compressed'] as const
const formOf = ({ isCompressed }: FeedQuery): (typeof FORMS)[number] =>
  isCompressed ? 'compressed' : 'data'

function refuseReader(connection: Connection, counts: { refused: number }): ConnectionHandlers {
  counts.refused++
  connection.close(1013, 'subscriber limit reached, please try again later')
  return {}
}

function createReaders(limits: Pick<Limits, 'feedQueueBytes'>, counts: { lagging: number }) {
  const connections = new Set<Connection>()
  const deliver = (connection: Connection, packet: Packet): boolean => {
    if (connection.send(packet)) return true
    if (connection.queuedBytes > limits.feedQueueBytes) counts.lagging++
    connections.delete(connection)
    return false
  }
  return {
    get size() {
      return connections.size
    },
    join(connection: Connection, packets: readonly Packet[]): ConnectionHandlers {
      connections.add(connection)
      packets.every((packet) => deliver(connection, packet))
      return { onClose: () => void connections.delete(connection) }
    },
    /** @param make is not called where nobody reads */
    send(make: () => Packet): void {
      if (connections.size === 0) return
      const packet = make()
      for (const connection of connections) deliver(connection, packet)
    },
  }
}

function firstPlain({ since }: FeedQuery, held: HeldMessages<Packet>): First {
  if (since === undefined) return { packets: [], isGap: false }
  const { messages, gap } = held.after(since)
  return gap === undefined
    ? { packets: messages, isGap: false }
    : { packets: [gapMessage(since, gap.next), ...messages], isGap: true }
}

/** Who cannot go on from where it stopped begins anew from what is above canonical. */
function firstEnriched(
  query: FeedQuery,
  from: { readonly held: HeldMessages<EnrichedMessage>; readonly enriched: EnrichedFeed },
): First {
  const { held, enriched } = from
  const { since, run } = query
  const isOfThis = run === undefined || run === enriched.run
  const dataOf = (one: EnrichedMessage) => one[formOf(query)]()
  const missed = since && isOfThis ? held.afterFirst(since) : undefined
  if (missed !== undefined) return { packets: missed.map(dataOf), isGap: false }
  const snapshot = enriched.snapshot()
  const packets = snapshot === undefined ? [] : [dataOf(snapshot)]
  return since === undefined
    ? { packets, isGap: false }
    : { packets: [gapMessage(since, held.oldest), ...packets], isGap: true }
}

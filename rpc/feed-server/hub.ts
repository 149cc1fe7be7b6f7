/**
 * Sends every message to the readers of /feed, from their join or from an earlier message on. A
 * reader that is too slow, or beyond the limit, is closed with 1013.
 */
import { gapMessage } from '../../engine/flashblocks/codec.ts'
import { messageIdText } from '../../engine/flashblocks/identity.ts'
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Changes } from '../../engine/sources/writer/changes.ts'
import type { Limits } from '../core/limits.ts'
import type { FeedHandler, FeedSession } from '../http/upgrades.ts'
import type { Connection, ConnectionHandlers } from '../http/websocket.ts'
import type { FeedAccess } from './access.ts'
import { EnrichedFeed, type EnrichedMessage, type EnrichedSeed } from './enriched.ts'
import { type FeedQuery, readFeedQuery } from './query.ts'
import { type BufferedMessage, ReplayBuffer } from './replay-buffer.ts'

export interface FeedHub {
  /** Admits a reader by its URL. */
  readonly handle: FeedHandler
  /** Sends a packet to every reader: a string as text, bytes as binary. */
  broadcast(packet: Packet, messageId: FeedMessageId | undefined): void
  /** Sends a chain snapshot to the readers of the enriched feed. */
  changed(changes: Changes): void
  readonly subscribers: number
  readonly counts: FeedCounts
  /** State for a hub in another thread that continues from here. */
  seed(): FeedSeed
}
/** Plain data. */
export type FeedSeed = {
  readonly run: string
  readonly packets: readonly BufferedMessage<Packet>[]
  readonly enriched: EnrichedSeed
}
export type FeedCounts = {
  readonly packets: number
  readonly enriched: number
  /** Readers closed because too many bytes waited. */
  readonly lagging: number
  /** Readers refused because of the limit. */
  readonly refused: number
  /** Readers that asked for missed messages, and the share of these that found a gap. */
  readonly replays: number
  readonly gaps: number
}

type Packet = string | Bytes
/** Packets that a reader gets before new ones. */
type First = { readonly packets: readonly Packet[]; readonly isGap: boolean }

export type FeedLimits = Pick<
  Limits,
  'feedSubscribers' | 'feedQueueBytes' | 'feedHeldFrames' | 'feedHeldBytes' | 'feedEnrichedBytes'
>

type FeedAbout = { readonly run: string; readonly access: FeedAccess; readonly seed?: FeedSeed }

/**
 * Creates the hub. The connections enforce `feedQueueBytes`; here it only distinguishes a slow
 * reader from a closing one.
 * @param about `run` identifies the node's run, `access` admits readers of the enriched feed,
 * `seed` is an earlier hub's state
 */
export function createFeedHub(limits: FeedLimits, { run, access, seed }: FeedAbout): FeedHub {
  const counts = { packets: 0, enriched: 0, lagging: 0, refused: 0, replays: 0, gaps: 0 }
  const { feedHeldFrames: messages, feedHeldBytes, feedEnrichedBytes } = limits
  const buffered = new ReplayBuffer<Packet>(
    { messages, bytes: feedHeldBytes },
    ({ length }) => length,
  )
  const enrichedBuffer = new ReplayBuffer<EnrichedMessage>(
    { messages, bytes: feedEnrichedBytes },
    ({ bytes }) => bytes,
  )
  const enriched = new EnrichedFeed(run, seed?.enriched)
  for (const packet of seed?.packets ?? []) buffered.add(packet)
  const readers = () => createReaders(limits, counts)
  const plain = readers()
  const enriching = { data: readers(), compressed: readers() }
  const size = () => FORMS.reduce((sum, form) => sum + enriching[form].size, plain.size)

  /** The handshake is synchronous: no reader comes or leaves between `handle` and `open`. */
  function admit(query: FeedQuery): FeedSession {
    const { since } = query
    const { oldest } = query.isEnriched ? enrichedBuffer : buffered
    const bufferHeader = `X-Feed-Held: ${oldest === undefined ? 'none' : messageIdText(oldest)}`
    // The limit is checked first, because a snapshot takes megabytes.
    if (size() >= limits.feedSubscribers)
      return { headers: [bufferHeader], replayBytes: 0, open: refuse }
    const first = query.isEnriched
      ? firstEnriched(query, { buffered: enrichedBuffer, enriched })
      : firstPlain(query, buffered)
    return {
      headers: since !== undefined && !first.isGap ? [bufferHeader, RESUMED] : [bufferHeader],
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
    handle(url, visitor) {
      const query = readFeedQuery(url)
      if ('wrong' in query) return query
      if (!query.isEnriched) return admit(query)
      if (feedEnrichedBytes === 0) return { wrong: 'enrich: this node has no enriched feed' }
      return access(visitor) ?? admit(query)
    },
    broadcast(packet, messageId) {
      counts.packets++
      if (messageId !== undefined) buffered.add({ messageId, message: packet })
      plain.send(() => packet)
    },
    changed(changes) {
      counts.enriched++
      const { message, messageId } = enriched.take(changes)
      if (messageId !== undefined) enrichedBuffer.add({ messageId, message })
      for (const form of FORMS) enriching[form].send(() => message[form]())
    },
    get subscribers() {
      return size()
    },
    counts,
    seed: () => ({ run, packets: buffered.all, enriched: enriched.seed() }),
  }
}

/** Header of a response to `since` without a gap. */
const RESUMED = 'X-Feed-Resumed: 1'

/** Forms of an enriched message. */
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
    /** @param make is not called without readers */
    send(make: () => Packet): void {
      if (connections.size === 0) return
      const packet = make()
      for (const connection of connections) deliver(connection, packet)
    },
  }
}

function firstPlain({ since }: FeedQuery, buffered: ReplayBuffer<Packet>): First {
  if (since === undefined) return { packets: [], isGap: false }
  const { messages, gap } = buffered.after(since)
  return gap === undefined
    ? { packets: messages, isGap: false }
    : { packets: [gapMessage(since, gap.next), ...messages], isGap: true }
}

/** A reader that cannot resume gets the snapshot of everything above canonical. */
function firstEnriched(
  query: FeedQuery,
  from: { readonly buffered: ReplayBuffer<EnrichedMessage>; readonly enriched: EnrichedFeed },
): First {
  const { buffered, enriched } = from
  const { since, run } = query
  const isOfThis = run === undefined || run === enriched.run
  const dataOf = (one: EnrichedMessage) => one[formOf(query)]()
  const missed = since && isOfThis ? buffered.afterFirst(since) : undefined
  if (missed !== undefined) return { packets: missed.map(dataOf), isGap: false }
  const snapshot = enriched.snapshot()
  const packets = snapshot === undefined ? [] : [dataOf(snapshot)]
  return since === undefined
    ? { packets, isGap: false }
    : { packets: [gapMessage(since, buffered.oldest), ...packets], isGap: true }
}

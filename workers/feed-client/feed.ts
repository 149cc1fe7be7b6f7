/** Thread of one feed: connects, checks the bounds, decodes, and sends frames to the writer. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Refused } from '../../engine/flashblocks/codec.ts'
import { createMessageIds } from '../../engine/flashblocks/identity.ts'
import type { FeedMessage, FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import { createSampler } from '../observe/sample.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import { type ConnectionState, FeedConnection, type Later } from './connection.ts'
import { decodeWithin } from './decode.ts'
import { Intake } from './intake.ts'
import type { FeedLimits } from './limits.ts'
import type { FeedCount, FeedToWriter, FromFeed, ToFeed, WriterToFeed } from './messages.ts'
import { packMessage } from './pack.ts'
import { Prefetcher, type PrefetcherOptions } from './prefetcher.ts'
import { openWebSocket, type Resuming } from './socket.ts'

export type FeedData = {
  /** Index of the feed in this node's list. */
  readonly feed: number
  readonly url: string
  readonly writer: MessagePort
  readonly blockTimeMs: number
  readonly limits: FeedLimits
  /** Newest message that the previous thread submitted, if the peer buffers its newest frames. */
  readonly since: FeedMessageId | undefined
  /** Database for prefetching state ahead of the writer; undefined turns prefetching off. */
  readonly database?: SharedDatabase | undefined
}

const now = () => performance.now()
/** The timer does not prevent the thread's end; only the port of the main thread does. */
const later: Later = (ms, run) => {
  const timer = setTimeout(run, ms).unref()
  return () => clearTimeout(timer)
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

if (parentPort !== null) run(parentPort, workerData as FeedData)

function run(main: MessagePort, data: FeedData): void {
  const { feed, limits, writer, blockTimeMs } = data
  const notify = (message: FromFeed) => main.postMessage(message)
  const counts = createCounts()
  const notifyWarning = (message: string) => notify({ type: 'warning', message })
  const warn = createSampler(limits.sampleMs, now, notifyWarning)
  const close = () => {
    clearInterval(beat)
    connection.stop()
    writer.close()
    main.close()
  }
  const failed = (error: Error) => {
    report()
    notify({ type: 'failed', message: `unexpected error: ${error.message}` })
    close()
  }
  let frameAt = now()
  const messageIdOf = createMessageIds()
  const resuming: Resuming = { newest: data.since, isReplayable: data.since !== undefined }
  const prefetcher = openPrefetcher(data, { count: counts.add, warn })
  const bounded = { limits, now, later, count: counts.add }
  const intake = new Intake({
    ...bounded,
    turn,
    decode: createDecoder(limits),
    send(message, packet, receivedAtMs) {
      frameAt = now()
      connection.decoded()
      const bytes = sendFrame(data, message, { packet, receivedAtMs })
      resuming.newest = messageIdOf(message) ?? resuming.newest
      return bytes
    },
    onMetadata: (metadata) => void prefetcher?.read(metadata).catch(failed),
    sendState: (state) => sendState(data, state),
    refused({ refuse, field }: Refused) {
      counts.refuse(field)
      warn('refused', `a frame is refused: ${refuse}`)
    },
    read: (isReading) => connection.read(isReading),
  })
  const connection = new FeedConnection({
    ...bounded,
    blockTimeMs,
    random: Math.random,
    warn,
    open: openWebSocket({ url: data.url, maxBytes: limits.packet.bytes, resuming }),
    onFrame: (packet) => void intake.frame(packet).catch(failed),
    onState(state) {
      void intake.state(state).catch(failed)
      if (state.isConnected) notify({ type: 'connected' })
    },
    onTooLarge: () => counts.refuse('too-large'),
    onFlood: () => intake.drop(),
  })
  const silentMs = () => now() - frameAt
  const report = reportOf({ feed, notify, counts, intake, connection, resuming, silentMs })
  const beat = setInterval(report, limits.beatMs)
  writer.on('message', ({ frames, bytes }: WriterToFeed) => intake.taken(frames, bytes))
  main.on('message', (message: ToFeed) => {
    if (message.type === 'canonical') return connection.canonicalMoved(message.atMs)
    report()
    notify({ type: 'stopped' })
    close()
  })
  connection.connect()
  notify({ type: 'ready' })
  saveCompiledLater()
}

/** @returns reports the counts and the status of the feed to the main thread */
function reportOf(parts: {
  readonly feed: number
  readonly notify: (message: FromFeed) => void
  readonly counts: Pick<ReturnType<typeof createCounts>, 'takeAll'>
  readonly intake: Pick<Intake, 'buffered'>
  readonly connection: Pick<FeedConnection, 'isConnected'>
  readonly resuming: Resuming
  readonly silentMs: () => number
}): () => void {
  const { feed, notify, counts, intake, connection, resuming, silentMs } = parts
  return () => {
    for (const message of counts.takeAll()) notify(message)
    const { frames: heldFrames, bytes: heldBytes } = intake.buffered
    const { isConnected } = connection
    const status = { feed, isConnected, silentMs: silentMs(), heldFrames, heldBytes }
    notify({ type: 'status', status, since: resuming.isReplayable ? resuming.newest : undefined })
  }
}

function createDecoder({ packet: bounds, packetMs }: FeedData['limits']) {
  return (packet: Uint8Array) => decodeWithin(packet, { bounds, packetMs, now })
}

function openPrefetcher(
  { limits, database }: FeedData,
  { count, warn }: Pick<PrefetcherOptions, 'count'> & { warn(kind: string, message: string): void },
): Prefetcher | undefined {
  if (database === undefined) return undefined
  return new Prefetcher({
    database: attachDatabase(database),
    bounds: limits.accessList,
    now,
    turn,
    count,
    warn: (message) => warn('access_list', message),
  })
}

const sendState = ({ feed, writer }: FeedData, state: ConnectionState): void =>
  writer.postMessage({ type: 'feed', feed, ...state } satisfies FeedToWriter)

/** Sends a frame to the writer. @returns bytes in memory */
function sendFrame(
  { feed, writer }: FeedData,
  message: FeedMessage,
  { packet, receivedAtMs }: { readonly packet: Bytes; readonly receivedAtMs: number },
): number {
  const { message: packed, transfer, sizeBytes } = packMessage(message)
  const digest = checksum(packet)
  // The packet is copied, because its buffer may be shared with other packets.
  const raw = new Uint8Array(packet)
  const bytes = sizeBytes + raw.length
  const about = { digest, receivedAtMs, raw, bytes }
  const frame: FeedToWriter = { type: 'frame', feed, message: packed, ...about }
  writer.postMessage(frame, [...transfer, raw.buffer])
  return bytes
}

/**
 * Counts are sent together once a beat, because a message for each would cost more than the work it
 * counts.
 */
function createCounts() {
  const counts = new Map<FeedCount, number>()
  const refused = new Map<string, number>()
  const addTo = <Name>(to: Map<Name, number>, what: Name, by: number) =>
    void to.set(what, (to.get(what) ?? 0) + by)
  return {
    add: (what: FeedCount, by: number) => addTo(counts, what, by),
    refuse: (field: string) => addTo(refused, field, 1),
    takeAll(): FromFeed[] {
      const all: FromFeed[] = [
        ...[...counts].map(([what, by]) => ({ type: 'count', what, by }) as const),
        ...[...refused].map(([field, by]) => ({ type: 'refused', field, by }) as const),
      ]
      counts.clear()
      refused.clear()
      return all
    },
  }
}

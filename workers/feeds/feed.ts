/** The thread of one feed: connects, bounds and decodes, and hands the writer what it has decoded. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Refused } from '../../engine/flashblocks/codec.ts'
import { createPlaces } from '../../engine/flashblocks/places.ts'
import type { FeedMessage, FeedPlace } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import { createSampler } from '../observe/sample.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import { FeedConnection, type Later } from './connection.ts'
import { decodeWithin } from './decode.ts'
import { Intake } from './intake.ts'
import type { FeedLimits } from './limits.ts'
import type { FeedCount, FeedToWriter, FromFeed, ToFeed, WriterToFeed } from './messages.ts'
import { packMessage } from './pack.ts'
import { ReadAhead, type ReadAheadOptions } from './read-ahead.ts'
import { openWebSocket, type Resuming } from './socket.ts'

export type FeedData = {
  /** Its number among the feeds of this node. */
  readonly feed: number
  readonly url: string
  readonly writer: MessagePort
  readonly blockTimeMs: number
  readonly limits: FeedLimits
  /** Of a peer that keeps its newest frames: the newest that the thread before this one has handed over. */
  readonly since: FeedPlace | undefined
  /** Reads state ahead of the writer; undefined: nothing is read ahead. */
  readonly database?: SharedDatabase | undefined
}

const now = () => performance.now()
/** The port of main keeps the thread, no timer does. */
const later: Later = (ms, run) => {
  const timer = setTimeout(run, ms).unref()
  return () => clearTimeout(timer)
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

if (parentPort !== null) run(parentPort, workerData as FeedData)

function run(main: MessagePort, data: FeedData): void {
  const { feed, limits, writer, blockTimeMs } = data
  const tell = (message: FromFeed) => main.postMessage(message)
  const counts = createCounts()
  const warn = createSampler(limits.sampleMs, now, (message) => tell({ type: 'warning', message }))
  const close = () => {
    clearInterval(beat)
    connection.stop()
    writer.close()
    main.close()
  }
  const failed = (error: Error) => {
    report()
    tell({ type: 'failed', message: `it cannot go on: ${error.message}` })
    close()
  }
  let frameAt = now()
  const placeOf = createPlaces()
  const resuming: Resuming = { newest: data.since, isKept: data.since !== undefined }
  const readAhead = openReadAhead(data, { count: counts.add, warn })
  const decoding = { bounds: limits.packet, packetMs: limits.packetMs, now }
  const intake = new Intake({
    ...{ limits, now, later, turn, count: counts.add },
    decode: (packet) => decodeWithin(packet, decoding),
    send(message, packet, receivedAtMs) {
      frameAt = now()
      connection.decoded()
      const bytes = sendFrame(data, message, { packet, receivedAtMs })
      resuming.newest = placeOf(message) ?? resuming.newest
      return bytes
    },
    onMetadata: (metadata) => void readAhead?.read(metadata).catch(failed),
    sendState(state) {
      writer.postMessage({ type: 'feed', feed, ...state } satisfies FeedToWriter)
    },
    refused({ refuse, field }: Refused) {
      counts.refuse(field)
      warn('refused', `a frame is refused: ${refuse}`)
    },
    read: (isReading) => connection.read(isReading),
  })
  const connection = new FeedConnection({
    ...{ limits, blockTimeMs, now, later, random: Math.random, count: counts.add, warn },
    open: openWebSocket({ url: data.url, maxBytes: limits.packet.bytes, resuming }),
    onFrame: (packet) => void intake.frame(packet).catch(failed),
    onState(state) {
      void intake.state(state).catch(failed)
      if (state.isConnected) tell({ type: 'connected' })
    },
    onTooLarge: () => counts.refuse('too-large'),
    onFlood: () => intake.drop(),
  })
  const report = () => {
    for (const message of counts.takeAll()) tell(message)
    const state = { feed, isConnected: connection.isConnected, silentMs: now() - frameAt }
    const status = { ...state, heldFrames: intake.held.frames, heldBytes: intake.held.bytes }
    tell({ type: 'status', status, since: resuming.isKept ? resuming.newest : undefined })
  }
  const beat = setInterval(report, limits.beatMs)
  writer.on('message', ({ frames, bytes }: WriterToFeed) => intake.taken(frames, bytes))
  main.on('message', (message: ToFeed) => {
    if (message.type === 'canonical') return connection.canonicalMoved(message.atMs)
    report()
    tell({ type: 'stopped' })
    close()
  })
  connection.connect()
  tell({ type: 'ready' })
  saveCompiledLater()
}

function openReadAhead(
  { limits, database }: FeedData,
  { count, warn }: Pick<ReadAheadOptions, 'count'> & { warn(kind: string, message: string): void },
): ReadAhead | undefined {
  if (database === undefined) return undefined
  return new ReadAhead({
    ...{ database: attachDatabase(database), bounds: limits.accessList, now, turn, count },
    warn: (message) => warn('access_list', message),
  })
}

/** Gives the bytes that it has in memory. */
function sendFrame(
  { feed, writer }: FeedData,
  message: FeedMessage,
  { packet, receivedAtMs }: { readonly packet: Bytes; readonly receivedAtMs: number },
): number {
  const { message: packed, transfer, sizeBytes } = packMessage(message)
  const digest = checksum(packet)
  // A copy of its own: the packet may lie in a buffer shared with others.
  const raw = new Uint8Array(packet)
  const bytes = sizeBytes + raw.length
  const about = { digest, receivedAtMs, raw, bytes }
  const frame: FeedToWriter = { type: 'frame', feed, message: packed, ...about }
  writer.postMessage(frame, [...transfer, raw.buffer])
  return bytes
}

/** Counts go out once in a beat: a message for each would cost more than what it counts. */
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

/** Listens to a feed for some seconds and checks its form and how steadily flashblocks arrive. */
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { decodeWithin } from '../../feed-client/decode.ts'
import { FEED_LIMITS } from '../../feed-client/limits.ts'
import { openWebSocket } from '../../feed-client/socket.ts'
import { error, type Line, ok, warning } from './line.ts'

/** At most this many frames are decoded; further frames are only counted. */
const MAX_FRAMES = 1_000
const FLASHBLOCKS = 'flashblocks with hashes'
const SUBBLOCKS = 'subblocks without hashes'
/** A gap above this is a warning; flashblocks usually come every 200 ms. */
const WIDE_MS = 1_000

type FeedTraffic = {
  readonly frames: { readonly packet: Bytes; readonly atMs: number }[]
  count: number
  bytes: number
  /** The reason for the end of the connection; undefined while it is open. */
  closed: string | undefined
  isOpen: boolean
  /** Monotonic time of the end of the observation. */
  endedMs: number
}

export async function feedLines(url: string, ms: number): Promise<readonly Line[]> {
  const about = new URL(url).host
  const received = await listen(url, ms)
  if (!received.isOpen)
    return [
      error(
        about,
        received.closed ?? 'does not answer',
        'check the feed and the network to it, or give another --feed',
      ),
    ]
  const seconds = (ms / 1_000).toFixed(0)
  if (received.count === 0)
    return [
      error(
        about,
        `sends nothing within ${seconds} s${received.closed === undefined ? '' : `: ${received.closed}`}`,
        'its sequencer has stopped, or it is not a flashblocks feed: give another --feed',
      ),
    ]
  const lines = await formLines(about, received)
  if (received.closed !== undefined)
    lines.push(
      warning(
        about,
        `ended the connection: ${received.closed}`,
        'check the proxies and the network between',
      ),
    )
  return lines
}

function listen(url: string, ms: number): Promise<FeedTraffic> {
  const received: FeedTraffic = {
    frames: [],
    count: 0,
    bytes: 0,
    closed: undefined,
    isOpen: false,
    endedMs: 0,
  }
  const { promise, resolve } = Promise.withResolvers<FeedTraffic>()
  const open = openWebSocket({
    url,
    maxBytes: FEED_LIMITS.packet.bytes,
    resuming: { newest: undefined, isReplayable: false },
  })
  const socket = open({
    onOpen() {
      received.isOpen = true
    },
    onFrame(packet) {
      received.count++
      received.bytes += packet.length
      if (received.frames.length < MAX_FRAMES)
        received.frames.push({ packet, atMs: performance.now() })
    },
    onControl() {},
    onTooLarge() {},
    onClose(reason) {
      received.closed ??= reason
      end()
    },
  })
  const timer = setTimeout(end, ms)
  function end(): void {
    clearTimeout(timer)
    resolve({ ...received, endedMs: performance.now() })
    socket.end()
  }
  return promise
}

async function formLines(
  about: string,
  { frames, count, bytes, endedMs }: FeedTraffic,
): Promise<Line[]> {
  const refused: string[] = []
  const times: number[] = []
  const forms = new Set<string>()
  const numbers = new Set<bigint>()
  for (const { packet, atMs } of frames) {
    const { packet: bounds, packetMs } = FEED_LIMITS
    const { decoded } = await decodeWithin(packet, {
      bounds,
      packetMs,
      now: () => performance.now(),
    })
    if ('refuse' in decoded) refused.push(decoded.refuse)
    else if ('message' in decoded) record(decoded.message, atMs)
  }
  function record(message: FeedMessage, atMs: number): void {
    if (message.type !== 'flashblock') return
    times.push(atMs)
    forms.add(message.delta.blockHash === undefined ? SUBBLOCKS : FLASHBLOCKS)
    if (message.blockNumber !== undefined) numbers.add(message.blockNumber)
  }
  const wire = frames[0]!.packet[0] === 0x7b ? 'plain JSON' : 'Brotli'
  const met = [FLASHBLOCKS, SUBBLOCKS].filter((form) => forms.has(form))
  const form = met.length === 0 ? wire : `${met.join(' and ')}, ${wire}`
  const lines: Line[] = []
  if (refused.length > 0)
    lines.push(
      error(
        `${about} form`,
        `${refused.length} of ${frames.length} frames are not valid flashblocks: ${refused[0]}`,
        'give another --feed: the node skips frames that it cannot read',
      ),
    )
  else lines.push(ok(`${about} form`, `${form}, ${Math.round(bytes / count)} bytes a frame`))
  const gaps = times.slice(1).map((at, index) => at - times[index]!)
  // Silence at the end counts as a gap, unless frames beyond the maximum were ignored.
  const silence = frames.length === count ? endedMs - (times.at(-1) ?? endedMs) : 0
  const widest = Math.max(silence, ...gaps)
  const says = `${times.length} flashblocks of ${numbers.size} blocks, ${Math.round(middleOf(gaps))} ms apart (median), at most ${Math.round(widest)} ms`
  if (times.length === 0) return lines
  lines.push(
    widest <= WIDE_MS
      ? ok(`${about} cadence`, says)
      : warning(
          `${about} cadence`,
          says,
          'pending does not change in such a gap: add a second --feed',
        ),
  )
  return lines
}

const middleOf = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

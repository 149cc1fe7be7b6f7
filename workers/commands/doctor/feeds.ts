/** A feed listened to for some seconds: whether it speaks, in which form, and how steadily. */
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { decodeWithin } from '../../feeds/decode.ts'
import { FEED_LIMITS } from '../../feeds/limits.ts'
import { openWebSocket } from '../../feeds/socket.ts'
import { error, type Line, ok, warning } from './line.ts'

/** Frames that are decoded; of a feed that sends more the rest is counted. */
const MOST_FRAMES = 1_000
const FLASHBLOCKS = 'flashblocks with hashes'
const SUBBLOCKS = 'subblocks without hashes'
/** Between two flashblocks, as they are sent each 200 ms. */
const WIDE_MS = 1_000

type Heard = {
  readonly frames: { readonly packet: Bytes; readonly atMs: number }[]
  count: number
  bytes: number
  /** undefined: the connection stands. */
  closed: string | undefined
  isOpen: boolean
  /** Monotonic; of the last look at it. */
  endedMs: number
}

export async function feedLines(url: string, ms: number): Promise<readonly Line[]> {
  const about = new URL(url).host
  const heard = await listen(url, ms)
  if (!heard.isOpen)
    return [
      error(
        about,
        heard.closed ?? 'does not answer',
        'look at the feed and the way to it, or give another --feed',
      ),
    ]
  const seconds = (ms / 1_000).toFixed(0)
  if (heard.count === 0)
    return [
      error(
        about,
        `says nothing in ${seconds} s${heard.closed === undefined ? '' : `: ${heard.closed}`}`,
        'its sequencer stands still, or it is no feed of flashblocks: give another --feed',
      ),
    ]
  const lines = await formLines(about, heard)
  if (heard.closed !== undefined)
    lines.push(
      warning(about, `ended the connection: ${heard.closed}`, 'look at what stands between'),
    )
  return lines
}

function listen(url: string, ms: number): Promise<Heard> {
  const heard: Heard = {
    frames: [],
    count: 0,
    bytes: 0,
    closed: undefined,
    isOpen: false,
    endedMs: 0,
  }
  const { promise, resolve } = Promise.withResolvers<Heard>()
  const open = openWebSocket({
    ...{ url, maxBytes: FEED_LIMITS.packet.bytes },
    resuming: { newest: undefined, isKept: false },
  })
  const socket = open({
    onOpen() {
      heard.isOpen = true
    },
    onFrame(packet) {
      heard.count++
      heard.bytes += packet.length
      if (heard.frames.length < MOST_FRAMES) heard.frames.push({ packet, atMs: performance.now() })
    },
    onControl() {},
    onTooLarge() {},
    onClose(reason) {
      heard.closed ??= reason
      end()
    },
  })
  const timer = setTimeout(end, ms)
  function end(): void {
    clearTimeout(timer)
    resolve({ ...heard, endedMs: performance.now() })
    socket.end()
  }
  return promise
}

async function formLines(about: string, { frames, count, bytes, endedMs }: Heard): Promise<Line[]> {
  const refused: string[] = []
  const times: number[] = []
  const forms = new Set<string>()
  const numbers = new Set<bigint>()
  for (const { packet, atMs } of frames) {
    const { packet: bounds, packetMs } = FEED_LIMITS
    const { decoded } = await decodeWithin(packet, {
      ...{ bounds, packetMs },
      now: () => performance.now(),
    })
    if ('refuse' in decoded) refused.push(decoded.refuse)
    else if ('message' in decoded) note(decoded.message, atMs)
  }
  function note(message: FeedMessage, atMs: number): void {
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
        `${refused.length} of ${frames.length} frames are no flashblocks: ${refused[0]}`,
        'give another --feed: frames that cannot be read are passed over',
      ),
    )
  else lines.push(ok(`${about} form`, `${form}, ${Math.round(bytes / count)} bytes a frame`))
  const gaps = times.slice(1).map((at, index) => at - times[index]!)
  // One that falls silent is no steadier than one that pauses; of one that sends too much the rest is not looked at.
  const silence = frames.length === count ? endedMs - (times.at(-1) ?? endedMs) : 0
  const widest = Math.max(silence, ...gaps)
  const says = `${times.length} flashblocks of ${numbers.size} blocks, ${Math.round(middleOf(gaps))} ms apart, at most ${Math.round(widest)}`
  if (times.length === 0) return lines
  lines.push(
    widest <= WIDE_MS
      ? ok(`${about} cadence`, says)
      : warning(
          `${about} cadence`,
          says,
          'pending stands still for so long: give a second --feed beside it',
        ),
  )
  return lines
}

const middleOf = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

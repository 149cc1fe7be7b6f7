/**
 * A case has a body and its framing over HTTP or a WebSocket. It is plain data, so that it can be
 * printed and sent again.
 */
import type { Dice } from './random.ts'
import { describeRope, type Rope, textOf } from './rope.ts'

export type Case = {
  readonly over: 'http' | 'websocket'
  readonly path: '/' | '/flashblocks'
  /** The frame type applies to a WebSocket only. */
  readonly frame: Frame
  readonly body: Rope
  /** The number of requests in one write, or of messages. */
  readonly times: number
  /**
   * The sizes in bytes of the body's pieces in turn: chunks of HTTP, or fragments of a WebSocket.
   * Without sizes the body has a declared length, or is one frame.
   */
  readonly pieces: readonly number[]
  /** Further header lines; a WebSocket ignores them. */
  readonly headers: Rope
  /** The part of the case that is sent; below 1 the case never ends. */
  readonly part: number
  /** The sizes in bytes of the writes in turn; without sizes all is one write. */
  readonly writes: readonly number[]
}

/** The opcodes of frames by their purpose (RFC 6455, 11.8). */
const OPCODES = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const
type Frame = keyof typeof OPCODES
const FRAMES = Object.keys(OPCODES) as readonly Frame[]
/** The opcodes from this one on are those of control frames, which are short and not fragmented. */
const FIRST_CONTROL = 8

const MAX_WIRE_BYTES = 14_000_000
const SIZES = [1, 2, 3, 5, 16, 64, 300, 1_000, 4_096, 16_384, 65_536]

export function framed(dice: Dice, body: Rope): Case {
  const over = dice.chance(0.75) ? 'http' : 'websocket'
  const isPlain = dice.chance(0.8)
  const few = () => Array.from({ length: 1 + dice.int(3) }, () => dice.pick(SIZES))
  return {
    over,
    path: dice.pick(['/', '/flashblocks']),
    frame: over === 'http' || dice.chance(0.6) ? 'text' : dice.pick(FRAMES),
    body,
    times: isPlain || dice.chance(0.8) ? 1 : dice.size(2, 600),
    pieces: isPlain || dice.chance(0.5) ? [] : few(),
    headers: isPlain || dice.chance(0.8) ? '' : headersOf(dice),
    part: isPlain || dice.chance(0.85) ? 1 : dice.pick([0.001, 0.5, 0.99, 0.9999]),
    writes: dice.chance(0.92) ? [] : few().map((size) => Math.max(size, 64)),
  }
}

export function headersOf(dice: Dice): Rope {
  const name = dice.pick<Rope>([
    ['x-', { digits: 3 }],
    'x-forwarded-for',
    'cookie',
    'origin',
    'content-type',
    'host',
    'a',
  ])
  const piece = dice.pick<Rope>([
    'a',
    ', ',
    '127.0.0.1, ',
    'é',
    ';',
    'http://a.b',
    ' ',
    { digits: 4 },
  ])
  const value = { of: piece, times: dice.size(1, 4_000) }
  const line: Rope = [name, ': ', value, '\r\n']
  return dice.pick<Rope>([
    line,
    { of: [name, ': ', piece, '\r\n'], times: dice.size(1, 2_000) },
    'expect: 100-continue\r\n',
    'expect: x\r\n',
    ['expect: ', value, '\r\n'],
    'content-encoding: gzip\r\n',
    'connection: upgrade\r\nupgrade: websocket\r\n',
    'content-length: 5\r\n',
    'transfer-encoding: gzip, chunked\r\n',
  ])
}

/** Makes the bytes of a case. */
export function wireOf(one: Case, host: string): Buffer {
  const body = Buffer.from(textOf(one.body))
  const single = one.over === 'http' ? requestOf(one, body, host) : framesOf(one, body)
  const times = Math.max(
    1,
    Math.min(one.times, Math.floor(MAX_WIRE_BYTES / Math.max(1, single.length))),
  )
  const all = times === 1 ? single : Buffer.concat(Array.from({ length: times }, () => single))
  return one.part < 1 ? all.subarray(0, Math.floor(all.length * one.part)) : all
}

function requestOf({ path, pieces, headers }: Case, body: Buffer, host: string): Buffer {
  const extra = textOf(headers).slice(0, 100_000)
  const type = /^content-type:/m.test(extra) ? '' : 'content-type: application/json\r\n'
  const start = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\n${type}${extra}`
  if (pieces.length === 0)
    return Buffer.concat([Buffer.from(`${start}content-length: ${body.length}\r\n\r\n`), body])
  const head = `${start}transfer-encoding: chunked\r\n\r\n`
  const parts = cut(body, pieces)
  // One buffer is used, because a million small ones take a second.
  const wire = Buffer.allocUnsafe(Buffer.byteLength(head) + body.length + 12 * parts.length + 5)
  let at = wire.write(head, 0, 'utf8')
  for (const [from, to] of parts) {
    at += wire.write(`${(to - from).toString(16)}\r\n`, at, 'latin1')
    at += body.copy(wire, at, from, to)
    at += wire.write('\r\n', at, 'latin1')
  }
  at += wire.write('0\r\n\r\n', at, 'latin1')
  return wire.subarray(0, at)
}

/**
 * Makes frames masked with zeros, which a client may use: a message in fragments, or a control
 * frame for each piece.
 */
function framesOf({ pieces, frame }: Case, text: Buffer): Buffer {
  const opcode = OPCODES[frame]
  const isControl = opcode >= FIRST_CONTROL
  const body = frame === 'close' ? Buffer.concat([NORMAL_CLOSE, text]) : text
  const parts: (readonly [number, number])[] =
    pieces.length === 0 || body.length === 0 ? [[0, body.length]] : cut(body, pieces)
  return Buffer.concat(
    parts.flatMap(([from, to], at) => [
      frameHead(
        to - from,
        at === 0 || isControl ? opcode : 0,
        isControl || at === parts.length - 1,
      ),
      body.subarray(from, to),
    ]),
  )
}

/** The close code 1000. */
const NORMAL_CLOSE = Buffer.from([0x03, 0xe8])

function frameHead(length: number, opcode: number, isLast: boolean): Buffer {
  const first = (isLast ? 0x80 : 0) | opcode
  if (length < 126) return Buffer.from([first, 0x80 | length, 0, 0, 0, 0])
  if (length < 65_536)
    return Buffer.from([first, 0x80 | 126, length >> 8, length & 255, 0, 0, 0, 0])
  const head = Buffer.alloc(14)
  head[0] = first
  head[1] = 0x80 | 127
  head.writeUInt32BE(length, 6)
  return head
}

/** Finds the start and the end of each piece. */
function cut(body: Buffer, sizes: readonly number[]): (readonly [number, number])[] {
  const pieces: (readonly [number, number])[] = []
  for (let at = 0; at < body.length && pieces.length < MAX_PIECES; ) {
    const to = Math.min(body.length, at + sizes[pieces.length % sizes.length]!)
    pieces.push([at, to])
    at = to
  }
  return pieces
}
/** More pieces give no new information. */
const MAX_PIECES = 100_000

export function describe({
  over,
  path,
  frame,
  body,
  times,
  pieces,
  headers,
  part,
  writes,
}: Case): string {
  const cut = over === 'http' ? 'chunks' : 'fragments'
  return [
    `${over} ${path}`,
    ...(frame === 'text' ? [] : [frame]),
    ...(times > 1 ? [`${times} times`] : []),
    ...(pieces.length > 0 ? [`${cut} of ${pieces.join(' ')}`] : []),
    ...(headers === '' ? [] : [`headers ${describeRope(headers)}`]),
    ...(part < 1 ? [`${part} of it`] : []),
    ...(writes.length > 0 ? [`writes of ${writes.join(' ')}`] : []),
    describeRope(body),
  ].join(', ')
}

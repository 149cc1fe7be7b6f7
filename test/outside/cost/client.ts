/** Sends a case over a socket of its own and reads the answers, as far as they come. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { HANGS_MS } from '../../kit/checks.ts'
import { type Case, wireOf } from './wire.ts'

export type Sent = {
  readonly bytes: number
  readonly answers: number
  readonly answerBytes: number
}

/** Without an answer for so long it is taken for one that gets none, or for one that a worker has. */
const SILENCE_MS = 40
/** The same for what is never finished. */
const UNFINISHED_MS = 6
const PATIENCE_MS = 700

/** How long answers are waited for: until nothing comes any more, or until all are here. */
export type Patience = 'silence' | 'answers'

/** A socket that is ready for the case, and how to send it. */
export async function openFor(one: Case, port: number, patience: Patience = 'silence') {
  const host = `127.0.0.1:${port}`
  const wire = wires.get(one) ?? wireOf(one, host)
  wires.set(one, wire)
  const socket = connect({ port, host: '127.0.0.1' })
  socket.setNoDelay()
  socket.on('error', () => {})
  await once(socket, 'connect')
  if (one.over === 'websocket') await upgrade(socket, one.path, host)
  return {
    send: async (): Promise<Sent> => ({
      bytes: wire.length,
      ...(await exchange(socket, one, { wire, patience })),
    }),
    close: () => socket.destroy(),
  }
}

/** What is measured again is made once. */
const wires = new WeakMap<Case, Buffer>()

async function upgrade(socket: Socket, path: string, host: string): Promise<void> {
  socket.write(
    `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${Buffer.alloc(16).toString('base64')}\r\n\r\n`,
  )
  const [answer] = (await once(socket, 'data')) as [Buffer]
  if (!answer.toString('latin1').startsWith('HTTP/1.1 101'))
    throw new Error(`no WebSocket: ${answer.toString('latin1').slice(0, 100)}`)
}

function exchange(
  socket: Socket,
  one: Case,
  { wire, patience }: { readonly wire: Buffer; readonly patience: Patience },
): Promise<Omit<Sent, 'bytes'>> {
  const count = one.over === 'http' ? httpAnswers() : messages()
  const silenceMs = one.part < 1 ? UNFINISHED_MS : SILENCE_MS
  let answerBytes = 0
  let answers = 0
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(longest)
      clearTimeout(silence)
      resolve({ answers, answerBytes })
    }
    const longest = setTimeout(end, patience === 'answers' ? HANGS_MS : PATIENCE_MS)
    let silence: NodeJS.Timeout | undefined
    let isFlushed = false
    const listen = () => {
      clearTimeout(silence)
      if (isFlushed && patience === 'silence') silence = setTimeout(end, silenceMs)
    }
    socket.on('data', (chunk) => {
      answerBytes += chunk.length
      answers = count(chunk)
      if (answers >= one.times && one.part === 1) end()
      else listen()
    })
    socket.once('close', end)
    void write(socket, wire, one.writes).then(() => {
      isFlushed = true
      listen()
    })
  })
}

/** In pieces as they were asked for, each in a turn of its own, and the rest at once. */
async function write(socket: Socket, wire: Buffer, sizes: readonly number[]): Promise<void> {
  let at = 0
  for (let turn = 0; sizes.length > 0 && turn < MAX_WRITES && at < wire.length; turn++) {
    const piece = wire.subarray(at, at + sizes[turn % sizes.length]!)
    at += piece.length
    await new Promise((resolve) => socket.write(piece, resolve))
  }
  if (at < wire.length) await new Promise((resolve) => socket.write(wire.subarray(at), resolve))
}
const MAX_WRITES = 500

/** How many whole HTTP answers have come. */
function httpAnswers(): (chunk: Buffer) => number {
  let answers = 0
  let head = ''
  let left = 0
  return (chunk) => {
    let at = 0
    while (at < chunk.length) {
      if (left > 0) {
        const taken = Math.min(left, chunk.length - at)
        at += taken
        left -= taken
        if (left === 0) answers++
        continue
      }
      head += chunk.toString('latin1', at, Math.min(chunk.length, at + 4_000))
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return answers
      at += end + 4 - (head.length - Math.min(chunk.length - at, 4_000))
      left = Number(/^content-length: (\d+)/im.exec(head.slice(0, end))?.[1] ?? 0)
      if (left === 0 && !head.startsWith('HTTP/1.1 100')) answers++
      head = ''
    }
    return answers
  }
}

/** How many whole messages have come; those of the protocol itself are none. */
function messages(): (chunk: Buffer) => number {
  let count = 0
  let rest: Buffer = Buffer.alloc(0)
  let left = 0
  let endsMessage = false
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const taken = Math.min(left, rest.length)
      rest = rest.subarray(taken)
      left -= taken
      if (left > 0) return count
      if (endsMessage) count++
      endsMessage = false
      if (rest.length < 2) return count
      const short = rest[1]! & 127
      const head = short < 126 ? 2 : short === 126 ? 4 : 10
      if (rest.length < head) return count
      const length =
        head === 2 ? short : head === 4 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2))
      left = head + length
      endsMessage = (rest[0]! & 0x80) !== 0 && (rest[0]! & 15) < 8
    }
  }
}

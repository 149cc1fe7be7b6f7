/** This client sends a case over its own socket and reads the responses as far as they come. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { HANGS_MS } from '../../kit/checks.ts'
import { type Case, wireOf } from './wire.ts'

export type Sent = {
  readonly bytes: number
  readonly responses: number
  readonly responseBytes: number
}

/** After this silence a request counts as one without a response, or as one that a worker has. */
const SILENCE_MS = 40
/** The silence is shorter for a case that is never finished. */
const UNFINISHED_MS = 6
const TIMEOUT_MS = 700

/** The client waits until no more responses come, or until all have come. */
export type WaitFor = 'silence' | 'answers'

/** Opens a socket for the case, and gives the function that sends the case. */
export async function openFor(one: Case, port: number, waitFor: WaitFor = 'silence') {
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
      ...(await exchange(socket, one, { wire, waitFor })),
    }),
    close: () => socket.destroy(),
  }
}

/** The bytes of a case are made once, even if the case is measured again. */
const wires = new WeakMap<Case, Buffer>()

async function upgrade(socket: Socket, path: string, host: string): Promise<void> {
  socket.write(
    `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${Buffer.alloc(16).toString('base64')}\r\n\r\n`,
  )
  const [response] = (await once(socket, 'data')) as [Buffer]
  if (!response.toString('latin1').startsWith('HTTP/1.1 101'))
    throw new Error(`no WebSocket: ${response.toString('latin1').slice(0, 100)}`)
}

function exchange(
  socket: Socket,
  one: Case,
  { wire, waitFor }: { readonly wire: Buffer; readonly waitFor: WaitFor },
): Promise<Omit<Sent, 'bytes'>> {
  const count = one.over === 'http' ? httpResponses() : messages()
  const silenceMs = one.part < 1 ? UNFINISHED_MS : SILENCE_MS
  let responseBytes = 0
  let responses = 0
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(longest)
      clearTimeout(silence)
      resolve({ responses, responseBytes })
    }
    const longest = setTimeout(end, waitFor === 'answers' ? HANGS_MS : TIMEOUT_MS)
    let silence: NodeJS.Timeout | undefined
    let isFlushed = false
    const listen = () => {
      clearTimeout(silence)
      if (isFlushed && waitFor === 'silence') silence = setTimeout(end, silenceMs)
    }
    socket.on('data', (chunk) => {
      responseBytes += chunk.length
      responses = count(chunk)
      if (responses >= one.times && one.part === 1) end()
      else listen()
    })
    socket.once('close', end)
    void write(socket, wire, one.writes).then(() => {
      isFlushed = true
      listen()
    })
  })
}

/** Writes the case in pieces of the given sizes, each in its own turn, and the rest at once. */
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

/** Counts the complete HTTP responses. */
function httpResponses(): (chunk: Buffer) => number {
  let responses = 0
  let head = ''
  let left = 0
  return (chunk) => {
    let at = 0
    while (at < chunk.length) {
      if (left > 0) {
        const taken = Math.min(left, chunk.length - at)
        at += taken
        left -= taken
        if (left === 0) responses++
        continue
      }
      head += chunk.toString('latin1', at, Math.min(chunk.length, at + 4_000))
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return responses
      at += end + 4 - (head.length - Math.min(chunk.length - at, 4_000))
      left = Number(/^content-length: (\d+)/im.exec(head.slice(0, end))?.[1] ?? 0)
      if (left === 0 && !head.startsWith('HTTP/1.1 100')) responses++
      head = ''
    }
    return responses
  }
}

/** Counts the complete messages, without those of the protocol itself. */
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

/**
 * These are the tools of a hostile client: targets, sockets, raw requests, a pace. The client stays
 * cheap, because its requests are made beforehand.
 */
import { connect, type Socket } from 'node:net'

export type Target = {
  readonly port: number
  /** The source addresses of the client. */
  readonly from: readonly string[]
  readonly random: () => number
  /**
   * Counts an outcome: a status or an error. `what` got its response after this many milliseconds.
   */
  readonly report: (outcome: string, what?: string, ms?: number) => void
}
export type Row = {
  readonly name: string
  /** The number of source addresses; 1 by default. */
  readonly addresses?: number
  /** The row's length as a multiple of the others; 1 by default. */
  readonly times?: number
  /** Makes the requests, and gives a function that starts to send them until the process ends. */
  readonly make: (target: Target) => () => void
}

const HOST = '127.0.0.1'
const TICK_MS = 10
/** After a pause of this process, it sends at most the requests that were due in this time. */
const MAX_LAG_SECONDS = 0.2

/** Runs `one` this often a second without waiting for responses. */
export function pace(perSecond: number, one: (count: number) => void): void {
  const startedAt = performance.now()
  let due = 0
  let count = 0
  setInterval(() => {
    const now = ((performance.now() - startedAt) / 1_000) * perSecond
    due = Math.max(due, now - perSecond * MAX_LAG_SECONDS)
    for (; due < now; due++) one(count++)
  }, TICK_MS)
}

/**
 * Opens a socket that reports errors; nothing is read until a listener is set.
 * @param which of the addresses, in turn
 */
export function dial({ port, from, report }: Target, which = 0): Socket {
  const localAddress = from[which % from.length]!
  const socket = connect({ port, host: HOST, localAddress, noDelay: true })
  socket.on('error', (error: NodeJS.ErrnoException) => report(error.code ?? error.message))
  return socket
}

/**
 * Opens this many sockets at the pace, and greets each once it is open. Closed sockets are
 * replaced, `reconnects` a second.
 */
export function crowd(
  target: Target,
  options: { readonly count: number; readonly perSecond: number; readonly reconnects?: number },
  greet: (socket: Socket, which: number) => void,
): void {
  const { count, perSecond, reconnects = perSecond / 4 } = options
  let open = 0
  let dialled = 0
  let mayDial = count
  const one = () => {
    if (open >= count || mayDial < 1) return
    open++
    mayDial--
    const which = dialled++
    const socket = dial(target, which)
    socket.on('connect', () => {
      target.report('open')
      greet(socket, which)
    })
    socket.on('close', () => {
      target.report('closed')
      open--
    })
  }
  pace(perSecond, one)
  pace(reconnects, () => {
    mayDial = Math.min(count, mayDial + 1)
  })
}

/** Reports the status line of each response; several in one packet count once. */
export function listen({ report }: Target, socket: Socket): void {
  socket.on('data', (data: Buffer) => report(statusOf(data)))
}
const statusOf = (data: Buffer) => {
  const text = data.toString('latin1', 0, 12)
  return text.startsWith('HTTP/1.1') ? text.slice(9) : 'data'
}

/** The client waits for at most this many responses. */
const MAX_OPEN = 300
let openPosts = 0

/**
 * Sends one request over its own socket, which is closed when the response starts; `what` names the
 * request.
 */
export function post(target: Target, what: string, parts: readonly Buffer[], which = 0): void {
  if (openPosts >= MAX_OPEN) {
    target.report('held back')
    return
  }
  openPosts++
  const startedAt = performance.now()
  const socket = dial(target, which)
  socket.on('connect', () => {
    target.report('sent')
    for (const part of parts) socket.write(part)
  })
  socket.once('data', (data: Buffer) => {
    target.report(statusOf(data), what, performance.now() - startedAt)
    socket.destroy()
  })
  socket.on('close', () => openPosts--)
}

export const PATHS = ['/', '/flashblocks'] as const

/**
 * Makes the head of a POST with a body of this length, or with these headers instead of a length.
 */
export function headOf(length: number | readonly string[], path = '/'): Buffer {
  const rest = typeof length === 'number' ? [`content-length: ${length}`] : length
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${rest.join('\r\n')}\r\n\r\n`,
  )
}

export function postOf(body: Buffer | string, path = '/'): Buffer {
  const bytes = Buffer.from(body)
  return Buffer.concat([headOf(bytes.length, path), bytes])
}

export const callOf = (method: string, params: readonly unknown[], id: unknown = 1): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })

export const pick = <T>(random: () => number, among: readonly T[]): T =>
  among[Math.floor(random() * among.length)]!

/** Writes the bytes again and again at the pace, for as long as the system accepts them. */
export function pour(socket: Socket, bytes: Buffer, perSecond: number): void {
  let due = 1
  let last = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    due = Math.min(due + ((now - last) / 1_000) * perSecond, perSecond * MAX_LAG_SECONDS + 1)
    last = now
    for (; due >= 1; due--) {
      if (socket.writableNeedDrain) return
      socket.write(bytes)
    }
  }, TICK_MS)
  socket.on('close', () => clearInterval(timer))
}

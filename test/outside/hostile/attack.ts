/** What a hostile client has to hand: where it aims, sockets, raw requests, a pace. It stays cheap: what it sends is made beforehand. */
import { connect, type Socket } from 'node:net'

export type Target = {
  readonly port: number
  /** Addresses to come from. */
  readonly from: readonly string[]
  readonly random: () => number
  /** What came back: a status, an error, whatever is worth counting. `what` was answered after so many milliseconds. */
  readonly told: (outcome: string, what?: string, ms?: number) => void
}
export type Row = {
  readonly name: string
  /** Addresses that it comes from; 1. */
  readonly addresses?: number
  /** So many times as long as the others; 1. */
  readonly times?: number
  /** Makes what will be sent; what it gives begins to send. The end of the process is the end of it. */
  readonly make: (target: Target) => () => void
}

const HOST = '127.0.0.1'
const TICK_MS = 10
/** After a pause of this process it does not send in one moment what was due in more than that. */
const MAX_BEHIND_SECONDS = 0.2

/** `one` so often a second, whatever becomes of it: nothing waits for an answer. */
export function pace(perSecond: number, one: (count: number) => void): void {
  const startedAt = performance.now()
  let due = 0
  let count = 0
  setInterval(() => {
    const now = ((performance.now() - startedAt) / 1_000) * perSecond
    due = Math.max(due, now - perSecond * MAX_BEHIND_SECONDS)
    for (; due < now; due++) one(count++)
  }, TICK_MS)
}

/** @param which of the addresses, in turn. Errors are told; nothing is read until somebody listens. */
export function dial({ port, from, told }: Target, which = 0): Socket {
  const localAddress = from[which % from.length]!
  const socket = connect({ port, host: HOST, localAddress, noDelay: true })
  socket.on('error', (error: NodeJS.ErrnoException) => told(error.code ?? error.message))
  return socket
}

/** So many sockets, opened at that pace, each greeted once it is open; those that are closed are replaced, at `again` a second. */
export function crowd(
  target: Target,
  options: { readonly count: number; readonly perSecond: number; readonly again?: number },
  greet: (socket: Socket, which: number) => void,
): void {
  const { count, perSecond, again = perSecond / 4 } = options
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
      target.told('open')
      greet(socket, which)
    })
    socket.on('close', () => {
      target.told('closed')
      open--
    })
  }
  pace(perSecond, one)
  pace(again, () => {
    mayDial = Math.min(count, mayDial + 1)
  })
}

/** The status line of each answer is told; several in one packet count once. */
export function listen({ told }: Target, socket: Socket): void {
  socket.on('data', (data: Buffer) => told(statusOf(data)))
}
const statusOf = (data: Buffer) => {
  const text = data.toString('latin1', 0, 12)
  return text.startsWith('HTTP/1.1') ? text.slice(9) : 'data'
}

/** Answers that are waited for, at most. */
const MAX_OPEN = 300
let openPosts = 0

/** One request over a socket of its own, which is closed when the answer begins; `what` names it. */
export function post(target: Target, what: string, parts: readonly Buffer[], which = 0): void {
  if (openPosts >= MAX_OPEN) {
    target.told('held back')
    return
  }
  openPosts++
  const startedAt = performance.now()
  const socket = dial(target, which)
  socket.on('connect', () => {
    target.told('sent')
    for (const part of parts) socket.write(part)
  })
  socket.once('data', (data: Buffer) => {
    target.told(statusOf(data), what, performance.now() - startedAt)
    socket.destroy()
  })
  socket.on('close', () => openPosts--)
}

export const PATHS = ['/', '/flashblocks'] as const

/** The head of a POST with so many bytes of body, or with these headers in the place of a length. */
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

/** Writes the bytes again and again at that pace, for as long as the system takes them. */
export function pour(socket: Socket, bytes: Buffer, perSecond: number): void {
  let due = 1
  let last = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    due = Math.min(due + ((now - last) / 1_000) * perSecond, perSecond * MAX_BEHIND_SECONDS + 1)
    last = now
    for (; due >= 1; due--) {
      if (socket.writableNeedDrain) return
      socket.write(bytes)
    }
  }, TICK_MS)
  socket.on('close', () => clearInterval(timer))
}

/**
 * Connections that send plain requests are served here: no request object, no response object, no streams between, half of what a
 * request costs (docs/adr/0009). At the first bytes that are anything else, the connection is Node's for the rest of its life.
 */
import { type OutgoingHttpHeaders, type Server, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Endpoint } from '../engine/chain/types.ts'
import { clientAddress, type TrustedProxies } from './address.ts'
import type { Answer, Answerer } from './exchange.ts'
import type { Client } from './method.ts'
import { createPlainReader, type PlainRequest, type PlainRules } from './plain-request.ts'
import type { ServerState } from './server.ts'
import type { Unsent } from './unsent.ts'

export type PlainHttpOptions = PlainRules & {
  readonly trustedProxies: TrustedProxies
  readonly answer: Answerer
  /** The answer could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  readonly state: ServerState
  /** Of every answer. */
  readonly headers: OutgoingHttpHeaders
  readonly requestsPerSocket: number
  /** Until the first byte. */
  readonly headersMs: number
  readonly keepAliveMs: number
  /** Without a sign of a client that is to take its answer. */
  readonly silentMs: number
  readonly unsent: Unsent
}
export interface PlainHttp {
  /** Ends the connections that Node's server does not know of. */
  closeAll(): void
}

/** Than a client is told, so that its last request does not meet the end; Node does the same. */
const KEPT_LONGER_MS = 1_000

/** Comes between the server and its connections. */
export function servePlain(http: Server, options: PlainHttpOptions): PlainHttp {
  const listeners = http.listeners('connection')
  const open = new Set<Connection>()
  const shared: Shared = {
    options,
    read: createPlainReader(options),
    text: createWriter(options),
    onEnd: (connection) => open.delete(connection),
    giveToNode(socket) {
      for (const listener of listeners) listener.call(http, socket)
    },
  }
  http.removeAllListeners('connection')
  http.on('connection', (socket) => open.add(new Connection(socket, shared)))
  return {
    closeAll() {
      for (const connection of open) connection.destroy()
    },
  }
}

type Shared = {
  readonly options: PlainHttpOptions
  readonly read: (bytes: Buffer) => PlainRequest | undefined
  readonly text: (answer: Answer, isLast: boolean) => ResponseText
  readonly giveToNode: (socket: Socket) => void
  readonly onEnd: (connection: Connection) => void
}

/** One request at a time: what comes meanwhile waits, and reading stops. */
class Connection {
  readonly #socket: Socket
  readonly #shared: Shared
  /** Of the request that is being answered. */
  #client: PlainClient | undefined
  /** The system has not taken the last answer whole: call it when it has. */
  #taken: (() => void) | undefined
  #early: Buffer | undefined
  #requests = 0

  constructor(socket: Socket, shared: Shared) {
    this.#socket = socket
    this.#shared = shared
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('error', ignore)
    socket.on('timeout', this.#onTimeout)
    socket.on('close', this.#onClose)
    socket.setTimeout(shared.options.headersMs)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  get #isBusy(): boolean {
    return this.#client !== undefined || this.#taken !== undefined
  }

  readonly #onData = (bytes: Buffer): void => {
    // The last answer of this connection is on its way out.
    if (!this.#socket.writable) return
    if (!this.#isBusy) {
      this.#serve(bytes)
      return
    }
    this.#early = this.#early === undefined ? bytes : Buffer.concat([this.#early, bytes])
    this.#socket.pause()
  }

  #serve(bytes: Buffer): void {
    const { options, read } = this.#shared
    const request = options.state.paused === undefined ? read(bytes) : undefined
    if (request === undefined) {
      this.#handOver(bytes)
      return
    }
    const { remoteAddress } = this.#socket
    const address = clientAddress(remoteAddress, request.forwardedFor, options.trustedProxies)
    const client = new PlainClient(address, request.endpoint, this.#socket)
    this.#client = client
    options.state.begun()
    const answered = options.answer(request.body, client)
    if (answered instanceof Promise) void answered.then((answer) => this.#answer(answer))
    else this.#answer(answered)
  }

  #answer(answer: Answer): void {
    const { options } = this.#shared
    this.#client = undefined
    try {
      if (this.#socket.writable) this.#write(answer)
    } catch (error) {
      options.onBug(error)
      this.#socket.destroy()
    }
    options.state.ended()
    this.#next()
  }

  #write(answer: Answer): void {
    const { options, text } = this.#shared
    const socket = this.#socket
    const isLast = ++this.#requests >= options.requestsPerSocket
    const { content, encoding } = text(answer, isLast)
    socket.write(content, encoding)
    // What the system has not taken at once is kept until its client reads.
    if (socket.writableLength > 0) {
      this.#taken = options.unsent.add(answer.text?.length ?? 0, () => socket.destroy())
      socket.write('', this.#onTaken)
      socket.setTimeout(options.silentMs)
    } else if (this.#requests === 1) socket.setTimeout(options.keepAliveMs + KEPT_LONGER_MS)
    if (isLast) socket.destroySoon()
  }

  /** Goes on with what came while an answer was made. */
  #next(): void {
    const early = this.#early
    if (this.#isBusy || early === undefined || !this.#socket.writable) return
    this.#early = undefined
    this.#serve(early)
    this.#socket.resume()
  }

  #handOver(bytes: Buffer): void {
    const socket = this.#socket
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('error', ignore)
    socket.off('timeout', this.#onTimeout)
    socket.off('close', this.#onClose)
    this.#shared.onEnd(this)
    this.#shared.giveToNode(socket)
    socket.unshift(bytes)
    socket.resume()
  }

  readonly #onTaken = (): void => {
    this.#taken?.()
    this.#taken = undefined
    this.#socket.setTimeout(this.#shared.options.keepAliveMs + KEPT_LONGER_MS)
    this.#next()
  }
  /** A client that says no more has left, as Node has it. */
  readonly #onEnd = (): void => {
    this.#socket.end()
  }
  readonly #onTimeout = (): void => {
    // Who waits for an answer is silent for a reason; how long an answer may take is known elsewhere.
    if (this.#client !== undefined) this.#socket.setTimeout(this.#shared.options.silentMs)
    else this.#socket.destroy()
  }
  readonly #onClose = (): void => {
    this.#shared.onEnd(this)
    this.#client?.leave()
    this.#taken?.()
  }
}

const ignore = (): void => {}

class PlainClient implements Client {
  readonly address: string
  readonly endpoint: Endpoint
  readonly notify = undefined
  readonly #socket: Socket
  #controller: AbortController | undefined

  constructor(address: string, endpoint: Endpoint, socket: Socket) {
    this.address = address
    this.endpoint = endpoint
    this.#socket = socket
  }

  get isGone(): boolean {
    return this.#socket.destroyed
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.isGone) this.#controller.abort()
    return this.#controller.signal
  }

  leave(): void {
    this.#controller?.abort()
  }
}

type ResponseText = { readonly content: string; readonly encoding: 'latin1' | 'utf8' }

/** Puts responses together; the headers of a flashblock's answers are the same within a second. */
function createWriter(
  options: PlainHttpOptions,
): (answer: Answer, isLast: boolean) => ResponseText {
  const seconds = Math.floor(options.keepAliveMs / 1_000)
  const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}, max=${options.requestsPerSocket}\r\n`
  const own = fieldsText(options.headers)
  let usual: { readonly of: Answer['headers']; readonly second: number; readonly text: string } = {
    of: {},
    second: 0,
    text: '',
  }

  function headersOf({ status, headers, text }: Answer, second: number, isLast: boolean): string {
    return (
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n` +
      `${text === undefined ? '' : 'content-type: application/json\r\n'}${own}${fieldsText(headers)}` +
      `Date: ${new Date(second * 1_000).toUTCString()}\r\n${isLast ? 'Connection: close\r\n' : keepAlive}`
    )
  }

  return (answer, isLast) => {
    const { text, status, headers } = answer
    const second = Math.floor(Date.now() / 1_000)
    if (text === undefined) {
      const length = status === 204 ? '' : 'content-length: 0\r\n'
      const content = `${headersOf(answer, second, isLast)}${length}\r\n`
      return { content, encoding: 'latin1' }
    }
    const isUsual = status === 200 && !isLast
    if (isUsual && (usual.of !== headers || usual.second !== second))
      usual = { of: headers, second, text: headersOf(answer, second, false) }
    const head = isUsual ? usual.text : headersOf(answer, second, isLast)
    const bytes = Buffer.byteLength(text)
    // Plain ASCII, which nearly every answer is, is written without being encoded.
    const encoding = bytes === text.length ? 'latin1' : 'utf8'
    return { content: `${head}content-length: ${bytes}\r\n\r\n${text}`, encoding }
  }
}

const fieldsText = (headers: OutgoingHttpHeaders): string =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')

/**
 * Undocumented parts of Node, ws and undici that the node uses. A test in
 * test/rpc/wire/internals.test.ts fails for each if a new version changes it.
 */
import type { Server } from 'node:http'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

// An import would also load the parts of undici that `node:http` exports: 40 ms of every start
// (2026-11).
const { IncomingMessage: Message } = process.getBuiltinModule('node:http')

/**
 * A request that passes its body to `takePiece`. Node's parser gives each piece to `push`
 * (`parserOnBody`, lib/_http_common.js). With one-byte chunks, 64 kB take 40 ms as a stream and 20
 * ms with `takePiece` (2026-11).
 */
export abstract class PushedRequest extends Message {
  /**
   * @param piece null after the last piece
   * @returns false if no further piece is accepted
   */
  abstract takePiece(piece: Buffer | null): boolean

  override push(piece: Buffer | null): boolean {
    return this.takePiece(piece)
  }
  pushToStream(piece: Buffer | null): boolean {
    return super.push(piece)
  }
}

/**
 * Refuses connections before Node creates a socket, which is the most expensive part of accepting.
 * Node checks a server's `blockList` for each peer (`onconnection`, lib/net.js). Its documented
 * form is a list of addresses; a function is not documented.
 */
export function refusePeers(server: Server, isRefused: (address: string) => boolean): void {
  Object.assign(server, { blockList: { check: isRefused } })
}

/**
 * Takes the listener that attaches an HTTP parser to each socket (`connectionListener`,
 * lib/_http_server.js). A socket can then be checked or read before it has a parser.
 * @returns attaches Node's parser to a socket
 * @throws if Node has another number of listeners
 */
export function takeConnections(server: Server): (socket: Socket) => void {
  const [attach, ...others] = server.listeners('connection')
  if (attach === undefined || others.length > 0)
    throw new Error(`expected one 'connection' listener of node:http, got ${others.length}`)
  server.removeAllListeners('connection')
  return (socket) => void attach.call(server, socket)
}

/**
 * Stops the parsing of a connection that is about to end. Destroying or pausing a socket stops only
 * the next read. 64 kB already read may be 10,000 pieces, which take the parser 10 ms (2026-11).
 * Node frees the parser one turn after the close (`freeParser`, lib/_http_common.js).
 */
export function removeParser(socket: Socket): void {
  const { parser } = socket as Socket & { readonly parser?: { remove?(): void } | null }
  parser?.remove?.()
}

/**
 * Stops the reading of a socket at once. Node starts to read up to 64 kB when it creates a socket,
 * and `pause` takes effect afterwards. On `resume` Node checks `reading` of a socket with a parser
 * and restarts the handle (`onSocketResume`, lib/_http_server.js).
 */
export function stopHandle(socket: Socket): void {
  type Handle = { reading: boolean; readStop?(): number }
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null }
  if (handle == null) return
  handle.reading = false
  handle.readStop?.()
}

/**
 * Writes encoded WebSocket frames between two messages of ws. ws writes each message to the socket
 * at once, because compression is off.
 */
export const writeFrames = (socket: Duplex, frames: Uint8Array, done: () => void): boolean =>
  socket.write(frames, done)

/** Compiles llhttp, the parser of `node:http`, from the WebAssembly of undici. */
export function compileLlhttp(): WebAssembly.Module {
  const bytes = createRequire(import.meta.url)('undici/lib/llhttp/llhttp_simd-wasm.js') as Buffer
  return new WebAssembly.Module(new Uint8Array(bytes))
}

/**
 * Connections of proxies that send the client's address in a header before the first byte. Each
 * connection waits for its header, and then counts for that client.
 */
import type { Socket } from 'node:net'
import type { Limits } from '../core/limits.ts'
import { type ProxyFault, readProxyHeader } from './proxy-header.ts'

export type ProxyRefusal = ProxyFault | 'late' | 'cut off'
export type ProxiedOptions = {
  readonly limits: Pick<Limits, 'headersMs' | 'requestMs'>
  /** The connection was closed, because its client is unknown. */
  readonly onRefused: (why: ProxyRefusal, proxy: string) => void
}

type Source = { readonly address: string; readonly port: number }

const ignore = (): void => {}

/**
 * Calls `open` once the header has arrived. The next byte read follows the header, and
 * `remoteAddress` and `remotePort` are the client's.
 */
export function awaitProxyHeader(
  socket: Socket,
  { limits, onRefused }: ProxiedOptions,
  open: () => void,
): void {
  const proxy = socket.remoteAddress ?? 'unknown'
  let bytes: Buffer | undefined
  const timer = setTimeout(() => refuse('late'), Math.min(limits.headersMs, limits.requestMs))

  function refuse(why: ProxyRefusal): void {
    leave()
    socket.destroy()
    onRefused(why, proxy)
  }
  function leave(): void {
    clearTimeout(timer)
    socket.off('data', take).off('end', end).off('close', leave)
  }
  function end(): void {
    // A port probe connects without sending anything.
    if (bytes !== undefined) refuse('cut off')
    else socket.destroy()
  }
  function take(chunk: Buffer): void {
    bytes = bytes === undefined ? chunk : Buffer.concat([bytes, chunk])
    const header = readProxyHeader(bytes)
    if (header === 'more') return
    if ('fault' in header) refuse(header.fault)
    else goOn(bytes.subarray(header.end), header.source)
  }
  function goOn(rest: Buffer, source: Source | undefined): void {
    leave()
    if (source !== undefined) nameClient(socket, source)
    socket.pause()
    if (rest.length > 0) socket.unshift(rest)
    open()
    socket.off('error', ignore)
    if (!socket.destroyed) socket.resume()
  }
  socket.on('data', take).on('end', end).on('close', leave).on('error', ignore)
}

/** Replaces the peer's address of the socket by the client's. */
function nameClient(socket: Socket, source: Source): void {
  Object.defineProperties(socket, {
    remoteAddress: { value: source.address },
    remotePort: { value: source.port },
  })
}

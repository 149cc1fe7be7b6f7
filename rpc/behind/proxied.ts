/** Connections of proxies that name their client before the first byte: each waits for that header, and counts for that client from then on. */
import type { Socket } from 'node:net'
import type { Limits } from '../seam/limits.ts'
import { type ProxyFault, readProxyHeader } from './proxy-header.ts'

export type ProxyRefusal = ProxyFault | 'late' | 'cut off'
export type ProxiedOptions = {
  readonly limits: Pick<Limits, 'headersMs' | 'requestMs'>
  /** Its connection is closed: nobody may guess who its client is. */
  readonly onRefused: (why: ProxyRefusal, proxy: string) => void
}

type Source = { readonly address: string; readonly port: number }

const ignore = (): void => {}

/**
 * Calls `open` once its header is here: what is read of it next is the byte behind that, and its `remoteAddress` and
 * `remotePort` are the client's.
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
    // Who only looks whether somebody listens says nothing at all.
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

/** All that asks a socket for its peer is told of the client. */
function nameClient(socket: Socket, source: Source): void {
  Object.defineProperties(socket, {
    remoteAddress: { value: source.address },
    remotePort: { value: source.port },
  })
}

/** This subscriber uses a WebSocket, and records its events and the end of its connection. */
import { WebSocket } from 'ws'

export type Subscriber = {
  /** The events, each as the keys that `keysOf` gives. */
  readonly emitted: string[]
  readonly bytes: () => number
  /** Subscribes to something else on the same connection. */
  more(params: readonly unknown[]): Promise<void>
  /** Stops reading from the system; `resume` continues. */
  pause(): void
  resume(): void
  /**
   * Resolves when all earlier events have arrived. Rejects with the close code when the connection
   * has ended.
   */
  reached(): Promise<void>
  /** Resolves with code and reason once the connection has ended. */
  readonly closed: Promise<string>
  close(): void
}

/**
 * Opens a subscription.
 * @param keysOf gives the recorded keys of a result
 * @throws when the subscription is refused
 */
export async function subscribe(
  url: string,
  params: readonly unknown[],
  keysOf: (result: unknown) => readonly string[],
): Promise<Subscriber> {
  const socket = new WebSocket(url, { maxPayload: 100_000_000, perMessageDeflate: false })
  const emitted: string[] = []
  const closed = Promise.withResolvers<string>()
  const waiting = new Map<number, (message: { readonly error?: { message: string } }) => void>()
  let bytes = 0
  let next = 1
  socket.on('error', () => {})
  socket.on('close', (code, reason) => closed.resolve(`${code} ${reason}`))
  socket.on('message', (data: Buffer) => {
    bytes += data.length
    const message = JSON.parse(data.toString('latin1')) as {
      readonly id?: number
      readonly params?: { readonly result: unknown }
      readonly error?: { message: string }
    }
    if (message.params !== undefined) emitted.push(...keysOf(message.params.result))
    else waiting.get(message.id!)?.(message)
  })
  const ended = closed.promise.then((how) => {
    throw new Error(`closed with ${how}`)
  })
  ended.catch(() => {})
  await Promise.race([new Promise((resolve) => socket.once('open', resolve)), ended])
  const request = async (method: string, own: readonly unknown[]) => {
    const id = next++
    const response = new Promise<{ readonly error?: { message: string } }>((resolve) =>
      waiting.set(id, resolve),
    )
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params: own }))
    const { error } = await Promise.race([response, ended])
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
  }
  await request('eth_subscribe', params)
  return {
    emitted,
    bytes: () => bytes,
    more: (others) => request('eth_subscribe', others),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    reached: () => request('eth_chainId', []),
    closed: closed.promise,
    close: () => socket.terminate(),
  }
}

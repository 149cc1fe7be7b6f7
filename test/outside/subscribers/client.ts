/** One subscriber over a WebSocket: what it was told, and how its connection ended. */
import { WebSocket } from 'ws'

export type Subscriber = {
  /** Results, each as what `keyOf` makes of it. */
  readonly told: string[]
  readonly bytes: () => number
  /** Subscribes on the same connection to something else. */
  more(params: readonly unknown[]): Promise<void>
  /** Takes nothing from the system any more, or again. */
  pause(): void
  resume(): void
  /** Resolves when all that was sent before is here. Rejects with the close code when the connection has ended. */
  reached(): Promise<void>
  /** Code and reason, once it has ended. */
  readonly closed: Promise<string>
  close(): void
}

/** @param keysOf what of a result is kept. @throws when the subscription is refused */
export async function subscribe(
  url: string,
  params: readonly unknown[],
  keysOf: (result: unknown) => readonly string[],
): Promise<Subscriber> {
  const socket = new WebSocket(url, { maxPayload: 100_000_000, perMessageDeflate: false })
  const told: string[] = []
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
    if (message.params !== undefined) told.push(...keysOf(message.params.result))
    else waiting.get(message.id!)?.(message)
  })
  const ended = closed.promise.then((how) => {
    throw new Error(`closed with ${how}`)
  })
  ended.catch(() => {})
  await Promise.race([new Promise((resolve) => socket.once('open', resolve)), ended])
  const ask = async (method: string, own: readonly unknown[]) => {
    const id = next++
    const answer = new Promise<{ readonly error?: { message: string } }>((resolve) =>
      waiting.set(id, resolve),
    )
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params: own }))
    const { error } = await Promise.race([answer, ended])
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
  }
  await ask('eth_subscribe', params)
  return {
    told,
    bytes: () => bytes,
    more: (others) => ask('eth_subscribe', others),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    reached: () => ask('eth_chainId', []),
    closed: closed.promise,
    close: () => socket.terminate(),
  }
}
